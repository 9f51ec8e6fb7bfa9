//! A network in memory that moves packets as bad networks do: late, lost, doubled, reordered, cut.
//!
//! ```text
//!  try_send ─ cut? lost? ─> flying, until its time ─ cut by then? ─> inbox ──> poll_receive
//! ```
//! It is driven by events: a packet costs one place in a queue, and a quiet network nothing. Only lengths and times go
//! into the trace, since what is in a packet depends on keys that the system draws.
//!
//! Invariants: the plug of a life that is over moves nothing, in either direction; a cut stops what is flying too.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mesh_node::transport::PacketSocket;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Trace;

/// Packets that may wait to be read at one address; a socket's buffer of the usual 208 KiB holds about as many.
const INBOX_MAX: usize = 256;

/// What the network does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// Of a thousand packets, so many are lost.
    pub lose: u32,
    /// Of a thousand, so many come twice.
    pub repeat: u32,
    /// Of a thousand, so many take several times as long, and are overtaken.
    pub reorder: u32,
    /// The shortest way between two machines, in milliseconds. Each two have a way of their own length.
    pub latency_min_ms: u64,
    /// The longest, in milliseconds.
    pub latency_max_ms: u64,
}

/// How much longer than its way a packet takes at most, in microseconds. Packets overtake each other only when the
/// weather says so: a network whose every packet takes a time of its own is none, and to QUIC one long loss.
const JITTER_US: u64 = 1_000;

/// What the network did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets handed to it.
    pub sent: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Packets it lost, by weather or by a cut.
    pub lost: u64,
}

/// The network. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Network(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// A packet is due earlier than any before.
    earlier: Notify,
    start: Instant,
}

#[derive(Debug)]
struct State {
    rng: ChaCha8Rng,
    weather: Weather,
    trace: Trace,
    counts: Counts,
    /// By when they arrive, in microseconds, and by their number.
    flying: BTreeMap<(u64, u64), Packet>,
    number: u64,
    plugs: HashMap<SocketAddr, Place>,
    /// Ways: how long each is, and when the last packet arrives on it, in microseconds.
    ways: HashMap<(SocketAddr, SocketAddr), (u64, u64)>,
    /// How many cuts hold up packets from one address to another.
    cuts: BTreeMap<(SocketAddr, SocketAddr), u32>,
}

#[derive(Debug)]
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// What is plugged in at one address.
#[derive(Debug, Default)]
struct Place {
    plug: u64,
    inbox: VecDeque<(SocketAddr, Vec<u8>)>,
    reader: Option<Waker>,
}

impl Network {
    /// A network with nobody on it. Must be called within a Tokio runtime.
    #[must_use]
    pub fn new(seed: u64, weather: Weather) -> Self {
        let state = State {
            rng: ChaCha8Rng::seed_from_u64(seed),
            weather,
            trace: Trace::default(),
            counts: Counts::default(),
            flying: BTreeMap::new(),
            number: 0,
            plugs: HashMap::new(),
            ways: HashMap::new(),
            cuts: BTreeMap::new(),
        };
        let shared = Shared { state: Mutex::new(state), earlier: Notify::new(), start: Instant::now() };
        let network = Self(Arc::new(shared));
        tokio::spawn(network.clone().carry());
        network
    }

    /// A socket at this address, in place of the one that was there.
    #[must_use]
    pub fn plug(&self, address: SocketAddr) -> Arc<dyn PacketSocket> {
        let mut state = self.lock();
        state.number += 1;
        let plug = state.number;
        let place = state.plugs.entry(address).or_default();
        *place = Place { plug, ..Place::default() };
        Arc::new(Plug { network: self.clone(), address, plug })
    }

    /// Pulls the plug at this address: whoever had it sends into nothing and hears nothing.
    pub fn pull(&self, address: SocketAddr) {
        self.lock().plugs.remove(&address);
    }

    /// Holds up packets from one address to another, until as many [`Self::mend`] came.
    pub fn cut(&self, from: SocketAddr, to: SocketAddr) {
        *self.lock().cuts.entry((from, to)).or_default() += 1;
    }

    /// Takes one cut back.
    pub fn mend(&self, from: SocketAddr, to: SocketAddr) {
        let mut state = self.lock();
        if let Some(count) = state.cuts.get_mut(&(from, to)) {
            *count = count.saturating_sub(1);
        }
        state.cuts.retain(|_, count| *count > 0);
    }

    /// Changes the weather, and mends every cut.
    pub fn heal(&self, weather: Weather) {
        let mut state = self.lock();
        state.weather = weather;
        state.cuts.clear();
    }

