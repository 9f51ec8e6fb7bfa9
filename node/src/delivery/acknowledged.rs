//! How far each peer has acknowledged, for callers that wait until theirs has arrived.
//!
//! In memory only: what was acknowledged before this process began is in the outbox, where a caller looks first. It
//! holds one place a peer that was ever heard of.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use mesh_node_core::turn::Place;
use mesh_protocol::id::NodeId;
use tokio::sync::watch;

/// The newest acknowledgement of each peer.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(Mutex<BTreeMap<NodeId, watch::Sender<Option<Place>>>>);

impl Acknowledged {
    /// A peer has everything up to this place.
    pub(super) fn note(&self, peer: NodeId, place: Place) {
        self.of(peer).send_replace(Some(place));
    }

    /// The acknowledgements of a peer, from now on.
    pub(super) fn subscribe(&self, peer: NodeId) -> watch::Receiver<Option<Place>> {
        self.of(peer).subscribe()
    }

    fn of(&self, peer: NodeId) -> watch::Sender<Option<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(peer).or_default().clone()
    }
}
