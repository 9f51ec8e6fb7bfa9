//! Wall clocks that are set, and machines that sleep.

use mesh_protocol::peer::PeerState;

use super::fixture::*;

const DAY_MS: i64 = 24 * 3_600_000;

#[test]
fn a_wall_clock_set_a_day_forth_and_back_ends_no_link_and_repeats_and_loses_nothing() {
    in_virtual_time(async {
        let world = mesh(11, 3).await;
        let since = |world: &mesh_simulations::whole::World| {
            let view = world.view(0).unwrap();
            view.peers.iter().map(|peer| (peer.state, peer.since.node_ms)).collect::<Vec<_>>()
        };
        let before = since(&world);
        let mut numbers = Vec::new();
        for by_ms in [DAY_MS, -2 * DAY_MS, DAY_MS] {
            let ask = world.ask(1, 0, 50);
            world.set_wall(0, by_ms);
            numbers.push(world.send(0, 1));
            world.pass(10_000).await;
            assert!(ended(&world, ask).await.reply_message_id.is_some());
        }
        for number in numbers {
            assert_eq!(copies(&world, 1, number).await, 1);
        }
        assert_eq!(before, since(&world), "no link ended");
    });
}

#[test]
fn a_machine_that_slept_judges_nobody_and_loses_nothing() {
    in_virtual_time(async {
        let world = mesh(12, 3).await;
        let number = world.send(0, 1);
        world.sleep(0);
        world.pass(120_000).await;
        let other = world.view(1).unwrap();
        let asleep = other.peers.iter().find(|peer| Some(peer.node) == world.id(0)).unwrap();
        assert_eq!(asleep.state, PeerState::Unreachable, "the others noticed");
        world.wake(0);
        for _ in 0..200 {
            world.pass(50).await;
            let woken = world.view(0).unwrap();
            let judged = woken.peers.iter().find(|peer| peer.state == PeerState::Unreachable);
            assert!(judged.is_none(), "{judged:?}");
        }
        world.until_whole(SOON_MS).await.expect("they meet again");
        world.pass(5_000).await;
        assert_eq!(copies(&world, 1, number).await, 1);
    });
}
