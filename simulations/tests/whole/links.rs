//! What becomes of links: moved, dialled at once by many, ended while they are full.

use mesh_protocol::peer::PeerState;
use mesh_simulations::whole::World;

use super::fixture::*;

/// Longer than a silent connection is kept (15 s), in virtual milliseconds.
const IDLE_MS: u64 = 16_000;

fn sees(world: &World, observer: usize, peer: usize) -> PeerState {
    let peers = world.view(observer).unwrap().peers;
    peers.iter().find(|it| Some(it.node) == world.id(peer)).unwrap().state
}

#[test]
fn a_hundred_asks_to_a_node_that_is_not_linked_wait_on_one_dial() {
    in_virtual_time(async {
        let world = mesh(18, 2).await;
        world.cut(&[0], &[1]);
        world.cut(&[1], &[0]);
        while sees(&world, 0, 1) != PeerState::Unreachable {
            world.pass(100).await;
        }
        // From here on the wait between two dials is several seconds.
        world.pass(60_000).await;
        let before = world.dials(0).unwrap();
        let numbers: Vec<u64> = (0..100).map(|_| world.ask(0, 1, 1)).collect();
        world.pass(500).await;
        assert!(world.with_book(|book| numbers.iter().all(|number| book.asks[number].accepted.is_some())));
        assert!(world.dials(0).unwrap() <= before + 1, "asking is no reason to dial again");
        world.mend(&[0], &[1]);
        world.mend(&[1], &[0]);
        for number in numbers {
            assert!(ended(&world, number).await.reply_message_id.is_some());
        }
    });
}

#[test]
fn a_node_that_came_back_at_another_address_is_dialled_there() {
    in_virtual_time(async {
        let mut world = mesh(19, 3).await;
        world.crash(1, true);
        world.pass(60_000).await;
        assert_eq!(sees(&world, 0, 1), PeerState::Unreachable);
        world.move_away(1);
        world.start(1).await.unwrap();
        // It says so to one that it dials, and the others hear of it.
        world.until_whole(5_000).await.expect("everybody finds it");
        answered(&world, 0, 1).await;
        answered(&world, 2, 1).await;
    });
}

#[test]
fn a_node_that_ends_while_its_links_are_full_is_missed_in_time_and_nothing_it_accepted_is_lost() {
    for in_order in [true, false] {
        in_virtual_time(async {
            let mut world = mesh(20, 2).await;
            let body = "x".repeat(500_000);
            for _ in 0..20 {
                sent(&world, 0, 1, &body).await.unwrap();
            }
            world.pass(30).await;
            if in_order {
                world.stop(0).await;
            } else {
                world.crash(0, false);
            }
            let since = world.now_ms();
            while sees(&world, 1, 0) == PeerState::Alive {
                world.pass(50).await;
                assert!(world.now_ms() - since <= IDLE_MS, "it is still called alive");
            }
            world.start(0).await.unwrap();
            world.until_whole(SOON_MS).await.expect("it is back");
            let mut waiting = u64::MAX;
            for _ in 0..60 {
                world.pass(1_000).await;
                let facts = world.facts().await.unwrap();
                waiting = facts[&0].outboxes.iter().map(|outbox| outbox.outbox.count).sum();
                if waiting == 0 {
                    break;
                }
            }
            assert_eq!(waiting, 0, "in order: {in_order}");
            assert_eq!(world.messages(1).unwrap(), 20, "each is there once");
        });
    }
}
