//! Disks that forget and fail.

use mesh_protocol::flight::{FailureCode, FlightOutcome};

use super::fixture::*;

#[test]
fn what_a_caller_was_told_survives_a_power_cut_in_the_same_moment() {
    for seed in 0..6 {
        in_virtual_time(async {
            let mut world = mesh(seed, 2).await;
            world.crash(1, true);
            let number = world.send(0, 1);
            while world.with_book(|book| book.sends[&number].accepted.is_none()) {
                world.pass(1).await;
            }
            world.crash(0, true);
            world.start_all().await.unwrap();
            world.until_whole(SOON_MS).await.expect("they meet again");
            world.pass(5_000).await;
            assert_eq!(copies(&world, 1, number).await, 1, "seed {seed}");
        });
    }
}

#[test]
fn a_run_that_a_crash_ended_is_not_begun_again_and_may_have_run() {
    in_virtual_time(async {
        let mut world = mesh(7, 2).await;
        let number = world.ask(0, 1, 10_000);
        world.pass(1_000).await;
        world.crash(1, true);
        world.pass(500).await;
        world.start(1).await.unwrap();
        let flight = ended(&world, number).await;
        let Some(FlightOutcome::Failed { code, may_have_run, .. }) = flight.outcome else {
            panic!("{:?}", flight.outcome)
        };
        assert_eq!((code, may_have_run), (FailureCode::NodeRestarted, true));
        assert_eq!(world.with_book(|book| book.asks[&number].began.len()), 1);
    });
}

#[test]
fn a_disk_that_fails_stops_new_work_and_loses_none_that_was_accepted() {
    in_virtual_time(async {
        let world = mesh(8, 2).await;
        let before = world.ask(0, 1, 3_000);
        world.pass(100).await;
        let disk = world.disk(0).unwrap();
        disk.fail_at(disk.operations() + 1);
        // The commit of this one fails; the next are refused without being tried.
        let first = sent(&world, 0, 1, "one").await.unwrap_err();
        let second = sent(&world, 0, 1, "two").await.unwrap_err();
        assert_eq!(
            (first.code.as_str(), second.code.as_str()),
            ("storage_unavailable", "storage_unavailable")
        );
        world.pass(2_000).await;
        disk.heal();
        world.pass(10_000).await;
        sent(&world, 0, 1, "three").await.expect("the disk is well again");
        assert!(ended(&world, before).await.outcome.is_some());
        answered(&world, 0, 1).await;
        // A failed event was counted by nobody: it is not in the quarantine, it is held until it is known.
        assert_eq!(world.facts().await.unwrap()[&0].quarantined, 0);
    });
}

/// The core answers a session's beginning only when the session has been given up already.
#[test]
fn a_session_that_ended_before_a_slow_disk_let_it_begin_is_followed_by_another() {
    in_virtual_time(async {
        let world = mesh(16, 2).await;
        world.cut(&[0], &[1]);
        world.cut(&[1], &[0]);
        world.pass(20_000).await;
        world.set_commit_ms(0, 9_000);
        world.mend(&[0], &[1]);
        world.mend(&[1], &[0]);
        world.pass(20_000).await;
        world.set_commit_ms(0, 1);
        world.pass(20_000).await;
        let number = world.send(0, 1);
        world.pass(5_000).await;
        assert_eq!(copies(&world, 1, number).await, 1);
    });
}
