//! Carriers this node dials: one a member, made when packets are to travel to it and closed when none do.
//!
//! A connection of its own, so that a busy relayed connection does not hold up what this node and the member between say
//! to each other, probes first of all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mesh_node_core::links;
use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;

use super::Shared;
use crate::transport::{Connection, DialError};

/// How long a carrier without a stream is kept, for the next one.
const KEPT_IDLE: Duration = Duration::from_secs(10);

/// One member's: empty, or the carrier in use. Held while it is dialled, so that everybody waits for one dial.
type Place = Arc<tokio::sync::Mutex<Option<Connection>>>;

/// The carriers of one node, at most one a member.
#[derive(Debug, Default)]
pub(super) struct Carriers {
    places: Mutex<BTreeMap<NodeId, Place>>,
    last: AtomicU64,
}

impl Carriers {
    /// The carrier to a member, dialled if there is none.
    pub(super) async fn to(&self, shared: &Arc<Shared>, peer: NodeId) -> Result<Connection, DialError> {
        let place = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(places.entry(peer).or_default())
        };
        let mut held = place.lock().await;
        if let Some(carrier) = held.as_ref().filter(|carrier| !carrier.is_closed()) {
            return Ok(carrier.clone());
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let carrier = shared.endpoint.dial_carrier(peer, number, &plan(shared, peer)).await?;
        *held = Some(carrier.clone());
        tokio::spawn(close_when_idle(Arc::clone(&place), carrier.clone()));
        Ok(carrier)
    }
}

/// Where the link goes first: a member behind an address translation is reached there and nowhere else.
fn plan(shared: &Shared, peer: NodeId) -> Vec<links::Attempt> {
    let linked = shared.link(peer).filter(|link| !link.key().relayed).map(|link| link.remote_address());
    let advertised = shared.addresses(peer);
    let others = advertised.into_iter().filter(|address| Some(*address) != linked);
    let addresses: Vec<_> = linked.into_iter().chain(others).collect();
    links::plan(&addresses, linked, 0)
}

async fn close_when_idle(place: Place, carrier: Connection) {
    loop {
        tokio::select! {
            biased;
            _ = carrier.closed() => return,
            () = async {
                carrier.drained().await;
                tokio::time::sleep(KEPT_IDLE).await;
            } => {}
        }
        // Whoever takes it from here on has it from the place, which is held.
        let mut held = place.lock().await;
        if carrier.streams_in_use() == 0 {
            if held.as_ref().is_some_and(|current| current.key() == carrier.key()) {
                *held = None;
            }
            carrier.close(CloseCode::Idle, "");
            return;
        }
    }
}
