//! Joining, rest and noticing a crash.

use mesh_protocol::peer::PeerState;
use mesh_simulations::members::Mesh;

use crate::joined;

#[test]
fn five_and_twenty_nodes_join_within_five_seconds() {
    for (size, loss, seed) in [(5, 0, 1), (5, 5, 2), (20, 0, 3), (20, 5, 4), (32, 0, 5)] {
        joined(size, loss, seed);
    }
}

#[test]
fn a_crash_is_noticed_by_all_and_nobody_else_is_blamed() {
    for (size, loss) in [(3, 0), (5, 0), (5, 5), (20, 0), (20, 5)] {
        let mut mesh = joined(size, loss, 7);
        mesh.crash(1);
        let noticed = |mesh: &Mesh| crate::all_see(mesh, 1, PeerState::Unreachable);
        let took = mesh.run_until(40_000, noticed);
        assert!(took.is_some(), "{size} nodes, {loss} %");
        assert!(mesh.verdicts().all(|change| change.peer == 1), "{size} nodes, {loss} %");
    }
}

#[test]
fn a_quick_restart_costs_nobody_a_verdict() {
    let mut mesh = joined(5, 0, 50);
    mesh.crash(2);
    mesh.run_for(1_000);
    mesh.start(2);
    assert!(mesh.run_until(5_000, Mesh::is_complete).is_some());
    assert_eq!(mesh.verdicts().count(), 0);
}

#[test]
fn an_hour_without_loss_has_no_false_verdict_and_costs_little() {
    quiet_hour(5, 0, 60);
    quiet_hour(20, 0, 61);
}

#[test]
fn an_hour_with_loss_has_no_false_verdict() {
    for (size, seed) in [(3, 62), (5, 63), (20, 64)] {
        quiet_hour(size, 5, seed);
    }
}

fn quiet_hour(size: usize, loss: u32, seed: u64) {
    let mut mesh = joined(size, loss, seed);
    mesh.run_for(15_000);
    let (before, seconds) = (mesh.cost(), 3_600);
    mesh.run_for(seconds * 1_000);
    let spent = mesh.cost() - before;
    assert_eq!(mesh.verdicts().count(), 0, "{size} nodes, {loss} %");
    let probes = usize::try_from(seconds).unwrap() * size;
    let suspected = mesh.changes.iter().filter(|change| change.state == PeerState::Suspect).count();
    assert!(suspected * 50 < probes, "{suspected} suspicions by {probes} probes: a lost datagram is no news");
    let each = (spent.datagram_bytes + spent.exchange_bytes) / seconds / size as u64;
    assert!(each <= 150, "an idle node of {size} costs {each} B/s");
}

#[test]
fn news_reaches_everybody_within_a_second() {
    for size in [5, 32] {
        let mut mesh = joined(size, 0, 30);
        mesh.change(4, 3);
        assert!(mesh.run_until(1_000, Mesh::is_complete).is_some(), "{size} nodes");
    }
}

#[test]
fn one_seed_has_one_trace_and_another_seed_another() {
    let trace = |seed| {
        let mut mesh = joined(12, 5, seed);
        mesh.split(crate::halves(12));
        mesh.run_for(30_000);
        mesh.heal();
        mesh.run_for(5_000);
        mesh.trace
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}
