//! Faults of one node that must not become verdicts about others.

use mesh_node_core::membership::Input;
use mesh_node_core::time::NodeTime;
use mesh_protocol::peer::PeerState;
use mesh_protocol::record::Lifecycle;

use crate::bench::{Bench, OTHER, PEER};
use crate::mesh::Mesh;

fn joined(size: usize, seed: u64) -> Mesh {
    let mut mesh = Mesh::joined_through_the_first(size, 0, seed);
    assert!(mesh.run_until(5_000, Mesh::is_complete).is_some());
    mesh.run_for(15_000);
    mesh
}

fn verdicts_by(mesh: &Mesh, observer: usize) -> usize {
    let by =
        |change: &&crate::mesh::Change| change.observer == observer && change.state == PeerState::Unreachable;
    mesh.changes.iter().filter(by).count()
}

fn is_isolated(mesh: &Mesh, observer: usize) -> bool {
    let machine = mesh.hosts[observer].machine.as_ref().unwrap();
    machine.view(NodeTime(mesh.now)).isolated_since.is_some()
}

#[test]
fn a_node_that_lost_its_network_judges_nobody_and_recovers() {
    for seed in 1..6 {
        let mut mesh = joined(6, seed);
        mesh.split(|index| u8::from(index == 3));
        mesh.run_for(120_000);
        assert!(is_isolated(&mesh, 3), "seed {seed}");
        assert_eq!(verdicts_by(&mesh, 3), 0, "seed {seed}");
        assert!((0..6).all(|observer| observer == 3 || mesh.sees(observer, 3, PeerState::Unreachable)));
        mesh.heal();
        assert!(mesh.run_until(5_000, Mesh::is_complete).is_some(), "seed {seed}");
        assert!(!is_isolated(&mesh, 3));
        assert_eq!(verdicts_by(&mesh, 3), 0, "seed {seed}");
    }
}

#[test]
fn a_node_that_slept_judges_nobody_for_what_it_missed() {
    for seed in 10..14 {
        let mut mesh = joined(5, seed);
        mesh.suspend(2);
        mesh.run_for(300_000);
        assert!(mesh.sees(0, 2, PeerState::Unreachable));
        mesh.resume(2);
        let took = mesh.run_until(5_000, Mesh::is_complete);
        assert!(took.is_some(), "seed {seed}");
        assert_eq!(verdicts_by(&mesh, 2), 0, "seed {seed}");
    }
}

#[test]
fn what_seemed_to_expire_during_sleep_did_not() {
    let mut bench = Bench::with_two_links();
    bench.pass(3_500, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
    bench.now += 300_000;
    bench.feed(Input::Wake);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
    bench.pass(15_000, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect, "its link may still have to be dialled anew");
    bench.pass(20_000, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Unreachable);
}

#[test]
fn a_node_that_leaves_is_seen_to_leave_and_is_not_missed() {
    let mut mesh = joined(5, 20);
    mesh.feed(1, Input::Announce(Lifecycle::Left));
    let all_know =
        |mesh: &Mesh| (0..5).all(|observer| observer == 1 || mesh.sees(observer, 1, PeerState::Left));
    let took = mesh.run_until(2_000, all_know);
    println!("a farewell reached all after {took:?} ms");
    assert!(took.is_some());
    mesh.crash(1);
    mesh.run_for(120_000);
    assert!(all_know(&mesh));
    assert!(mesh.changes.iter().all(|change| change.state != PeerState::Unreachable));
}

#[test]
fn news_reaches_everybody_within_a_second() {
    for size in [5, 32] {
        let mut mesh = joined(size, 30);
        let mut changed = crate::mesh::advertisement(4, mesh.hosts[4].address);
        changed.load.running = 3;
        mesh.feed(4, Input::Advertise(Box::new(changed)));
        let took = mesh.run_until(1_000, Mesh::is_complete);
        println!("{size} nodes: a change reached all after {took:?} ms");
        assert!(took.is_some());
    }
}

#[test]
fn a_node_whose_disk_was_set_back_overtakes_its_former_self() {
    let mut mesh = joined(4, 40);
    for _ in 0..5 {
        mesh.crash(2);
        mesh.run_for(500);
        mesh.start(2);
        mesh.run_for(5_000);
    }
    mesh.crash(2);
    mesh.set_back_epoch(2, 1);
    mesh.start(2);
    assert!(mesh.run_until(5_000, Mesh::is_complete).is_some());
    let version =
        |index: usize| mesh.hosts[index].machine.as_ref().unwrap().directory().version(&mesh.hosts[2].id);
    assert!(version(0).unwrap().epoch > 6);
    assert_eq!(version(0), version(2));
}
