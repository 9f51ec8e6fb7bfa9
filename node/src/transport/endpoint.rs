//! One UDP socket, all connections of a node.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use std::{fmt, io};

use mesh_node_core::links::Attempt;
use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use mesh_protocol::record::RecordVersion;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{TokioRuntime, VarInt};
use thiserror::Error;
use tokio::sync::mpsc;

use super::greeting::Introduction;
use super::settings::{INCOMING_BUFFER_TOTAL, INCOMING_MAX, RELAYED_PACKET_BYTES, transport_config};
use super::socket::{Socket, endpoint_config};
use super::{Connection, DialError, Paths, Purpose, Settings, accept, dial};
use crate::clock::Clock;
use crate::identity::{
    ALPN_CARRIER, Admission, Credentials, Handshake, MemberVerifier, TlsError, member_client, member_server,
};

/// Connections that wait to be taken; further handshakes wait in their own tasks.
const ARRIVALS_MAX: usize = 64;
/// How long a closing endpoint waits for its peers to hear of it.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Why an endpoint could not be set up.
#[derive(Debug, Error)]
pub enum BindError {
    /// Credentials that TLS cannot use.
    #[error("cannot use the node's credentials")]
    Tls(#[from] TlsError),
    /// The cipher that QUIC needs for its first packets is missing.
    #[error("TLS lacks the cipher of QUIC's first packets")]
    Cipher,
    /// The socket cannot be used.
    #[error("cannot use the socket")]
    Socket(#[source] io::Error),
}

/// What happened at an endpoint since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections taken in.
    pub accepted: u64,
    /// Peers refused for their certificate or their Hello.
    pub refused: u64,
    /// Peers that did not finish TLS or Hello in time, or left before.
    pub silent: u64,
    /// Peers asked to prove their address first.
    pub retried: u64,
    /// Peers turned away because there were too many.
    pub overloaded: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) silent: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) overloaded: AtomicU64,
}

/// What this node shows and checks in TLS. Replaced as a whole when its certificate is renewed.
struct Identity {
    credentials: Credentials,
    verifier: MemberVerifier,
    client: rustls::ClientConfig,
}

pub(super) struct Shared {
    pub(super) quic: quinn::Endpoint,
    pub(super) admission: Arc<Admission>,
    pub(super) settings: Settings,
    pub(super) counters: Counters,
    /// What carries the packets, when it is not a socket.
    pub(super) paths: Option<Arc<Paths>>,
    identity: RwLock<Identity>,
    record: Mutex<RecordVersion>,
    transport: Arc<quinn::TransportConfig>,
    clock: Arc<dyn Clock>,
}

/// One UDP socket and the connections over it. Dropping it closes them.
pub struct Endpoint {
    shared: Arc<Shared>,
    arrivals: tokio::sync::Mutex<mpsc::Receiver<Connection>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.shared.introduction().node.short())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.quic.close(VarInt::from_u32(CloseCode::Leaving.number()), b"");
    }
}

impl Endpoint {
    /// Takes a bound socket over and begins to listen. Needs a running tokio runtime.
    ///
    /// # Errors
    /// [`BindError`] when the credentials or the socket cannot be used.
    pub fn bind(
        socket: Socket,
        credentials: Credentials,
        admission: Arc<Admission>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self, BindError> {
        let paths = match &socket {
            Socket::Paths(paths) => Some(Arc::clone(paths)),
            Socket::Udp(_) | Socket::Packets(_) => None,
        };
        let mut profile = settings.profile;
        if paths.is_some() {
            profile.packet_bytes = RELAYED_PACKET_BYTES;
        }
        let mut transport = transport_config(profile);
        if paths.is_some() {
            transport.initial_mtu(RELAYED_PACKET_BYTES);
        }
        let transport = Arc::new(transport);
        let (identity, server) = identify(credentials, &admission, &clock, &transport, paths.is_some())?;
        let mut config = endpoint_config(&identity.credentials.key, settings.seed);
        // Refused below 1,200, where no profile goes.
        let _ = config.max_udp_payload_size(profile.packet_bytes);
        let runtime = Arc::new(TokioRuntime);
        let socket = socket.into_quic(&*runtime).map_err(BindError::Socket)?;
        let quic = quinn::Endpoint::new_with_abstract_socket(config, Some(server), socket, runtime)
            .map_err(BindError::Socket)?;
        let shared = Arc::new(Shared {
            quic,
            admission,
            settings,
            counters: Counters::default(),
            paths,
            identity: RwLock::new(identity),
            record: Mutex::default(),
            transport,
            clock,
        });
        let (deliver, arrivals) = mpsc::channel(ARRIVALS_MAX);
        tokio::spawn(accept::listen(Arc::clone(&shared), deliver));
        Ok(Self { shared, arrivals: tokio::sync::Mutex::new(arrivals) })
    }

    /// Dials a member by a plan of addresses. The number is ours and names the connection at both ends; it must grow
    /// with every dial.
    ///
    /// # Errors
    /// [`DialError`] when no address gave a connection to that very node.
    pub async fn dial(&self, peer: NodeId, number: u64, plan: &[Attempt]) -> Result<Connection, DialError> {
        dial::dial(&self.shared, peer, number, plan, Purpose::Link).await
    }

    /// Dials a member for a carrier. Its number only has to differ from those of other carriers.
    ///
    /// # Errors
    /// [`DialError`] as for [`Self::dial`]; `Incompatible` when it relays nothing.
    pub async fn dial_carrier(
        &self,
        peer: NodeId,
        number: u64,
        plan: &[Attempt],
    ) -> Result<Connection, DialError> {
        dial::dial(&self.shared, peer, number, plan, Purpose::Carrier).await
    }

    /// The paths it runs over, when its connections are relayed.
    #[must_use]
    pub fn paths(&self) -> Option<&Arc<Paths>> {
        self.shared.paths.as_ref()
    }

    /// The next connection that a member dialled, for whatever purpose; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Connection> {
        self.arrivals.lock().await.recv().await
    }

