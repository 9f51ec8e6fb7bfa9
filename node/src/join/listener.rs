//! The issuer's side: a QUIC endpoint that answers one question, whether the holder of a ticket is let in.
//!
//! Everybody may connect, so everything is small: a few joins at once, one stream each, a request of a hundred bytes, ten
//! seconds. Whose proof does not hold is told that and no more, and costs no write.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

use mesh_node_core::joining::{RedeemRequest, Redemption};
use mesh_protocol::codec;
use mesh_protocol::id::NodeId;
use mesh_protocol::join::{
    Admitted, JoinRefusal, JoinReply, JoinRequest, REPLY_BYTES_MAX, REQUEST_BYTES_MAX,
};
use mesh_protocol::ticket::TicketKey;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Incoming, TokioRuntime, VarInt};
use thiserror::Error;
use tokio::task::JoinSet;

use super::wire::{JOIN_WITHIN, WireError, exporter, receive, send, transport_config};
use crate::clock::Clock;
use crate::identity::{Admission, Credentials, Exclusion, Leaf, MeshRoot, RootError, join_server};
use crate::transport::{BindError, Socket, certified_peer, endpoint_config};

/// Joins at once; more are refused and may try again. People hand out tickets one at a time.
const JOINS_MAX: usize = 16;
/// Bytes of early packets held for them.
const INCOMING_BUFFER_TOTAL: u64 = 256 * 1024;

/// The durable writer could not decide: nothing was committed as far as it knows.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("the node cannot write now")]
pub struct Unavailable;

/// What the listener needs of the durable side.
pub trait Redeem: Send + Sync + 'static {
    /// Runs [`mesh_node_core::joining::redeem`] and returns only after its commit.
    fn redeem(&self, request: RedeemRequest) -> impl Future<Output = Result<Redemption, Unavailable>> + Send;
}

/// What a new member is given beside its certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The revocation list in force.
    pub revocations: Option<Vec<u8>>,
    /// Where this node takes members' connections.
    pub addresses: Vec<SocketAddr>,
    /// This node's own signed directory record.
    pub record: Vec<u8>,
}

/// The node that issued the tickets: it holds the root.
pub struct Issuer<R> {
    /// Signs certificates.
    pub root: Arc<MeshRoot>,
    /// This node as a member.
    pub credentials: Credentials,
    /// From which its tickets' secrets come.
    pub ticket_key: TicketKey,
    /// Who is shut out and needs more than a ticket.
    pub admission: Arc<Admission>,
    /// Dates certificates.
    pub clock: Arc<dyn Clock>,
    /// The way to the durable writer.
    pub redeem: R,
    /// What to give new members, asked each time.
    pub welcome: Box<dyn Fn() -> Welcome + Send + Sync>,
}

impl<R> fmt::Debug for Issuer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({:?})", self.root)
    }
}

/// What happened at a listener since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JoinCounts {
    /// Nodes let in, repeats included.
    pub admitted: u64,
    /// Holders of a ticket that were not let in.
    pub refused: u64,
    /// Proofs that did not hold.
    pub unproven: u64,
    /// Connections that did not get as far as a request.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    admitted: AtomicU64,
    refused: AtomicU64,
    unproven: AtomicU64,
    failed: AtomicU64,
}

/// An open join listener. Dropping it closes the port.
#[derive(Debug)]
pub struct JoinListener {
    quic: quinn::Endpoint,
    counters: Arc<Counters>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for JoinListener {
    fn drop(&mut self) {
        self.quic.close(VarInt::from_u32(0), b"");
        self.task.abort();
    }
}

impl JoinListener {
    /// Takes a bound socket over and begins to listen. Needs a running tokio runtime.
    ///
    /// # Errors
    /// [`BindError`] when the issuer's credentials or the socket cannot be used.
    pub fn open<R: Redeem>(socket: Socket, issuer: Arc<Issuer<R>>) -> Result<Self, BindError> {
        let tls = QuicServerConfig::try_from(join_server(&issuer.credentials)?);
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls.map_err(|_| BindError::Cipher)?));
        config
            .transport_config(Arc::new(transport_config()))
            .max_incoming(JOINS_MAX)
            .incoming_buffer_size_total(INCOMING_BUFFER_TOTAL);
        let runtime = Arc::new(TokioRuntime);
        let socket = socket.into_quic(&*runtime).map_err(BindError::Socket)?;
        let endpoint = endpoint_config(&issuer.credentials.key, None);
        let quic = quinn::Endpoint::new_with_abstract_socket(endpoint, Some(config), socket, runtime)
            .map_err(BindError::Socket)?;
        let counters = Arc::new(Counters::default());
        let task = tokio::spawn(listen(quic.clone(), issuer, Arc::clone(&counters)));
        Ok(Self { quic, counters, task })
    }

    /// The address of the socket.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.quic.local_addr()
    }

    /// What happened here so far.
    #[must_use]
    pub fn counts(&self) -> JoinCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JoinCounts {
            admitted: read(&self.counters.admitted),
            refused: read(&self.counters.refused),
            unproven: read(&self.counters.unproven),
            failed: read(&self.counters.failed),
        }
    }
}

