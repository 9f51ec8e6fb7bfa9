//! What this node would tell a person about its peers, as one snapshot.

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{MeshView, PeerState, PeerView, SeenBy};

use super::Membership;
use super::peer::{Dial, Peer};
use super::timing::SIGHTING_MS;
use crate::time::NodeTime;

impl Membership {
    /// Everything about this node's view of the mesh.
    #[must_use]
    pub fn view(&self, now: NodeTime) -> MeshView {
        MeshView {
            node: self.identity.node,
            version: self.own_version(),
            isolated_since: self.isolated,
            doubt: self.health,
            peers: self.peers.iter().map(|(node, peer)| self.peer_view(now, *node, peer)).collect(),
        }
    }

    /// This node.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.identity.node
    }

    /// Whether none of this node's probes is answered, so that it judges nobody.
    #[must_use]
    pub const fn is_isolated(&self) -> bool {
        self.isolated.is_some()
    }

    /// What this node makes of a peer, if there is such a peer.
    #[must_use]
    pub fn state(&self, node: &NodeId) -> Option<PeerState> {
        self.peers.get(node).map(|peer| peer.state)
    }

    /// Everything about one peer, if there is such a peer.
    #[must_use]
    pub fn peer(&self, now: NodeTime, node: &NodeId) -> Option<PeerView> {
        self.peers.get(node).map(|peer| self.peer_view(now, *node, peer))
    }

    fn peer_view(&self, now: NodeTime, node: NodeId, peer: &Peer) -> PeerView {
        let record = self.directory.get(&node).map(|entry| entry.record());
        PeerView {
            node,
            name: record.map(|record| record.advertisement.name.to_string()),
            state: peer.state,
            since: peer.since,
            cause: peer.cause.to_string(),
            linked: peer.linked,
            neighbour: self.peers.is_neighbour(&node),
            seen_by: seen_by(now, peer),
            last_success: peer.last_success,
            last_error: peer.last_error.clone(),
            address_tried: peer.address_tried,
            next_dial_in_ms: match peer.dial {
                Dial::At(at) => Some(at.since(now)),
                Dial::UnderWay => Some(0),
                Dial::Idle => None,
            },
            rtt_ms: peer.rtt_ms,
            version: record.map(|record| record.version),
            lifecycle: record.map(|record| record.lifecycle),
            dropped: peer.dropped,
        }
    }
}

fn seen_by(now: NodeTime, peer: &Peer) -> Vec<SeenBy> {
    let recent = |at: u64| now.since(NodeTime(at)) < SIGHTING_MS;
    let recent = peer.sightings.iter().filter(|sighting| recent(sighting.at.node_ms));
    let mut seen: Vec<SeenBy> = recent
        .map(|sighting| SeenBy { node: sighting.observer, answers: sighting.answers, at: sighting.at })
        .collect();
    seen.sort_by_key(|seen| seen.node);
    seen
}
