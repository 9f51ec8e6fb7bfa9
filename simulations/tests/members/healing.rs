//! Splits of every kind, and that they heal without anybody's help.

use mesh_protocol::peer::PeerState;
use mesh_simulations::members::Mesh;

use crate::{halves, heals_within, joined};

const HEAL_MS: u64 = 5_000;
/// Until every record is everywhere.
const RECORDS_MS: u64 = 2_000;

/// Splits a mesh in halves, changes every record meanwhile, and heals it.
fn split_and_heal(size: usize, loss: u32, seed: u64, split_ms: u64) {
    let mut mesh = joined(size, loss, seed);
    mesh.split(halves(size));
    mesh.run_for(split_ms / 2);
    (0..size).for_each(|index| mesh.change(index, 9));
    mesh.run_for(split_ms / 2);
    mesh.heal();
    let records = mesh.run_until(HEAL_MS, Mesh::has_every_record_everywhere);
    assert!(records.is_some_and(|ms| ms <= RECORDS_MS), "{size} nodes, {loss} %, seed {seed}: {records:?}");
    heals_within(&mut mesh, HEAL_MS, "a split in halves");
}

#[test]
fn halves_that_were_apart_for_a_minute_agree_within_two_seconds() {
    for (size, seed) in [(5, 10), (5, 11), (5, 12), (20, 13), (20, 14)] {
        split_and_heal(size, 0, seed, 60_000);
    }
}

#[test]
fn halves_that_were_apart_for_an_hour_agree_within_two_seconds() {
    split_and_heal(5, 0, 20, 3_600_000);
}

#[test]
fn halves_that_were_apart_for_two_days_agree_within_two_seconds() {
    split_and_heal(5, 0, 21, 48 * 3_600_000);
}

#[test]
fn halves_heal_with_loss_too() {
    for (size, seed) in [(5, 40), (20, 41)] {
        let mut mesh = joined(size, 5, seed);
        mesh.split(halves(size));
        mesh.run_for(60_000);
        mesh.heal();
        heals_within(&mut mesh, HEAL_MS, "a split with loss");
    }
}

#[test]
fn two_nodes_heal_too() {
    for seed in 50..56 {
        let mut mesh = joined(2, 0, seed);
        mesh.split(halves(2));
        mesh.run_for(60_000);
        assert!(mesh.sees(0, 1, PeerState::Unreachable) && mesh.sees(1, 0, PeerState::Unreachable));
        mesh.heal();
        heals_within(&mut mesh, HEAL_MS, "two nodes");
    }
}

#[test]
fn three_parts_heal() {
    for seed in 60..63 {
        let mut mesh = joined(9, 0, seed);
        mesh.split(|index| 1 << (index % 3));
        mesh.run_for(60_000);
        mesh.heal();
        heals_within(&mut mesh, HEAL_MS, "three parts");
    }
}

#[test]
fn parts_that_overlap_agree_while_they_last_and_heal() {
    for seed in 70..73 {
        let mut mesh = joined(9, 0, seed);
        // The middle three reach everybody, the outer ones only their own side and the middle.
        let parts = |index: usize| [1, 1, 1, 3, 3, 3, 2, 2, 2][index];
        mesh.split(parts);
        mesh.run_for(60_000);
        mesh.change(0, 5);
        assert!(
            mesh.run_until(5_000, Mesh::has_every_record_everywhere).is_some(),
            "news go round by the middle"
        );
        assert!(mesh.sees(0, 8, PeerState::Unreachable) && mesh.sees(4, 8, PeerState::Alive));
        mesh.split(|index| [1, 3, 2, 1, 3, 2, 1, 3, 2][index]);
        mesh.run_for(30_000);
        mesh.heal();
        heals_within(&mut mesh, HEAL_MS, "parts that overlap");
    }
}

#[test]
fn a_node_restarted_elsewhere_during_a_split_is_found_again() {
    for seed in 80..84 {
        let mut mesh = joined(5, 0, seed);
        mesh.split(halves(5));
        mesh.run_for(30_000);
        mesh.crash(4);
        mesh.run_for(5_000);
        mesh.hosts[4].address = "127.0.0.9:4444".parse().unwrap();
        mesh.start(4);
        mesh.run_for(25_000);
        mesh.heal();
        heals_within(&mut mesh, HEAL_MS, "a restart elsewhere");
    }
}

#[test]
fn a_side_that_missed_a_revocation_hears_of_it_within_five_seconds() {
    // The list itself travels as a question at every new link: what is shown here is that there is such a link.
    for seed in 90..94 {
        let mut mesh = joined(6, 0, seed);
        mesh.split(halves(6));
        mesh.run_for(60_000);
        let linked = |mesh: &Mesh, one: usize| mesh.view(one, 5 - one).is_some_and(|view| view.linked);
        assert!(!(0..6).any(|one| linked(&mesh, one)));
        mesh.heal();
        let took = mesh.run_until(HEAL_MS, |mesh| (0..6).all(|one| linked(mesh, one)));
        assert!(took.is_some(), "seed {seed}");
    }
}
