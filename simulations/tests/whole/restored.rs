//! Disks put back to a backup: found, said, and nothing swallowed.

use mesh_node_core::outbox::{ReportKind, Side};

use super::fixture::*;

#[test]
fn a_restored_sender_says_so_and_nothing_it_sends_after_that_is_swallowed() {
    in_virtual_time(async {
        let mut world = mesh(9, 2).await;
        let old = world.send(0, 1);
        world.pass(1_000).await;
        let backup = world.back_up(0).unwrap();
        let forgotten: Vec<u64> = (0..5).map(|_| world.send(0, 1)).collect();
        world.pass(1_000).await;
        world.restore(0, &backup);
        world.start(0).await.unwrap();
        let new: Vec<u64> = (0..5).map(|_| world.send(0, 1)).collect();
        world.until_whole(SOON_MS).await.expect("they meet again");
        world.pass(5_000).await;
        for number in [old].iter().chain(&forgotten).chain(&new) {
            assert_eq!(copies(&world, 1, *number).await, 1, "message {number}");
        }
        let facts = world.facts().await.unwrap();
        let said = facts[&0].reports.iter().any(|report| report.kind == ReportKind::SenderRolledBack);
        assert!(said, "{:?}", facts[&0].reports);
    });
}

#[test]
fn a_restored_receiver_gets_again_what_is_kept_and_both_ends_say_the_same_range() {
    in_virtual_time(async {
        let mut world = mesh(10, 2).await;
        let old = world.send(0, 1);
        world.pass(1_000).await;
        let backup = world.back_up(1).unwrap();
        let forgotten: Vec<u64> = (0..5).map(|_| world.send(0, 1)).collect();
        world.pass(1_000).await;
        world.restore(1, &backup);
        world.start(1).await.unwrap();
        world.until_whole(SOON_MS).await.expect("they meet again");
        world.pass(5_000).await;
        for number in [old].iter().chain(&forgotten) {
            assert_eq!(copies(&world, 1, *number).await, 1, "message {number}");
        }
        let facts = world.facts().await.unwrap();
        let range = |at: usize, side: Side| {
            let found = facts[&at]
                .reports
                .iter()
                .find(|report| report.kind == ReportKind::ReceiverRolledBack && report.side == side);
            found.map(|report| (report.from, report.to))
        };
        let (sending, receiving) = (range(0, Side::Sending), range(1, Side::Receiving));
        assert!(sending.is_some(), "{:?}", facts[&0].reports);
        assert_eq!(sending, receiving, "{:?}", facts[&1].reports);
    });
}
