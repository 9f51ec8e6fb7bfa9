//! One connection to a member that said Hello.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mesh_node_core::links::{ConnectionKey, Path};
use mesh_protocol::close::CloseCode;
use mesh_protocol::hello::Features;
use mesh_protocol::id::NodeId;
use mesh_protocol::limits::DATAGRAM_BYTES_MAX;
use mesh_protocol::peer::BootId;
use mesh_protocol::record::RecordVersion;
use mesh_protocol::stream::StreamKind;
use quinn::{SendDatagramError, VarInt};
use thiserror::Error;
use tokio::sync::{Mutex, mpsc};

use super::inbound::{ARRIVALS_MAX, Inbound};
use super::line::Line;
use super::paths::{Hold, Paths};
use super::settings::{CARRIER_SEND_WINDOW, CARRIER_STREAMS_MAX};
use super::stream::halves;
use super::{CloseReason, Receiver, Sender, StreamError};
use crate::identity::Admission;

/// A stream the peer opened.
pub(super) type Arrival = (StreamKind, Sender, Receiver);

/// Why a datagram was not sent. Datagrams may be lost anyway: nobody needs more than this.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum DatagramError {
    /// Over the limit, or over what this path carries.
    #[error("datagram of {0} bytes is too long")]
    TooLong(usize),
    /// The connection ended.
    #[error("the connection ended")]
    Lost,
}

/// What a connection is for. Both ends know it from TLS on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Everything two nodes say to each other.
    Link,
    /// Packets of other connections, and nothing else.
    Carrier,
}

/// What both ends settled on, and what the peer said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) peer: NodeId,
    pub(super) key: ConnectionKey,
    pub(super) boot: BootId,
    pub(super) minor: u16,
    pub(super) features: Features,
    pub(super) record: RecordVersion,
    pub(super) frame_bytes_max: usize,
    pub(super) observed: Option<SocketAddr>,
}

/// A connection. Clones share it; it ends when the last one is dropped.
#[derive(Clone)]
pub struct Connection(Arc<Shared>);

struct Shared {
    line: Arc<Line>,
    agreement: Agreement,
    purpose: Purpose,
    /// The path it runs on, when it is relayed.
    hold: Option<Hold>,
    arrivals: Mutex<mpsc::Receiver<Arrival>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.line.close(CloseCode::Idle, "");
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement { peer, key, .. } = &self.0.agreement;
        write!(f, "Connection({} by {} #{})", peer.short(), key.dialler.short(), key.number)
    }
}

impl Connection {
    /// Takes over a connection whose greeting is done, and starts to take its streams. `None`, and it is closed, when
    /// the path it came on is gone meanwhile.
    pub(super) fn start(
        line: Arc<Line>,
        agreement: Agreement,
        purpose: Purpose,
        admission: Arc<Admission>,
        paths: Option<&Arc<Paths>>,
    ) -> Option<Self> {
        let hold = match paths {
            Some(paths) => {
                let hold = paths.hold(line.quic.remote_address());
                Some(hold.or_else(|| {
                    line.close(CloseCode::PathLost, "");
                    None
                })?)
            }
            None => None,
        };
        if purpose == Purpose::Carrier {
            line.quic.set_send_window(CARRIER_SEND_WINDOW);
            line.quic.set_max_concurrent_bi_streams(VarInt::from_u32(u32::from(CARRIER_STREAMS_MAX)));
        }
        let (arrive, arrivals) = mpsc::channel(ARRIVALS_MAX);
        let inbound = Inbound {
            line: Arc::clone(&line),
            peer: agreement.peer,
            admission,
            frame_bytes_max: agreement.frame_bytes_max,
            arrivals: arrive,
            broken: hold.as_ref().map(|hold| hold.broken.clone()).unwrap_or_default(),
        };
        tokio::spawn(inbound.run());
        Some(Self(Arc::new(Shared { line, agreement, purpose, hold, arrivals: Mutex::new(arrivals) })))
    }

    /// Who is at the other end: the owner of its certificate, let in, and the one its Hello names.
    #[must_use]
    pub fn peer(&self) -> NodeId {
        self.0.agreement.peer
    }

    /// What tells this connection from others to the same peer, the same at both ends.
    #[must_use]
    pub fn key(&self) -> ConnectionKey {
        self.0.agreement.key
    }

    /// The peer's process.
    #[must_use]
    pub fn boot(&self) -> BootId {
        self.0.agreement.boot
    }

