//! Faults drawn from a seed, over whole meshes: whatever was done to them, once nothing is done any more everybody finds
//! everybody, and nobody is blamed from there on.

use std::collections::BTreeSet;

use mesh_protocol::peer::PeerState;
use mesh_simulations::members::Mesh;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::joined;

/// Things done in one run.
const DEEDS: usize = 30;
/// The longest pause between two, milliseconds: some faults are judged, others are over before.
const PAUSE_MS_MAX: u64 = 15_000;
/// Within this a mesh to which nothing is done any more is well, milliseconds: a dial that was under way is given up
/// after five seconds, and back-offs are cut short by the first contact.
const WELL_MS: u64 = 20_000;
/// The same with loss: a dial of which every try is lost is followed by the longest back-off.
const WELL_WITH_LOSS_MS: u64 = 60_000;
/// The longest a suspicion of the time before may still take to become a verdict, milliseconds.
const SETTLE_MS: u64 = 30_000;
/// How long it is watched then, milliseconds.
const QUIET_MS: u64 = 60_000;

/// Plays one seed; how many verdicts the faults led to.
fn play(size: usize, loss: u32, seed: u64) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(!seed);
    let mut mesh = joined(size, loss, seed);
    let mut asleep = BTreeSet::new();
    for _ in 0..DEEDS {
        let node = rng.random_range(0..size);
        let other = (node + rng.random_range(1..size)) % size;
        match rng.random_range(0..10_u32) {
            0 | 1 => {
                asleep.remove(&node);
                mesh.crash(node);
            }
            2 => restart(&mut mesh, &mut asleep, node),
            // Two that are apart and both move never find each other: one stays where everybody knows it.
            3 if node > 0 => {
                mesh.hosts[node].address.set_port(rng.random_range(1_000..60_000));
                restart(&mut mesh, &mut asleep, node);
            }
            4 => {
                let parts: Vec<u32> = (0..size).map(|_| rng.random_range(1..=3)).collect();
                mesh.split(|index| parts[index]);
            }
            5 => mesh.cut_one_way(node, other),
            6 if mesh.hosts[node].machine.is_some() => {
                asleep.insert(node);
                mesh.suspend(node);
            }
            7 if asleep.remove(&node) => mesh.resume(node),
            8 => mesh.change(node, rng.random_range(0..50)),
            _ => mesh.heal(),
        }
        mesh.run_for(rng.random_range(100..PAUSE_MS_MAX));
    }
    mesh.heal();
    for node in 0..size {
        if asleep.remove(&node) {
            mesh.resume(node);
        } else if mesh.hosts[node].machine.is_none() {
            mesh.start(node);
        }
    }
    let within = if loss == 0 { WELL_MS } else { WELL_WITH_LOSS_MS };
    let took = mesh.run_until(within, Mesh::is_complete);
    assert!(
        took.is_some(),
        "{size} nodes, {loss} %, seed {seed}: not well after {within} ms: {}",
        missed(&mesh)
    );
    mesh.run_for(SETTLE_MS);
    let before = mesh.verdicts().count();
    mesh.run_for(QUIET_MS);
    assert_eq!(mesh.verdicts().count(), before, "{size} nodes, {loss} %, seed {seed}: somebody is blamed");
    assert!(mesh.is_complete(), "{size} nodes, {loss} %, seed {seed}");
    let isolated = mesh.up().filter(|(_, machine)| machine.is_isolated()).count();
    assert_eq!(isolated, 0, "{size} nodes, {loss} %, seed {seed}");
    before
}

/// Who does not find whom, and why.
fn missed(mesh: &Mesh) -> String {
    let mut text = format!("records everywhere: {}", mesh.has_every_record_everywhere());
    for (observer, machine) in mesh.up() {
        for peer in (0..mesh.hosts.len()).filter(|peer| *peer != observer) {
            let view = machine.keeps_link(&mesh.hosts[peer].id).then(|| mesh.view(observer, peer)).flatten();
            if let Some(view) = view.filter(|view| view.state != PeerState::Alive) {
                let (state, cause, next) = (view.state, view.cause, view.next_dial_in_ms);
                text += &format!("; {observer} sees {peer} {state} ({cause}), dials in {next:?}");
            }
        }
    }
    text
}

fn restart(mesh: &mut Mesh, asleep: &mut BTreeSet<usize>, node: usize) {
    asleep.remove(&node);
    mesh.crash(node);
    mesh.start(node);
}

#[test]
fn whatever_is_done_to_a_small_mesh_it_is_well_again_once_nothing_is_done() {
    let mut verdicts = 0;
    for seed in 0..36 {
        let size = 2 + usize::try_from(seed % 12).unwrap();
        verdicts += play(size, if seed % 3 == 2 { 5 } else { 0 }, seed);
    }
    assert!(verdicts > 100, "the faults were none: {verdicts} verdicts");
}

#[test]
fn whatever_is_done_to_a_large_mesh_it_is_well_again_once_nothing_is_done() {
    for seed in 100..102 {
        play(40, 0, seed);
    }
}

#[test]
fn whoever_wakes_from_any_of_it_sees_the_truth() {
    // A node that slept through everything.
    for seed in 200..204 {
        let mut mesh = joined(6, 0, seed);
        mesh.suspend(5);
        for node in 0..4 {
            mesh.crash(node);
            mesh.run_for(5_000);
            mesh.start(node);
            mesh.run_for(20_000);
        }
        mesh.crash(0);
        mesh.run_for(60_000);
        mesh.resume(5);
        mesh.run_for(90_000);
        assert!(mesh.sees(5, 0, PeerState::Unreachable), "seed {seed}");
        assert!((1..5).all(|peer| mesh.sees(5, peer, PeerState::Alive)), "seed {seed}");
    }
}
