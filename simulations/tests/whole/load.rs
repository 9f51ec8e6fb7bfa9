//! One peer that is slow or gone harms no other.

use super::fixture::*;

/// Milliseconds an answer takes, the worst of many.
async fn worst_answer_ms(world: &mesh_simulations::whole::World) -> u64 {
    let mut worst = 0;
    for _ in 0..20 {
        let since = world.now_ms();
        let number = world.ask(0, 2, 1);
        loop {
            world.pass(5).await;
            if world.flight(number).await.is_some_and(|flight| flight.terminal) {
                break;
            }
        }
        worst = worst.max(world.now_ms() - since);
    }
    worst
}

#[test]
fn a_slow_receiver_slows_nobody_else() {
    in_virtual_time(async {
        let world = mesh(13, 3).await;
        let before = worst_answer_ms(&world).await;
        world.set_commit_ms(1, 2_000);
        let body = "x".repeat(200_000);
        for _ in 0..20 {
            sent(&world, 0, 1, &body).await.unwrap();
        }
        let beside = worst_answer_ms(&world).await;
        assert!(beside < 2 * before, "{before} ms alone, {beside} ms beside a slow receiver");
        world.set_commit_ms(1, 1);
        world.pass(30_000).await;
        let facts = world.facts().await.unwrap();
        assert!(facts[&0].outboxes.iter().all(|outbox| outbox.outbox.count == 0));
    });
}

#[test]
fn a_full_outbox_refuses_with_numbers_and_others_are_served() {
    in_virtual_time(async {
        let mut world = mesh(14, 3).await;
        world.crash(1, true);
        let body = "x".repeat(1_000_000);
        let mut accepted = 0_u64;
        let refused = loop {
            match sent(&world, 0, 1, &body).await {
                Ok(_) => accepted += 1,
                Err(error) => break error,
            }
            assert!(accepted < 200, "an outbox has a limit");
        };
        assert_eq!(refused.code, "outbox_full", "{refused:?}");
        assert!(refused.message.chars().any(|c| c.is_ascii_digit()), "{refused:?}");
        answered(&world, 0, 2).await;
        // Nothing that was accepted is dropped.
        world.start(1).await.unwrap();
        world.until_whole(SOON_MS).await.expect("it is back");
        let mut waiting = accepted;
        for _ in 0..120 {
            world.pass(1_000).await;
            let facts = world.facts().await.unwrap();
            waiting = facts[&0].outboxes.iter().map(|outbox| outbox.outbox.count).sum();
            if waiting == 0 {
                break;
            }
        }
        assert_eq!(waiting, 0, "of {accepted}");
    });
}