    /// The protocol's minor version both ends speak.
    #[must_use]
    pub fn minor(&self) -> u16 {
        self.0.agreement.minor
    }

    /// The abilities both ends have.
    #[must_use]
    pub fn features(&self) -> Features {
        self.0.agreement.features
    }

    /// How new the peer's own record was when it said Hello.
    #[must_use]
    pub fn record(&self) -> RecordVersion {
        self.0.agreement.record
    }

    /// Where the peer saw our packets come from; known to the end that dialled.
    #[must_use]
    pub fn observed_address(&self) -> Option<SocketAddr> {
        self.0.agreement.observed
    }

    /// Where the peer's packets come from. May change while the connection lives, and means nothing outside this
    /// process when it is relayed.
    #[must_use]
    pub fn remote_address(&self) -> SocketAddr {
        self.0.line.quic.remote_address()
    }

    /// The way its packets go.
    #[must_use]
    pub fn path(&self) -> Path {
        match &self.0.hold {
            Some(hold) => Path::Relayed { via: hold.via },
            None => Path::Direct(self.remote_address()),
        }
    }

    /// What it is for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.0.purpose
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.line.quic.close_reason().is_some()
    }

    /// The current estimate of the round trip.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.0.line.quic.rtt()
    }

    /// Opens a stream. Waits while the peer allows no more.
    ///
    /// # Errors
    /// [`StreamError::Lost`] when the connection ended.
    pub async fn open(&self, kind: StreamKind) -> Result<(Sender, Receiver), StreamError> {
        let opened = self.0.line.quic.open_bi().await;
        let stream = opened.map_err(|error| StreamError::Lost(self.0.line.reason(&error)))?;
        let (mut sender, receiver) = halves(&self.0.line, stream, self.0.agreement.frame_bytes_max);
        sender.send_raw(&[kind.byte()]).await?;
        Ok((sender, receiver))
    }

    /// The next stream the peer opened.
    ///
    /// # Errors
    /// [`CloseReason`] when the connection ended.
    pub async fn accept_stream(&self) -> Result<(StreamKind, Sender, Receiver), CloseReason> {
        match self.0.arrivals.lock().await.recv().await {
            Some(arrival) => Ok(arrival),
            None => Err(self.closed().await),
        }
    }

    /// Sends a datagram of at most [`DATAGRAM_BYTES_MAX`] bytes. It may be lost; when too many wait, the oldest is.
    ///
    /// # Errors
    /// [`DatagramError`] when it cannot even be tried.
    pub fn send_datagram(&self, body: &[u8]) -> Result<(), DatagramError> {
        let too_long = DatagramError::TooLong(body.len());
        if body.len() > DATAGRAM_BYTES_MAX {
            return Err(too_long);
        }
        self.0.line.quic.send_datagram(Bytes::copy_from_slice(body)).map_err(|error| match error {
            SendDatagramError::ConnectionLost(_) => DatagramError::Lost,
            SendDatagramError::TooLarge
            | SendDatagramError::Disabled
            | SendDatagramError::UnsupportedByPeer => too_long,
        })
    }

    /// The next datagram. Longer ones than [`DATAGRAM_BYTES_MAX`] are dropped.
    ///
    /// # Errors
    /// [`CloseReason`] when the connection ended.
    pub async fn receive_datagram(&self) -> Result<Bytes, CloseReason> {
        loop {
            match self.0.line.quic.read_datagram().await {
                Ok(body) if body.len() <= DATAGRAM_BYTES_MAX => return Ok(body),
                Ok(_) => {}
                Err(error) => return Err(self.0.line.reason(&error)),
            }
        }
    }

    /// How many streams are in use: either half of them is held here, or they wait to be taken.
    #[must_use]
    pub fn streams_in_use(&self) -> usize {
        self.0.line.streams_in_use()
    }

    /// Waits until no stream is in use, so that closing harms nobody.
    pub async fn drained(&self) {
        self.0.line.drained().await;
    }

    /// Ends the connection at once; streams lose what is on the way. Does nothing when it ended already.
    pub fn close(&self, code: CloseCode, text: &str) {
        self.0.line.close(code, text);
    }

    /// Waits until the connection ended, and says why.
    pub async fn closed(&self) -> CloseReason {
        let error = self.0.line.quic.closed().await;
        self.0.line.reason(&error)
    }
}