    /// Takes something that happened elsewhere into the trace.
    pub fn note(&self, what: &str, details: &[u64]) {
        let at = self.now_us();
        let mut state = self.lock();
        state.trace.note(what, &[at]);
        state.trace.note("", details);
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.lock().trace
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.0.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers packets when their time comes, for ever.
    async fn carry(self) {
        loop {
            let now = self.now_us();
            let next = self.lock().deliver(now);
            let until = match next {
                Some(at) => self.0.start + Duration::from_micros(at),
                None => {
                    self.0.earlier.notified().await;
                    continue;
                }
            };
            tokio::select! {
                biased;
                () = self.0.earlier.notified() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn send(&self, plug: &Plug, to: SocketAddr, bytes: &[u8]) {
        let now = self.now_us();
        let mut state = self.lock();
        if state.plugs.get(&plug.address).is_none_or(|place| place.plug != plug.plug) {
            return;
        }
        if state.take_off(now, plug.address, to, bytes) {
            self.0.earlier.notify_one();
        }
    }
}

impl State {
    /// Decides a packet's fate. Whether it is now the first to arrive.
    fn take_off(&mut self, now: u64, from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> bool {
        self.counts.sent += 1;
        self.counts.bytes += bytes.len() as u64;
        self.trace.note("packet", &[now, number(from), number(to), bytes.len() as u64]);
        let Weather { lose, repeat, reorder, latency_min_ms, latency_max_ms } = self.weather;
        // Always the same number of draws, so that a cut changes no other packet's fate.
        let lost = self.rng.random_ratio(lose, 1_000);
        let copies = 1 + u64::from(self.rng.random_ratio(repeat, 1_000));
        let late = self.rng.random_ratio(reorder, 1_000);
        let jitter = self.rng.random_range(0..JITTER_US);
        let length = match self.ways.get(&(from, to)) {
            Some((length, _)) => *length,
            None => {
                let length = self.rng.random_range(latency_min_ms * 1_000..=latency_max_ms * 1_000);
                self.ways.insert((to, from), (length, 0));
                length
            }
        };
        let (_, last) = self.ways.entry((from, to)).or_insert((length, 0));
        let at = if late {
            now + 4 * length + jitter
        } else {
            *last = (now + length + jitter).max(*last);
            *last
        };
        if lost || self.cuts.contains_key(&(from, to)) || !self.plugs.contains_key(&to) {
            self.counts.lost += 1;
            return false;
        }
        let first = self.flying.first_key_value().map(|((at, _), _)| *at);
        for copy in 0..copies {
            self.number += 1;
            let packet = Packet { from, to, bytes: bytes.to_vec() };
            self.flying.insert((at + copy * JITTER_US, self.number), packet);
        }
        first.is_none_or(|first| at < first)
    }

    /// Puts what is due into the inboxes. When the next packet is due.
    fn deliver(&mut self, now: u64) -> Option<u64> {
        while let Some(first) = self.flying.first_entry() {
            let (at, _) = *first.key();
            if at > now {
                return Some(at);
            }
            let Packet { from, to, bytes } = first.remove();
            let cut = self.cuts.contains_key(&(from, to));
            match self.plugs.get_mut(&to).filter(|place| !cut && place.inbox.len() < INBOX_MAX) {
                Some(place) => {
                    place.inbox.push_back((from, bytes));
                    if let Some(reader) = place.reader.take() {
                        reader.wake();
                    }
                }
                None => self.counts.lost += 1,
            }
        }
        None
    }
}

/// An address as a number, for the trace.
fn number(address: SocketAddr) -> u64 {
    match address {
        SocketAddr::V4(v4) => u64::from(v4.ip().to_bits()),
        SocketAddr::V6(_) => 0,
    }
}

/// One life's socket.
#[derive(Debug)]
struct Plug {
    network: Network,
    address: SocketAddr,
    plug: u64,
}

impl PacketSocket for Plug {
    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn try_send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
        self.network.send(self, to, packet);
        Ok(())
    }

    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut state = self.network.lock();
        let Some(place) = state.plugs.get_mut(&self.address).filter(|place| place.plug == self.plug) else {
            return Poll::Pending;
        };
        match place.inbox.pop_front() {
            Some((from, packet)) => {
                let bytes = packet.len().min(buffer.len());
                if let (Some(to), Some(from)) = (buffer.get_mut(..bytes), packet.get(..bytes)) {
                    to.copy_from_slice(from);
                }
                Poll::Ready(Ok((bytes, from)))
            }
            None => {
                place.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