    /// The address of the socket.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.shared.quic.local_addr()
    }

    /// Says from now on in Hello how new this node's own record is.
    pub fn set_record(&self, record: RecordVersion) {
        *self.shared.record.lock().unwrap_or_else(PoisonError::into_inner) = record;
    }

    /// Shows another certificate from now on. Connections stay.
    ///
    /// # Errors
    /// [`BindError`] when TLS cannot use it; the old one stays.
    pub fn renew(&self, credentials: Credentials) -> Result<(), BindError> {
        let shared = &self.shared;
        let relayed = shared.paths.is_some();
        let (identity, server) =
            identify(credentials, &shared.admission, &shared.clock, &shared.transport, relayed)?;
        *shared.identity.write().unwrap_or_else(PoisonError::into_inner) = identity;
        shared.quic.set_server_config(Some(server));
        Ok(())
    }

    /// What happened here so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let counters = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            accepted: read(&counters.accepted),
            refused: read(&counters.refused),
            silent: read(&counters.silent),
            retried: read(&counters.retried),
            overloaded: read(&counters.overloaded),
        }
    }

    /// Closes all connections and waits for nobody.
    pub(crate) fn cut(&self) {
        self.shared.quic.close(VarInt::from_u32(CloseCode::Leaving.number()), b"");
    }

    /// Closes all connections with this code, and waits a moment for the peers to hear of it. They may not: a peer
    /// must not depend on it.
    pub async fn close(&self, code: CloseCode) {
        self.shared.quic.close(VarInt::from_u32(code.number()), b"");
        // Too late is as good as done.
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.shared.quic.wait_idle()).await;
    }
}

impl Shared {
    /// Whether there is no room for another connection.
    pub(super) fn is_full(&self) -> bool {
        self.quic.open_connections() >= self.settings.connections_max
    }

    /// What this node says of itself in a greeting that begins now.
    pub(super) fn introduction(&self) -> Introduction {
        let identity = self.identity.read().unwrap_or_else(PoisonError::into_inner);
        Introduction {
            node: identity.credentials.key.node(),
            mesh: identity.credentials.root.key().mesh(),
            record: *self.record.lock().unwrap_or_else(PoisonError::into_inner),
            relayed: self.paths.is_some(),
            settings: self.settings.clone(),
        }
    }

    /// The configuration of one dial to this node, and the verifier that will know why it was refused here.
    pub(super) fn client_for(
        &self,
        node: NodeId,
        purpose: Purpose,
    ) -> Option<(quinn::ClientConfig, MemberVerifier)> {
        let identity = self.identity.read().unwrap_or_else(PoisonError::into_inner);
        let verifier = identity.verifier.dialling(node);
        let mut client = identity.client.clone();
        client.dangerous().set_certificate_verifier(Arc::new(Handshake(verifier.clone())));
        if purpose == Purpose::Carrier {
            client.alpn_protocols = vec![ALPN_CARRIER.to_vec()];
        }
        let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).ok()?));
        config.transport_config(Arc::clone(&self.transport));
        Some((config, verifier))
    }
}

fn identify(
    credentials: Credentials,
    admission: &Arc<Admission>,
    clock: &Arc<dyn Clock>,
    transport: &Arc<quinn::TransportConfig>,
    relayed: bool,
) -> Result<(Identity, quinn::ServerConfig), BindError> {
    let verifier =
        MemberVerifier::new(&credentials.root, Arc::clone(admission)).map_err(TlsError::Certificate)?;
    let mut server = member_server(&credentials, verifier.clone(), Arc::clone(clock))?;
    // A relayed connection carries no carrier, so a way has one member between and never two.
    if !relayed {
        server.alpn_protocols.push(ALPN_CARRIER.to_vec());
    }
    let client = member_client(&credentials, verifier.clone(), Arc::clone(clock))?;
    let server = QuicServerConfig::try_from(server).map_err(|_| BindError::Cipher)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(server));
    config
        .transport_config(Arc::clone(transport))
        // A relayed connection stays on its stream.
        .migration(!relayed)
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size_total(INCOMING_BUFFER_TOTAL);
    Ok((Identity { credentials, verifier, client }, config))
}
