//! Faults of one node that must not become verdicts about others.

use mesh_node_core::membership::Input;
use mesh_protocol::peer::PeerState;
use mesh_protocol::record::Lifecycle;
use mesh_simulations::members::Mesh;

use crate::{all_see, joined, verdicts_by};

fn is_isolated(mesh: &Mesh, observer: usize) -> bool {
    mesh.up().any(|(index, machine)| index == observer && machine.is_isolated())
}

#[test]
fn a_node_that_lost_its_network_judges_nobody_and_recovers() {
    for seed in 1..6 {
        let mut mesh = joined(6, 0, seed);
        mesh.split(|index| if index == 3 { 2 } else { 1 });
        mesh.run_for(120_000);
        assert!(is_isolated(&mesh, 3), "seed {seed}");
        assert_eq!(verdicts_by(&mesh, 3), 0, "seed {seed}");
        assert!(all_see(&mesh, 3, PeerState::Unreachable));
        mesh.heal();
        assert!(mesh.run_until(5_000, Mesh::is_complete).is_some(), "seed {seed}");
        assert!(!is_isolated(&mesh, 3));
        assert_eq!(verdicts_by(&mesh, 3), 0, "seed {seed}");
    }
}

#[test]
fn a_node_that_slept_judges_nobody_for_what_it_missed() {
    for seed in 10..14 {
        let mut mesh = joined(5, 0, seed);
        mesh.suspend(2);
        mesh.run_for(300_000);
        assert!(mesh.sees(0, 2, PeerState::Unreachable));
        mesh.resume(2);
        assert!(mesh.run_until(5_000, Mesh::is_complete).is_some(), "seed {seed}");
        assert_eq!(verdicts_by(&mesh, 2), 0, "seed {seed}");
    }
}

#[test]
fn a_node_paused_for_ten_seconds_blames_nobody_when_it_goes_on() {
    for (size, seed) in [(5, 15), (20, 16)] {
        let mut mesh = joined(size, 0, seed);
        mesh.suspend(2);
        mesh.run_for(10_000);
        mesh.resume(2);
        mesh.run_for(60_000);
        assert!(mesh.is_complete());
        assert_eq!(verdicts_by(&mesh, 2), 0, "seed {seed}");
        assert!(mesh.verdicts().all(|change| change.peer == 2), "seed {seed}");
    }
}

#[test]
fn a_node_that_leaves_is_seen_to_leave_and_is_not_missed() {
    let mut mesh = joined(5, 0, 20);
    mesh.feed(1, Input::Announce(Lifecycle::Left));
    let all_know = |mesh: &Mesh| all_see(mesh, 1, PeerState::Left);
    assert!(mesh.run_until(2_000, all_know).is_some());
    mesh.crash(1);
    mesh.run_for(120_000);
    assert!(all_know(&mesh));
    assert_eq!(mesh.verdicts().count(), 0);
    mesh.start(1);
    assert!(mesh.run_until(5_000, Mesh::is_complete).is_some(), "a later start takes it back");
}

#[test]
fn a_node_whose_disk_was_set_back_overtakes_its_former_self() {
    let mut mesh = joined(4, 0, 40);
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
    let version = |observer: usize| mesh.view(observer, 2).and_then(|view| view.version);
    assert!(version(0).unwrap().epoch > 6);
    assert_eq!(version(0), version(1));
}

#[test]
fn a_peer_reached_by_others_only_is_shown_so() {
    let mut mesh = joined(6, 0, 30);
    mesh.cut_one_way(0, 1);
    mesh.run_for(8_000);
    let view = mesh.view(0, 1).unwrap();
    assert_eq!(view.state, PeerState::Alive, "helpers reach it: {}", view.cause);
    assert!(view.cause.contains("does not answer this node"), "{}", view.cause);
    mesh.run_for(180_000);
    let view = mesh.view(0, 1).unwrap();
    assert_eq!(view.state, PeerState::Unreachable, "its link has ended and it cannot be dialled");
    assert!(view.seen_by.iter().any(|seen| seen.answers), "{:?}", view.seen_by);
    let between = [(0, 1), (1, 0)];
    assert!(mesh.verdicts().all(|change| between.contains(&(change.observer, change.peer))));
    mesh.heal();
    assert!(mesh.run_until(5_000, Mesh::is_complete).is_some());
}
