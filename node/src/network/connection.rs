//! One connection's bytes, to whom they are for.

use std::sync::Arc;

use mesh_node_core::membership::Input;
use mesh_protocol::stream::StreamKind;

use super::{Event, Shared, exchange, question};
use crate::transport::Connection;

/// Moves what a connection brings until it ends, and says then why.
pub(super) fn serve(shared: Arc<Shared>, connection: Connection) {
    tokio::spawn(datagrams(Arc::clone(&shared), connection.clone()));
    tokio::spawn(streams(shared, connection));
}

async fn datagrams(shared: Arc<Shared>, connection: Connection) {
    while let Ok(bytes) = connection.receive_datagram().await {
        if !shared.quotas.datagram(connection.peer(), shared.clock.now().node) {
            continue;
        }
        let input = Input::Datagram { from: connection.peer(), bytes: bytes.to_vec() };
        if shared.events.send(Event::Membership(input)).await.is_err() {
            return;
        }
    }
}

async fn streams(shared: Arc<Shared>, connection: Connection) {
    let peer = connection.peer();
    let reason = loop {
        match connection.accept_stream().await {
            Ok((StreamKind::Outbox, sender, receiver)) => {
                shared.delivery.accept(peer, sender, receiver);
            }
            Ok((StreamKind::Sync, sender, receiver)) => {
                exchange::answer(Arc::clone(&shared), peer, sender, receiver);
            }
            Ok((StreamKind::Question, sender, receiver)) => {
                question::answer(Arc::clone(&shared), peer, sender, receiver);
            }
            // Hello took the one control stream there is; bulk bodies do not exist yet; packets of others are for
            // carriers. Dropping it gives it up.
            Ok((StreamKind::Control | StreamKind::Bulk | StreamKind::Relay, ..)) => {}
            Err(reason) => break reason,
        }
    };
    // Fails only when the driver is gone.
    let _ = shared.events.send(Event::Ended(peer, connection.key(), reason.to_string())).await;
}
