//! Joining, noticing and healing, with and without loss.

use mesh_protocol::peer::PeerState;

use crate::mesh::Mesh;

const JOIN_MS: u64 = 5_000;
const HEAL_MS: u64 = 5_000;

fn joined(size: usize, loss_percent: u32, seed: u64) -> Mesh {
    let mut mesh = Mesh::joined_through_the_first(size, loss_percent, seed);
    let took = mesh.run_until(JOIN_MS, Mesh::is_complete);
    println!("{size} nodes, {loss_percent} % loss: joined in {took:?} ms");
    assert!(took.is_some(), "{size} nodes at {loss_percent} % did not join in {JOIN_MS} ms");
    mesh
}

fn heals_in_time(size: usize, loss_percent: u32, seed: u64) {
    let mut mesh = joined(size, loss_percent, seed);
    mesh.run_for(20_000);
    mesh.split(|index| u8::from(index < size / 2));
    mesh.run_for(60_000);
    assert!(mesh.sees(0, size - 1, PeerState::Unreachable) && mesh.sees(size - 1, 0, PeerState::Unreachable));
    mesh.heal();
    let took = mesh.run_until(HEAL_MS, Mesh::is_complete);
    println!("{size} nodes, {loss_percent} % loss: healed in {took:?} ms");
    assert!(took.is_some(), "{size} nodes at {loss_percent} % (seed {seed}) did not heal in {HEAL_MS} ms");
}

fn a_crash_is_noticed(size: usize, loss_percent: u32, seed: u64) {
    let mut mesh = joined(size, loss_percent, seed);
    mesh.run_for(20_000);
    mesh.crash(1);
    let all_see_it = |mesh: &Mesh| {
        (0..size).all(|observer| observer == 1 || mesh.sees(observer, 1, PeerState::Unreachable))
    };
    let crashed = mesh.now;
    let took = mesh.run_until(40_000, all_see_it);
    let verdict = |change: &&crate::mesh::Change| change.state == PeerState::Unreachable;
    let first = mesh.changes.iter().find(verdict).map(|change| change.at - crashed);
    println!(
        "{size} nodes, {loss_percent} % loss: crash judged first after {first:?} ms, by all after {took:?} ms"
    );
    assert!(took.is_some());
    assert!(mesh.changes.iter().filter(verdict).all(|change| change.peer == 1), "{:?}", mesh.changes);
}

#[test]
fn five_nodes_join_within_five_seconds() {
    joined(5, 0, 1);
    joined(5, 5, 2);
}

#[test]
fn twenty_nodes_join_within_five_seconds() {
    joined(20, 0, 3);
    joined(20, 5, 4);
}

#[test]
fn thirty_two_nodes_join_within_five_seconds() {
    joined(32, 0, 5);
    joined(32, 5, 6);
}

#[test]
fn a_crash_is_noticed_by_all_and_nobody_else_is_blamed() {
    for (size, loss) in [(3, 0), (5, 0), (5, 5), (20, 0), (20, 5), (32, 0)] {
        a_crash_is_noticed(size, loss, 7);
    }
}

#[test]
fn a_split_of_a_minute_heals_within_five_seconds() {
    for (size, loss) in [(5, 0), (5, 5), (20, 0), (20, 5)] {
        for seed in 10..13 {
            heals_in_time(size, loss, seed);
        }
    }
}

#[test]
fn two_nodes_heal_too() {
    for seed in 20..26 {
        heals_in_time(2, 0, seed);
    }
}

#[test]
fn a_split_of_hours_heals_within_a_back_off() {
    let mut mesh = joined(4, 0, 30);
    mesh.split(|index| u8::from(index < 2));
    mesh.run_for(2 * 3_600 * 1_000);
    mesh.heal();
    let took = mesh.run_until(40_000, Mesh::is_complete);
    println!("2 h split healed in {took:?} ms");
    assert!(took.is_some());
}

#[test]
fn a_node_restarted_elsewhere_during_a_split_is_found_again() {
    for seed in 40..44 {
        let mut mesh = joined(5, 0, seed);
        mesh.split(|index| u8::from(index < 2));
        mesh.run_for(30_000);
        mesh.crash(4);
        mesh.run_for(5_000);
        mesh.hosts[4].address = "127.0.0.9:4444".parse().unwrap();
        mesh.start(4);
        mesh.run_for(25_000);
        mesh.heal();
        let took = mesh.run_until(HEAL_MS, Mesh::is_complete);
        assert!(took.is_some(), "seed {seed}");
    }
}

#[test]
fn a_quick_restart_costs_nobody_a_verdict() {
    let mut mesh = joined(5, 0, 50);
    mesh.run_for(10_000);
    mesh.crash(2);
    mesh.run_for(1_000);
    mesh.start(2);
    assert!(mesh.run_until(5_000, Mesh::is_complete).is_some());
    assert!(mesh.changes.iter().all(|change| change.state != PeerState::Unreachable));
}

#[test]
fn an_hour_without_loss_has_no_false_verdict_and_costs_little() {
    let mut mesh = joined(5, 0, 60);
    quiet_hour(&mut mesh);
}

#[test]
fn an_hour_with_loss_has_no_false_verdict() {
    for (size, seed) in [(3, 61), (5, 62), (12, 63)] {
        let mut mesh = joined(size, 5, seed);
        quiet_hour(&mut mesh);
    }
}

fn quiet_hour(mesh: &mut Mesh) {
    mesh.run_for(30_000);
    let spent = |mesh: &Mesh| -> (u64, u64) {
        let datagrams = mesh.hosts.iter().map(|host| host.datagram_bytes).sum();
        (datagrams, mesh.hosts.iter().map(|host| host.exchange_bytes).sum())
    };
    let before = spent(mesh);
    let seconds = 3_600;
    mesh.run_for(seconds * 1_000);
    let after = spent(mesh);
    let per_node = |bytes: u64| bytes / seconds / mesh.hosts.len() as u64;
    let (datagrams, exchanges) = (per_node(after.0 - before.0), per_node(after.1 - before.1));
    let suspected = mesh.changes.iter().filter(|change| change.state == PeerState::Suspect).count();
    println!(
        "{} nodes idle: {datagrams} B/s probes, {exchanges} B/s exchanges per node, {suspected} suspicions",
        mesh.hosts.len()
    );
    assert!(mesh.changes.iter().all(|change| change.state != PeerState::Unreachable), "{:?}", mesh.changes);
    let probes = usize::try_from(seconds).unwrap() * mesh.hosts.len();
    assert!(suspected * 50 < probes, "{suspected} suspicions by {probes} probes: a lost datagram is no news");
    assert!(datagrams + exchanges < 100, "an idle node costs {datagrams} + {exchanges} B/s");
}
