//! Membership of whole meshes in virtual time: joining, noticing, splits and healing, and faults of one node that must
//! not become verdicts about others.
//!
//! Sizes are modest here; `mesh-simulations members` runs the large ones.

#![expect(clippy::unwrap_used, reason = "a broken test should stop")]

#[path = "members/faults.rs"]
mod faults;
#[path = "members/healing.rs"]
mod healing;
#[path = "members/joining.rs"]
mod joining;
#[path = "members/large.rs"]
mod large;
#[path = "members/random.rs"]
mod random;

use mesh_protocol::peer::PeerState;
use mesh_simulations::members::Mesh;

/// A mesh in which everybody knows and sees everybody, and joining is over for a while. A dial of which three packets
/// are lost is tried again after five seconds.
fn joined(size: usize, loss_percent: u32, seed: u64) -> Mesh {
    let mut mesh = Mesh::joined_through_the_first(size, loss_percent, seed);
    let within = if loss_percent == 0 { 5_000 } else { 10_000 };
    let took = mesh.run_until(within, Mesh::is_complete);
    assert!(took.is_some(), "{size} nodes at {loss_percent} % (seed {seed}) did not join in {within} ms");
    mesh.run_for(15_000);
    mesh
}

/// Runs until all is well again, which is to be soon; how long it took.
fn heals_within(mesh: &mut Mesh, ms: u64, what: &str) -> u64 {
    let took = mesh.run_until(ms, Mesh::is_complete);
    assert!(took.is_some(), "{what}: not well after {ms} ms");
    took.unwrap()
}

fn all_see(mesh: &Mesh, peer: usize, state: PeerState) -> bool {
    mesh.up().all(|(observer, _)| observer == peer || mesh.sees(observer, peer, state))
}

fn halves(size: usize) -> impl Fn(usize) -> u32 {
    move |index| if index < size / 2 { 1 } else { 2 }
}

fn verdicts_by(mesh: &Mesh, observer: usize) -> usize {
    mesh.verdicts().filter(|change| change.observer == observer).count()
}