async fn listen<R: Redeem>(quic: quinn::Endpoint, issuer: Arc<Issuer<R>>, counters: Arc<Counters>) {
    let mut joins = JoinSet::new();
    loop {
        tokio::select! {
            incoming = quic.accept() => {
                let Some(incoming) = incoming else { return };
                if joins.len() >= JOINS_MAX {
                    incoming.refuse();
                } else {
                    joins.spawn(serve(Arc::clone(&issuer), incoming, Arc::clone(&counters)));
                }
            }
            Some(_) = joins.join_next(), if !joins.is_empty() => {}
        }
    }
}

async fn serve<R: Redeem>(issuer: Arc<Issuer<R>>, incoming: Incoming, counters: Arc<Counters>) {
    let address = incoming.remote_address();
    let counter = match tokio::time::timeout(JOIN_WITHIN, issuer.answer(incoming)).await {
        Ok(Ok((JoinReply::Admitted(_), node))) => {
            tracing::info!(%address, %node, "let a node in");
            &counters.admitted
        }
        Ok(Ok((JoinReply::Refused(reason), node))) => {
            tracing::warn!(%address, %node, %reason, "refused the holder of a ticket");
            &counters.refused
        }
        Ok(Ok((JoinReply::Unproven, node))) => {
            tracing::warn!(%address, %node, "refused a joiner without proof of a ticket");
            &counters.unproven
        }
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "a join broke off");
            &counters.failed
        }
        Err(_) => &counters.failed,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Why a join broke off without a reply.
#[derive(Debug, Error)]
enum BrokenOff {
    #[error("the connection ended")]
    Connection(#[from] quinn::ConnectionError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the joiner has no key")]
    NoKey,
    #[error("cannot issue a certificate")]
    Issue(#[from] RootError),
}

impl<R: Redeem> Issuer<R> {
    /// One join, from the first packet until the joiner has the reply.
    async fn answer(&self, incoming: Incoming) -> Result<(JoinReply, NodeId), BrokenOff> {
        let connection = incoming.accept()?.await?;
        let node = certified_peer(&connection).ok_or(BrokenOff::NoKey)?;
        let (mut sender, mut receiver) = connection.accept_bi().await?;
        let body = receive(&mut receiver, REQUEST_BYTES_MAX).await?;
        let request: JoinRequest = codec::decode(&body).map_err(WireError::Frame)?;
        let reply = self.decide(&request, node, &exporter(&connection)?).await?;
        send(&mut sender, &codec::encode(&reply), REPLY_BYTES_MAX).await?;
        // The joiner closes when it has the reply; a reply that got lost is asked for again.
        connection.closed().await;
        Ok((reply, node))
    }

    async fn decide(
        &self,
        request: &JoinRequest,
        node: NodeId,
        exporter: &[u8; 32],
    ) -> Result<JoinReply, BrokenOff> {
        let mesh = self.root.certificate().key().mesh();
        let secret = self.ticket_key.secret_of(request.ticket, request.expires_wall_ms, mesh);
        if request.proof.check(&secret, exporter, node, request.ticket).is_err() {
            return Ok(JoinReply::Unproven);
        }
        if self.admission.check(node) == Err(Exclusion::Revoked) {
            return Ok(JoinReply::Refused(JoinRefusal::Revoked));
        }
        let leaf = self.root.issue(node, self.clock.now().wall_ms)?;
        let request = RedeemRequest {
            ticket: request.ticket,
            expires_wall_ms: request.expires_wall_ms,
            node,
            leaf: leaf.as_der().to_vec(),
        };
        Ok(match self.redeem.redeem(request).await {
            Ok(Redemption::Admitted { leaf, .. }) => JoinReply::Admitted(self.admit(Leaf::from_der(leaf))),
            Ok(Redemption::Refused(reason)) => JoinReply::Refused(reason),
            Err(Unavailable) => JoinReply::Refused(JoinRefusal::Unavailable),
        })
    }

    fn admit(&self, leaf: Leaf) -> Admitted {
        let Welcome { revocations, addresses, record } = (self.welcome)();
        Admitted {
            leaf: leaf.as_der().to_vec(),
            root: self.root.certificate().as_der().to_vec(),
            revocations: revocations.map(serde_bytes::ByteBuf::from),
            addresses,
            record,
        }
    }
}
