//! Nodes that meet, part and come back.

use mesh_protocol::flight::FlightState;
use mesh_protocol::peer::PeerState;
use mesh_protocol::record::Lifecycle;
use mesh_simulations::whole::World;
use mesh_simulations::whole::dials::meet;
use mesh_simulations::whole::network::Weather;

use super::fixture::*;

/// As many as some seconds allow, unoptimised.
const PAIRS: u64 = 500;

#[test]
fn an_ask_crosses_a_mesh_of_three_that_just_met() {
    in_virtual_time(async {
        let world = mesh(1, 3).await;
        let flight = answered(&world, 0, 2).await;
        assert_eq!(flight.target_node, world.id(2).unwrap());
    });
}

/// Both ends know each other and start in the same moment, at 0 to 20 % loss.
#[test]
fn nodes_that_dial_each_other_at_once_end_with_one_connection() {
    for seed in 0..12 {
        in_virtual_time(async {
            let mut world = mesh(seed, 2).await;
            // The record of the first node's peer is on its disk before it goes.
            world.pass(2_000).await;
            world.crash(0, false);
            world.crash(1, false);
            let lose = u32::try_from(seed).unwrap() * 200 / 11;
            world.network().heal(Weather { lose, ..FAIR });
            world.start_all().await.unwrap();
            world.until_whole(SOON_MS).await.expect("they meet");
            world.network().heal(FAIR);
            // A loser is retired once its streams have ended, after five seconds at the latest.
            world.pass(8_000).await;
            assert_eq!((world.connections(0), world.connections(1)), (Some(1), Some(1)), "seed {seed}");
            answered(&world, 0, 1).await;
            answered(&world, 1, 0).await;
        });
    }
}

/// The same by the hundred, without anything above the network side. `mesh-simulations dials` runs a thousand.
#[test]
fn pairs_that_dial_each_other_at_once_end_with_one_connection_at_any_loss() {
    let meetings = meet(0, PAIRS).unwrap();
    assert!(meetings.failures().next().is_none(), "{meetings}");
    assert!(meetings.with_a_loser() * 20 > meetings.all.len(), "there was something to settle: {meetings}");
}

#[test]
fn nodes_that_say_nowhere_where_they_are_are_linked_through_a_third_and_never_falsely_judged() {
    in_virtual_time(async {
        let mut world = World::new(17, 3, FAIR).unwrap();
        world.hide(1);
        world.hide(2);
        world.start_all().await.unwrap();
        let judged = |world: &World| {
            let views = (0..3).filter_map(|observer| world.view(observer)).flat_map(|view| view.peers);
            views.filter(|peer| peer.state == PeerState::Unreachable).count()
        };
        let since = world.now_ms();
        while !world.is_whole() {
            assert!(world.now_ms() - since < 10_000, "they meet");
            assert_eq!(judged(&world), 0);
            world.pass(20).await;
        }
        answered(&world, 1, 2).await;
        answered(&world, 2, 1).await;

        // Both start again, with records on their disks and nobody linked yet who could carry.
        world.crash(1, false);
        world.crash(2, false);
        world.pass(40_000).await;
        world.start_all().await.unwrap();
        for _ in 0..500 {
            world.pass(20).await;
            let hidden = [(1, 2), (2, 1)];
            let falsely = hidden.iter().any(|(observer, peer)| {
                let peers = world.view(*observer).unwrap().peers;
                peers.iter().any(|it| Some(it.node) == world.id(*peer) && it.state == PeerState::Unreachable)
            });
            assert!(!falsely, "{} ms", world.now_ms());
        }
        world.until_whole(SOON_MS).await.expect("they meet again");
        answered(&world, 1, 2).await;
    });
}

#[test]
fn a_restarted_peer_is_asked_again_within_one_back_off() {
    for power in [false, true] {
        in_virtual_time(async {
            let mut world = mesh(2, 3).await;
            world.crash(1, power);
            world.pass(5_000).await;
            world.start(1).await.unwrap();
            let back = world.now_ms();
            answered(&world, 0, 1).await;
            assert!(world.now_ms() - back <= 3_000, "it took {} ms", world.now_ms() - back);
        });
    }
}

#[test]
fn a_stopped_node_said_so_and_what_it_took_is_acknowledged() {
    in_virtual_time(async {
        let mut world = mesh(3, 3).await;
        let number = world.send(0, 1);
        world.pass(200).await;
        world.stop(1).await;
        world.pass(500).await;
        for observer in [0, 2] {
            let view = world.view(observer).unwrap();
            let peer = view.peers.iter().find(|peer| Some(peer.node) == world.id(1)).unwrap();
            assert_eq!(peer.lifecycle, Some(Lifecycle::Leaving), "{peer:?}");
        }
        let facts = world.facts().await.unwrap();
        assert!(facts[&0].outboxes.iter().all(|outbox| outbox.outbox.count == 0), "{:?}", facts[&0].outboxes);
        world.start(1).await.unwrap();
        assert_eq!(copies(&world, 1, number).await, 1);
    });
}

#[test]
fn an_ask_to_a_node_that_is_gone_is_held_and_says_so() {
    in_virtual_time(async {
        let mut world = mesh(4, 3).await;
        world.crash(1, true);
        let gone = |world: &World| {
            let peers = world.view(0).unwrap().peers;
            peers.iter().any(|peer| Some(peer.node) == world.id(1) && peer.state == PeerState::Unreachable)
        };
        while !gone(&world) {
            world.pass(100).await;
        }
        world.pass(100).await;
        let told = receipt(&world, 0, 1, "0 10").await.unwrap();
        let held = told.held.expect("it is held");
        assert_eq!((held.state.as_str(), held.queued), ("unreachable", 1), "{held:?}");
        assert!(!held.cause.is_empty() && held.since_ms.is_some(), "{held:?}");
        let told = sent(&world, 0, 1, "hello").await.unwrap();
        assert_eq!(told.held.expect("it is held too").queued, 2);
    });
}

#[test]
fn asks_over_many_reconnections_are_begun_in_order() {
    in_virtual_time(async {
        let world = mesh(5, 2).await;
        let mut numbers = Vec::new();
        for round in 0..30 {
            numbers.push(world.ask(0, 1, 5));
            if round % 3 == 0 {
                world.cut(&[0], &[1]);
                world.pass(4_000).await;
                world.mend(&[0], &[1]);
            }
            world.pass(300).await;
        }
        for number in &numbers {
            let flight = ended(&world, *number).await;
            assert_eq!(flight.state, FlightState::Completed, "{flight:?}");
        }
        let begun = |number| world.with_book(|book| book.asks[number].began.clone());
        let order: Vec<u64> = numbers.iter().map(|number| begun(number)[0].order).collect();
        assert!(order.is_sorted(), "{order:?}");
        assert!(numbers.iter().all(|number| begun(number).len() == 1));
    });
}
