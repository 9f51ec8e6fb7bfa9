//! The joiner's side: from a ticket to credentials.
//!
//! It believes the issuer only in what it can check: the root's certificate by the ticket's fingerprint, its own
//! certificate by that root and its own key, the revocation list by that root. Its clock does not matter here: whether
//! the ticket still holds is the issuer's to say, and a certificate out of date by a wrong clock is reported by the first
//! dial, with both clocks named.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mesh_protocol::codec;
use mesh_protocol::id::NodeId;
use mesh_protocol::join::{
    Admitted, JoinProof, JoinRefusal, JoinReply, JoinRequest, REPLY_BYTES_MAX, REQUEST_BYTES_MAX,
};
use mesh_protocol::limits::ADDRESSES_MAX;
use mesh_protocol::revocation::{RevocationError, RevocationList};
use mesh_protocol::ticket::Ticket;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectionError, TokioRuntime, VarInt};
use rustls::pki_types::{CertificateDer, UnixTime};
use thiserror::Error;

use super::wire::{JOIN_WITHIN, WireError, exporter, receive, send, transport_config};
use crate::identity::{
    Admission, CertificateError, Credentials, Leaf, MemberVerifier, NodeKey, Refusal, RootCertificate,
    TlsError, join_client, name_of,
};
use crate::transport::{BindError, Socket, endpoint_config};

/// How long one address may take to answer before the next is tried.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// What a node gets for its ticket: all of it checked, but for the record, which its reader checks.
#[derive(Debug, Clone)]
pub struct Joined {
    /// What to show other members.
    pub credentials: Credentials,
    /// Who is shut out.
    pub revocations: Option<RevocationList>,
    /// The member to dial first.
    pub issuer: NodeId,
    /// Where it takes members' connections, as it says.
    pub addresses: Vec<SocketAddr>,
    /// Its signed directory record, as it came.
    pub record: Vec<u8>,
}

/// Why a ticket did not lead into its mesh. It can be tried again unless the issuer refused it.
#[derive(Debug, Error)]
pub enum JoinError {
    /// This node cannot even try.
    #[error("cannot set up the connection to the issuer")]
    Setup(#[from] BindError),
    /// Nobody answered at any of the ticket's addresses.
    #[error("the issuer does not answer at {}", list(tried))]
    NoAnswer {
        /// The addresses tried.
        tried: Vec<SocketAddr>,
    },
    /// Something else answered: another node, or not a join listener.
    #[error("what answers at {address} is not the join listener of the ticket's issuer")]
    WrongListener {
        /// Where.
        address: SocketAddr,
    },
    /// The connection ended before the reply came. The ticket may be used by now; the same node may repeat.
    #[error("the connection to the issuer broke off")]
    BrokenOff,
    /// The issuer does not see that this node holds the ticket.
    #[error("the issuer does not accept the ticket")]
    Unproven,
    /// The issuer refuses it.
    #[error("the issuer refused: {0}")]
    Refused(JoinRefusal),
    /// The issuer showed another root than the ticket names.
    #[error("the issuer showed a root that is not the ticket's")]
    FalseRoot,
    /// The issuer's certificate is not for this node's key, or not by the root.
    #[error("the issuer gave a certificate that does not fit")]
    FalseLeaf(#[source] Refusal),
    /// A certificate is none.
    #[error("the issuer gave bytes that are no certificate")]
    Certificate(#[from] CertificateError),
    /// The revocation list is not one of this mesh.
    #[error("the issuer gave a revocation list that does not fit")]
    Revocations(#[from] RevocationError),
}

impl JoinError {
    /// What to do about it, when there is something.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoAnswer { .. } => Some(
                "is the issuer running, and do its join addresses accept UDP from here? a ticket holds the addresses \
                 of when it was made",
            ),
            Self::WrongListener { .. } => Some("the issuer's address changed: ask for a new ticket"),
            Self::BrokenOff => Some("run the same command again: this node may repeat its ticket"),
            Self::Unproven => Some("copy the whole line again, or ask for a new ticket"),
            Self::Refused(refusal) => Some(refusal.hint()),
            Self::FalseRoot | Self::FalseLeaf(_) | Self::Certificate(_) | Self::Revocations(_) => {
                Some("do not use this ticket: its issuer gave what does not belong to its mesh")
            }
            Self::Setup(_) => Some("check that this user may open UDP sockets here"),
        }
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    if texts.is_empty() { "any address: the ticket has none".to_owned() } else { texts.join(", ") }
}

/// Redeems a ticket for a node's key, trying its addresses in turn.
///
/// # Errors
/// [`JoinError`].
pub async fn redeem_ticket(socket: Socket, ticket: &Ticket, key: &NodeKey) -> Result<Joined, JoinError> {
    let endpoint = dialler(socket, ticket, key)?;
    let mut failure = JoinError::NoAnswer { tried: ticket.addresses.clone() };
    for address in &ticket.addresses {
        match ask(&endpoint, *address, ticket, key.node()).await {
            Ok(JoinReply::Admitted(admitted)) => return check(admitted, ticket, key),
            Ok(JoinReply::Refused(reason)) => return Err(JoinError::Refused(reason)),
            Ok(JoinReply::Unproven) => return Err(JoinError::Unproven),
            Err(JoinError::NoAnswer { .. }) => {}
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn dialler(socket: Socket, ticket: &Ticket, key: &NodeKey) -> Result<quinn::Endpoint, BindError> {
    let tls = join_client(key, ticket.issuer)?;
    let tls = QuicClientConfig::try_from(tls).map_err(|_| BindError::Cipher)?;
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport_config()));
    let runtime = Arc::new(TokioRuntime);
    let socket = socket.into_quic(&*runtime).map_err(BindError::Socket)?;
    let own = endpoint_config(key, None);
    let mut endpoint =
        quinn::Endpoint::new_with_abstract_socket(own, None, socket, runtime).map_err(BindError::Socket)?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

/// One address: connects, proves, and waits for the reply.
async fn ask(
    endpoint: &quinn::Endpoint,
    address: SocketAddr,
    ticket: &Ticket,
    node: NodeId,
) -> Result<JoinReply, JoinError> {
    let no_answer = || JoinError::NoAnswer { tried: vec![address] };
    let connecting = endpoint.connect(address, &name_of(ticket.issuer)).map_err(|_| no_answer())?;
    let connection = match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_))) => {
            return Err(JoinError::WrongListener { address });
        }
        Ok(Err(_)) | Err(_) => return Err(no_answer()),
    };
    let exchange = exchange(&connection, ticket, node);
    let reply = tokio::time::timeout(JOIN_WITHIN, exchange).await;
    connection.close(VarInt::from_u32(0), b"");
    match reply {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "the join broke off");
            Err(JoinError::BrokenOff)
        }
        Err(_) => Err(JoinError::BrokenOff),
    }
}

