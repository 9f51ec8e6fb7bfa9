//! Which peers need a link because something waits for them, in a mesh where not every pair keeps one.
//!
//! That an outbox grew is told at once. What grew before this process began, or while the driver was too busy to be
//! told, is found by a look at all outboxes every half minute. Where every pair keeps a link there is nothing to do.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mesh_node_core::membership::Input;
use mesh_node_core::membership::neighbours::FULL_MESH_MAX;
use mesh_protocol::id::NodeId;

use super::{Event, Shared};

/// Between two looks at all outboxes. Less than an unused link is kept, so that one with parcels is not closed.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Tells the driver from now on, until the network ends.
pub(super) fn watch(shared: &Arc<Shared>) {
    let told = Arc::downgrade(shared);
    shared.delivery.when_it_grows(move |peer| {
        if let Some(shared) = told.upgrade()
            && !links_everybody(&shared)
        {
            // A full queue costs half a minute.
            let _ = shared.events.try_send(Event::Membership(Input::Needed(peer)));
        }
    });
    tokio::spawn(look_for_ever(Arc::downgrade(shared)));
}

async fn look_for_ever(shared: Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        for peer in waited_for(&shared) {
            if shared.events.send(Event::Membership(Input::Needed(peer))).await.is_err() {
                return;
            }
        }
        drop(shared);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn links_everybody(shared: &Shared) -> bool {
    shared.membership().directory().len() as u64 <= FULL_MESH_MAX
}

fn waited_for(shared: &Shared) -> Vec<NodeId> {
    if links_everybody(shared) {
        return Vec::new();
    }
    let members: Vec<NodeId> = shared.membership().directory().iter().map(|(node, _)| *node).collect();
    shared.delivery.with_parcels(shared.clock.now(), members)
}
