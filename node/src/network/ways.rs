//! What can be asked about the way to a peer: the one in use, what was tried, who else reaches it, how long it takes.

use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mesh_node_core::links::{ASKED_MAX, ConnectionKey, Path};
use mesh_protocol::id::NodeId;
use mesh_protocol::question::Reach;

use super::history::Tried;
use super::relay::RelayCounts;
use super::{Network, detour, question};

impl Network {
    /// The way to a peer, if it is linked.
    #[must_use]
    pub fn path(&self, peer: NodeId) -> Option<Path> {
        self.shared.link(peer).map(|connection| connection.path())
    }

    /// The name of the connection to a peer in use, if it is linked. Both ends have the same.
    #[must_use]
    pub fn current(&self, peer: NodeId) -> Option<ConnectionKey> {
        self.shared.used().get(&peer).copied()
    }

    /// Dials begun since this node started.
    #[must_use]
    pub fn dials(&self) -> u64 {
        self.shared.dials.load(Ordering::Relaxed)
    }

    /// Where a peer says it is.
    #[must_use]
    pub fn addresses(&self, peer: NodeId) -> Vec<SocketAddr> {
        self.shared.addresses(peer)
    }

    /// What was tried to reach a peer, the newest first.
    #[must_use]
    pub fn tried(&self, peer: NodeId) -> Vec<Tried> {
        self.shared.history().of(&peer)
    }

    /// Milliseconds until a peer that is linked through another is next dialled directly.
    #[must_use]
    pub fn next_upgrade_in_ms(&self, peer: NodeId) -> Option<u64> {
        let now = self.shared.clock.now().node;
        let upgrades = self.shared.upgrades.lock().unwrap_or_else(PoisonError::into_inner);
        upgrades.get(&peer).map(|at| at.since(now))
    }

    /// What the members linked directly say of their way to a peer; `None` for who did not say in a moment.
    pub async fn reach_of(&self, peer: NodeId) -> Vec<(NodeId, Option<Reach>)> {
        let mut members = detour::carrying_members(&self.shared);
        members.retain(|member| *member != peer);
        members.truncate(ASKED_MAX);
        detour::ask_all(&self.shared, members, peer).await
    }

    /// Asks a peer whether it is there: the way that was taken and the time it took. `None` when it is not linked or
    /// gives no answer.
    pub async fn ping(&self, peer: NodeId) -> Option<(Path, Duration)> {
        let link = self.shared.link(peer)?;
        let path = link.path();
        question::round_trip(&link).await.map(|took| (path, took))
    }

    /// What this node carried for others, and refused to.
    #[must_use]
    pub fn relay_counts(&self) -> RelayCounts {
        self.shared.relays.counts()
    }
}
