//! The QUIC connection below a [`super::Connection`], with what this end has to remember about it: how it was closed
//! here, which the library forgets, and how many of its streams are in use.

use std::sync::{Arc, OnceLock};

use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use quinn::{ConnectionError, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use super::{CloseReason, Purpose};
use crate::identity::{ALPN_CARRIER, node_of_leaf};

#[derive(Debug)]
pub(super) struct Line {
    pub(super) quic: quinn::Connection,
    closed_with: OnceLock<CloseCode>,
    in_use: watch::Sender<usize>,
}

impl Line {
    pub(super) fn new(quic: quinn::Connection) -> Arc<Self> {
        Arc::new(Self { quic, closed_with: OnceLock::new(), in_use: watch::Sender::new(0) })
    }

    /// Closes at once; the first code stays.
    pub(super) fn close(&self, code: CloseCode, text: &str) {
        self.closed_with.get_or_init(|| code);
        self.quic.close(VarInt::from_u32(code.number()), text.as_bytes());
    }

    pub(super) fn reason(&self, error: &ConnectionError) -> CloseReason {
        CloseReason::new(error, self.closed_with.get().copied())
    }

    /// Notes a stream as in use until the mark is dropped.
    pub(super) fn mark(self: &Arc<Self>) -> Mark {
        self.in_use.send_modify(|count| *count = count.saturating_add(1));
        Mark(Arc::clone(self))
    }

    pub(super) fn streams_in_use(&self) -> usize {
        *self.in_use.borrow()
    }

    pub(super) async fn drained(&self) {
        // Fails only when the sender is gone, and we hold it.
        let _ = self.in_use.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// The node that the other end of a connection proved to be in TLS, where its certificate was checked.
pub(crate) fn certified_peer(quic: &quinn::Connection) -> Option<NodeId> {
    let chain = quic.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    node_of_leaf(chain.first()?).ok()
}

/// What the ends agreed in TLS that the connection is for (RFC 7301).
pub(super) fn purpose(quic: &quinn::Connection) -> Option<Purpose> {
    let data = quic.handshake_data()?.downcast::<quinn::crypto::rustls::HandshakeData>().ok()?;
    let carrier = data.protocol.as_deref()? == ALPN_CARRIER;
    Some(if carrier { Purpose::Carrier } else { Purpose::Link })
}

/// One stream in use.
#[derive(Debug)]
pub(super) struct Mark(pub(super) Arc<Line>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.in_use.send_modify(|count| *count = count.saturating_sub(1));
    }
}