async fn exchange(
    connection: &quinn::Connection,
    ticket: &Ticket,
    node: NodeId,
) -> Result<JoinReply, WireError> {
    let proof = JoinProof::make(&ticket.secret, &exporter(connection)?, node, ticket.id);
    let request = JoinRequest { ticket: ticket.id, expires_wall_ms: ticket.expires_wall_ms, proof };
    let opened = connection.open_bi().await;
    let (mut sender, mut receiver) = opened.map_err(quinn::WriteError::ConnectionLost)?;
    send(&mut sender, &codec::encode(&request), REQUEST_BYTES_MAX).await?;
    let body = receive(&mut receiver, REPLY_BYTES_MAX).await?;
    Ok(codec::decode(&body)?)
}

fn check(admitted: Admitted, ticket: &Ticket, key: &NodeKey) -> Result<Joined, JoinError> {
    let root = RootCertificate::from_der(admitted.root)?;
    if root.key().fingerprint() != ticket.root {
        return Err(JoinError::FalseRoot);
    }
    let leaf = Leaf::from_der(admitted.leaf);
    let verifier = MemberVerifier::new(&root, Arc::new(Admission::default()))?.dialling(key.node());
    // The ticket's own end is a moment by the issuer's clock at which its certificate must hold.
    let moment = UnixTime::since_unix_epoch(Duration::from_millis(ticket.expires_wall_ms));
    let der = CertificateDer::from(leaf.as_der());
    verifier.check(&der, &[], moment).map_err(JoinError::FalseLeaf)?;
    let revocations = match admitted.revocations {
        Some(bytes) => Some(RevocationList::verify(&bytes, root.key())?),
        None => None,
    };
    let mut addresses = admitted.addresses;
    addresses.truncate(ADDRESSES_MAX);
    let credentials = Credentials { key: key.clone(), leaf, root };
    Ok(Joined { credentials, revocations, issuer: ticket.issuer, addresses, record: admitted.record })
}

impl From<TlsError> for JoinError {
    fn from(error: TlsError) -> Self {
        Self::Setup(BindError::Tls(error))
    }
}
