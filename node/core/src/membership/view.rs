//! What this node would tell a person about its peers, as one snapshot.

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{MeshView, PeerState, PeerView};

use super::Membership;
use super::peer::{Dial, Peer};
use crate::time::NodeTime;

impl Membership {
    /// Everything about this node's view of the mesh.
    #[must_use]
    pub fn view(&self, now: NodeTime) -> MeshView {
        MeshView {
            node: self.identity.node,
            version: self.own_version(),
            isolated_since: self.isolated,
            peers: self.peers.iter().map(|(node, peer)| self.peer_view(now, *node, peer)).collect(),
        }
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
            cause: peer.cause.clone(),
            linked: peer.linked,
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
