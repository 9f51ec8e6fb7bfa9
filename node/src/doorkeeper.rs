//! Opens the join port while a ticket is out, and closes it when none is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::event::{Command, Event, Reply};
use mesh_node_core::joining::{self, RedeemRequest, Redemption};
use mesh_node_core::machine::Machine;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::codec::encode;
use mesh_protocol::revocation::RevocationList;
use mesh_protocol::ticket::TicketKey;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::identity::{Admission, Credentials, MeshRoot};
use crate::join::{Door, Issuer, Redeem, Unavailable, Welcome};
use crate::network::Network;
use crate::storage::Database;
use crate::transport::Socket;
use crate::writer::WriterHandle;

/// Longest time between two looks at which tickets are out.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long an opened door waits for the ticket it was opened for.
const OPEN_FOR_A_TICKET: Duration = Duration::from_secs(10);
/// Requests waiting for the doorkeeper.
const REQUESTS_MAX: usize = 16;
/// Size a redemption counts as in the writer's queue.
const REDEEM_BYTES: usize = 1_024;

/// What the doorkeeper works with.
pub(crate) struct Parts {
    pub(crate) root: Option<Arc<MeshRoot>>,
    pub(crate) credentials: Credentials,
    pub(crate) ticket_key: TicketKey,
    pub(crate) admission: Arc<Admission>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) database: Arc<Database>,
    pub(crate) writer: WriterHandle<Machine>,
    pub(crate) network: Network,
    pub(crate) member_address: SocketAddr,
    pub(crate) advertised: Vec<SocketAddr>,
}

enum Request {
    Open(oneshot::Sender<Result<Vec<SocketAddr>, String>>),
    Changed,
}

/// The way to the doorkeeper. A node without the root has none, and never opens.
#[derive(Debug, Clone)]
pub struct Doorkeeper(Option<mpsc::Sender<Request>>);

impl Doorkeeper {
    /// Starts the doorkeeper; it opens at once when tickets of an earlier run are still out.
    pub(crate) fn start(parts: Parts) -> Self {
        let Some(root) = parts.root.clone() else { return Self(None) };
        let (requests, inbox) = mpsc::channel(REQUESTS_MAX);
        tokio::spawn(keep(parts, root, inbox));
        Self(Some(requests))
    }

    /// Opens the port for a ticket that is about to be made, and says where it is.
    ///
    /// # Errors
    /// When it cannot be opened, or this node does not let anybody in.
    pub async fn open(&self) -> Result<Vec<SocketAddr>, ApiError> {
        let closed = || {
            ApiError::new(ErrorKind::Unavailable, "join_port_closed", "the join port cannot be opened")
                .hint("`mesh-cli logs` says why")
        };
        let requests = self.0.as_ref().ok_or_else(closed)?;
        let (answer, opened) = oneshot::channel();
        requests.send(Request::Open(answer)).await.map_err(|_| closed())?;
        match opened.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(cause)) => {
                Err(ApiError { message: cause, ..closed() }.hint("`mesh-cli doctor` says more"))
            }
            Err(_) => Err(closed()),
        }
    }

    /// Tickets were made or used: look again when the door has to close.
    pub fn tickets_changed(&self) {
        if let Some(requests) = &self.0 {
            // Full means that it is about to look anyway.
            let _ = requests.try_send(Request::Changed);
        }
    }
}

struct ToWriter(WriterHandle<Machine>);

impl Redeem for ToWriter {
    async fn redeem(&self, request: RedeemRequest) -> Result<Redemption, Unavailable> {
        match self.0.submit(Event::Command(Command::Redeem(request)), REDEEM_BYTES).await {
            Ok(Reply::Redeemed(redemption)) => Ok(redemption),
            Ok(_) | Err(_) => Err(Unavailable),
        }
    }
}

async fn keep(parts: Parts, root: Arc<MeshRoot>, mut inbox: mpsc::Receiver<Request>) {
    let Parts {
        credentials,
        ticket_key,
        admission,
        clock,
        database,
        writer,
        network,
        member_address,
        advertised,
        ..
    } = parts;
    let me = credentials.key.node();
    let (of_network, addresses) = (network.clone(), advertised.clone());
    let welcome = move || Welcome {
        revocations: of_network.revocations().as_ref().map(RevocationList::as_bytes).map(<[u8]>::to_vec),
        addresses: addresses.clone(),
        record: of_network.signed_record(me).map(|record| encode(&record)).unwrap_or_default(),
    };
    let issuer = Arc::new(Issuer {
        root,
        credentials,
        ticket_key,
        admission,
        clock: Arc::clone(&clock),
        redeem: ToWriter(writer),
        welcome: Box::new(welcome),
    });
    let mut door = Door::new(issuer, move || bind(member_address));
    let mut at_least_until = tokio::time::Instant::now();
    loop {
        let until =
            database.snapshot().ok().and_then(|s| joining::open_until(&s, clock.now()).ok().flatten());
        let wanted = until.is_some() || tokio::time::Instant::now() < at_least_until;
        if let Err(error) = door.keep(wanted) {
            tracing::error!(%error, "the join port cannot be opened");
        }
        let left = match until {
            Some(until) => Duration::from_millis(until.saturating_sub(clock.now().wall_ms)),
            // Open still for a ticket that was never made, or was good for less than that.
            None if wanted => at_least_until.saturating_duration_since(tokio::time::Instant::now()),
            None => LOOK_EVERY,
        };
        let sleep = left.clamp(Duration::from_millis(100), LOOK_EVERY);
        let request = tokio::select! {
            biased;
            request = inbox.recv() => request,
            () = tokio::time::sleep(sleep) => continue,
        };
        match request {
            Some(Request::Open(answer)) => {
                at_least_until = tokio::time::Instant::now() + OPEN_FOR_A_TICKET;
                let opened = door.keep(true).map_err(|error| error.to_string());
                let told = opened.and_then(|()| {
                    let port = door.address().ok_or("it closed at once")?.port();
                    Ok(advertised.iter().map(|address| SocketAddr::new(address.ip(), port)).collect())
                });
                // Whoever asked may have hung up.
                let _ = answer.send(told);
            }
            Some(Request::Changed) => {}
            None => return,
        }
    }
}

/// The port after the members' one, so that a firewall can be told; any port when that one is taken.
fn bind(member: SocketAddr) -> std::io::Result<Socket> {
    let next = SocketAddr::new(member.ip(), member.port().checked_add(1).unwrap_or(0));
    let socket = std::net::UdpSocket::bind(next);
    socket.or_else(|_| std::net::UdpSocket::bind(SocketAddr::new(member.ip(), 0))).map(Socket::Udp)
}
