//! Paths through other members: a packet socket whose packets travel on byte streams.
//!
//! ```text
//!   QUIC of relayed connections <──> Paths ── queue ──> stream to the relay ──> ...
//!                                      ^──── inbox <─── stream to the relay <── ...
//! ```
//! To the library each path is an address of a range that leads nowhere (100::/64, RFC 6666) and that never leaves this
//! process; no address is used twice. A path is one stream. When the stream ends, so does the connection on it; when the
//! connection ends, so does the stream.
//!
//! A queue that is full loses packets, as a router does, and the connections on it slow down. What comes out of a stream
//! is given to the library as it is: only TLS between the two ends decides what is believed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use mesh_protocol::id::NodeId;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::PacketSocket;
use super::packets::{PacketReader, send_packets};
use crate::limits::{
    PATH_QUEUE_PACKETS, PATHS_INBOX_PACKETS, PATHS_MAX, PATHS_PER_PEER_MAX, PATHS_PER_RELAY_MAX,
};

/// How long a path may be without a connection: a slow handshake and a slow Hello.
const UNUSED: Duration = Duration::from_secs(10);
/// How long nothing may come in on a path. A connection that lives sends more often ([`super::Profile`]).
const SILENT: Duration = Duration::from_secs(20);
/// Between two looks at both.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the last packets of a connection, its goodbye among them, may take to get into the stream.
const LINGER: Duration = Duration::from_millis(250);

/// No room for another path.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("there are too many relayed paths")]
pub struct PathsFull;

/// What happened on all paths since the process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCounts {
    /// Packets lost because a queue was full or their path was gone.
    pub dropped: u64,
    /// Streams given up because what came was no packet.
    pub malformed: u64,
}

#[derive(Debug)]
struct Entry {
    via: NodeId,
    peer: NodeId,
    queue: mpsc::Sender<Bytes>,
    broken: CancellationToken,
    released: CancellationToken,
    held: bool,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    entries: BTreeMap<SocketAddr, Entry>,
}

/// All paths of one node.
pub struct Paths {
    state: Mutex<State>,
    arrive: mpsc::Sender<(SocketAddr, Bytes)>,
    inbox: Mutex<mpsc::Receiver<(SocketAddr, Bytes)>>,
    dropped: AtomicU64,
    malformed: AtomicU64,
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Paths({})", self.state().entries.len())
    }
}

/// A connection's hold on its path: the path ends soon after this is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) via: NodeId,
    /// Cancelled when the path ended by itself.
    pub(super) broken: CancellationToken,
    released: CancellationToken,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.released.cancel();
    }
}

impl Default for Paths {
    fn default() -> Self {
        let (arrive, inbox) = mpsc::channel(PATHS_INBOX_PACKETS);
        Self {
            state: Mutex::default(),
            arrive,
            inbox: Mutex::new(inbox),
            dropped: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
        }
    }
}

impl Paths {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another path through this member to that one may be opened.
    #[must_use]
    pub fn has_room(&self, via: NodeId, peer: NodeId) -> bool {
        let state = self.state();
        let count = |of: &dyn Fn(&Entry) -> bool| state.entries.values().filter(|entry| of(entry)).count();
        state.entries.len() < PATHS_MAX
            && count(&|entry| entry.via == via) < PATHS_PER_RELAY_MAX
            && count(&|entry| entry.peer == peer) < PATHS_PER_PEER_MAX
    }

    /// Makes a path of a byte stream to a member, behind which is another (as far as the first says), and says at which
    /// address the library finds it. It ends when no connection uses it.
    ///
    /// # Errors
    /// [`PathsFull`]; the stream is dropped.
    pub fn open<R, W>(
        self: &Arc<Self>,
        (via, peer): (NodeId, NodeId),
        read: R,
        write: W,
    ) -> Result<SocketAddr, PathsFull>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        if !self.has_room(via, peer) {
            return Err(PathsFull);
        }
        let (queue, waiting) = mpsc::channel(PATH_QUEUE_PACKETS);
        let (broken, released) = (CancellationToken::new(), CancellationToken::new());
        let entry =
            Entry { via, peer, queue, broken: broken.clone(), released: released.clone(), held: false };
        let address = {
            let mut state = self.state();
            state.last = state.last.saturating_add(1);
            let address = address(state.last);
            state.entries.insert(address, entry);
            address
        };
        let paths = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = paths.watch(address, PacketReader::new(read)) => {}
                // A stream that broke ends the path, as one that was closed does.
                _ = send_packets(write, waiting) => {}
                () = linger(released) => {}
            }
            paths.state().entries.remove(&address);
            broken.cancel();
        });
        Ok(address)
    }

    /// Gives a path up that got no connection.
    pub fn end(&self, address: SocketAddr) {
        if let Some(entry) = self.state().entries.get(&address) {
            entry.released.cancel();
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> PathCounts {
        PathCounts {
            dropped: self.dropped.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
        }
    }

    /// Keeps the path for a connection; `None` when it is gone, or another connection has it.
    pub(super) fn hold(&self, address: SocketAddr) -> Option<Hold> {
        let mut state = self.state();
        let entry = state.entries.get_mut(&address).filter(|entry| !entry.held)?;
        entry.held = true;
        Some(Hold { via: entry.via, broken: entry.broken.clone(), released: entry.released.clone() })
    }

    /// Takes in what the stream brings, until it ends, is silent for too long, or nobody uses the path.
    async fn watch<R: AsyncRead + Unpin>(&self, address: SocketAddr, mut reader: PacketReader<R>) {
        let began = Instant::now();
        let mut heard = began;
        loop {
            match tokio::time::timeout(LOOK_EVERY, reader.next()).await {
                Ok(Ok(Some(packet))) => {
                    heard = Instant::now();
                    // While the library does not take them, the stream is not read; QUIC carries that back.
                    if self.arrive.send((address, packet)).await.is_err() {
                        return;
                    }
                }
                Ok(Ok(None)) => return,
                Ok(Err(error)) => {
                    if !matches!(error, super::PacketError::Broken(_)) {
                        self.malformed.fetch_add(1, Ordering::Relaxed);
                        tracing::debug!(%error, "a relayed path ended");
                    }
                    return;
                }
                Err(_) => {}
            }
            let held = self.state().entries.get(&address).is_some_and(|entry| entry.held);
            if heard.elapsed() > SILENT || (!held && began.elapsed() > UNUSED) {
                return;
            }
        }
    }
}

async fn linger(released: CancellationToken) {
    released.cancelled().await;
    tokio::time::sleep(LINGER).await;
}

fn address(number: u64) -> SocketAddr {
    let low = Ipv6Addr::from(u128::from(number)).segments();
    let [.., a, b, c, d] = low;
    SocketAddr::from((Ipv6Addr::new(0x100, 0, 0, 0, a, b, c, d), 1))
}

impl PacketSocket for Paths {
    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(address(0))
    }

    fn try_send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
        let sent = match self.state().entries.get(&to) {
            Some(entry) => entry.queue.try_send(Bytes::copy_from_slice(packet)).is_ok(),
            None => false,
        };
        if !sent {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some((from, packet)) = ready!(inbox.poll_recv(context)) else {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            };
            match buffer.get_mut(..packet.len()) {
                Some(place) => {
                    place.copy_from_slice(&packet);
                    return Poll::Ready(Ok((packet.len(), from)));
                }
                // Longer than this node said it takes.
                None => _ = self.dropped.fetch_add(1, Ordering::Relaxed),
            }
        }
    }
}
