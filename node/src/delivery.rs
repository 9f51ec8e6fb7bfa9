//! Durable messages on links: the streams between two nodes' outboxes.
//!
//! ```text
//!            our outbox to the peer                       the peer's outbox to us
//!   writer ── frames ──> Outgoing ── stream ──> peer      peer ── stream ──> Incoming ── events ──> writer
//!   writer <── events ── Outgoing <── acks ──── peer      peer <── acks ──── Incoming <── answers ── writer
//! ```
//! One sending session a link at a time, begun again when it ends before the link does; one receiving session for each
//! the peer opens. What may be sent, and what an answer means, the core decides in the writer; here bytes move. Parcels
//! are read from committed state only, so nothing is on the wire that a crash could forget; acknowledgements are actions
//! of a commit, so nothing is acknowledged before it is durable. A peer that sends faster than the disk takes it waits
//! in the writer's queue, and QUIC's flow control carries that back.

mod acknowledged;
mod incoming;
mod outgoing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mesh_node_core::event::{self, Event};
use mesh_node_core::machine::Machine;
use mesh_node_core::outbox;
use mesh_node_core::time::Now;
use mesh_node_core::turn::Place;
use mesh_protocol::delivery::{ToReceiver, ToSender};
use mesh_protocol::id::NodeId;
use rand::Rng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::randomness::Randomness;
use crate::storage::Database;
use crate::transport::{Connection, Receiver, Sender};
use crate::writer::{PeerShare, WriterHandle};

use acknowledged::Acknowledged;
use incoming::Incoming;
use outgoing::Outgoing;

/// Receiving sessions one peer may have at once: the one in use and one that is ending.
const INCOMING_PER_PEER_MAX: usize = 4;

/// All sessions of one node.
pub struct Delivery {
    database: Arc<Database>,
    writer: OnceLock<WriterHandle<Machine>>,
    outgoing: Mutex<BTreeMap<NodeId, Outgoing>>,
    incoming: Mutex<BTreeMap<(NodeId, u64), Incoming>>,
    /// What each peer may have in the writer's queue. Peers are members, so no more than the root let in.
    shares: Mutex<BTreeMap<NodeId, PeerShare>>,
    /// Peers of whom nothing is taken until their next link.
    paused: Mutex<BTreeSet<NodeId>>,
    acknowledged: Acknowledged,
    /// Names sessions.
    rng: Mutex<StdRng>,
    growth: OnceLock<Box<dyn Fn(NodeId) + Send + Sync>>,
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({} outgoing, {} incoming)", self.outgoing().len(), self.incoming().len())
    }
}

impl Delivery {
    /// No sessions yet. Nothing moves before [`Delivery::attach`].
    #[must_use]
    pub fn new(database: Arc<Database>, randomness: Randomness) -> Arc<Self> {
        let (outgoing, incoming, shares, paused, acknowledged) = Default::default();
        let rng = Mutex::new(randomness.stream("delivery"));
        let (writer, growth) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { database, writer, outgoing, incoming, shares, paused, acknowledged, rng, growth })
    }

    /// Gives it the writer, which is started with this as one of its surroundings. The first call counts.
    pub fn attach(&self, writer: WriterHandle<Machine>) {
        let _ = self.writer.set(writer);
    }

    /// Tells somebody, too, whenever there are new parcels for a peer. It must not block. The first call counts.
    pub fn when_it_grows(&self, tell: impl Fn(NodeId) + Send + Sync + 'static) {
        let _ = self.growth.set(Box::new(tell));
    }

    /// Those of these peers for whom something waits. None when that cannot be read: then nothing can be sent either.
    #[must_use]
    pub fn with_parcels(&self, now: Now, mut peers: Vec<NodeId>) -> Vec<NodeId> {
        let Ok(snapshot) = self.database.snapshot() else { return Vec::new() };
        peers.retain(|peer| {
            outbox::depth(&snapshot, now, *peer).ok().flatten().is_some_and(|outbox| outbox.count > 0)
        });
        peers
    }

    fn outgoing(&self) -> MutexGuard<'_, BTreeMap<NodeId, Outgoing>> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incoming(&self) -> MutexGuard<'_, BTreeMap<(NodeId, u64), Incoming>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_session(&self) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A link is up, or goes over another connection now: a new sending session begins on it.
    pub fn link_up(self: &Arc<Self>, connection: &Connection) {
        let peer = connection.peer();
        // The lock is held over the beginning: the core's first order must find the session here.
        let mut outgoing = self.outgoing();
        if let Some(old) = outgoing.remove(&peer) {
            old.end();
        }
        outgoing.insert(peer, outgoing::begin(Arc::clone(self), connection.clone(), self.new_session()));
    }

    /// A session ended while its link lives: the next one begins, unless another has already.
    fn begin_again(self: &Arc<Self>, connection: &Connection, ended: u64) {
        let mut outgoing = self.outgoing();
        if let Some(current) = outgoing.get_mut(&connection.peer()).filter(|it| it.session() == ended) {
            *current = outgoing::begin(Arc::clone(self), connection.clone(), self.new_session());
        }
    }

    /// The last connection to a peer is gone.
    pub fn link_down(&self, peer: NodeId) {
        self.paused().remove(&peer);
        if let Some(old) = self.outgoing().remove(&peer) {
            old.end();
        }
    }

    /// A peer opened its sending stream.
    pub fn accept(self: &Arc<Self>, peer: NodeId, sender: Sender, receiver: Receiver) {
        // Dropping the stream gives it up; a peer that keeps to the protocol tries again later.
        if self.takes_from(peer, &self.incoming()) {
            tokio::spawn(incoming::run(Arc::clone(self), peer, sender, receiver));
        }
    }

    /// Whether one more session of a peer may begin.
    fn takes_from(&self, peer: NodeId, incoming: &BTreeMap<(NodeId, u64), Incoming>) -> bool {
        let open = incoming.keys().filter(|(from, _)| *from == peer).count();
        open < INCOMING_PER_PEER_MAX && !self.paused().contains(&peer)
    }

    /// A peer's session begins, in the place of an older one of that name. False if it may not: streams that said nothing
    /// so far were not counted, and the peer may have been paused meanwhile.
    fn begin_incoming(&self, peer: NodeId, session: u64, handle: Incoming) -> bool {
        let mut incoming = self.incoming();
        if let Some(old) = incoming.remove(&(peer, session)) {
            old.end();
        }
        let begins = self.takes_from(peer, &incoming);
        if begins {
            incoming.insert((peer, session), handle);
        }
        begins
    }

    /// It ended. One that took its place stays.
    fn end_incoming(&self, peer: NodeId, session: u64, over: &CancellationToken) {
        let mut incoming = self.incoming();
        if incoming.get(&(peer, session)).is_some_and(|handle| handle.is_of(over)) {
            incoming.remove(&(peer, session));
        }
    }

    /// There are new parcels for a peer.
    pub fn grew(&self, peer: NodeId) {
        if let Some(outgoing) = self.outgoing().get(&peer) {
            outgoing.wake();
        }
        if let Some(tell) = self.growth.get() {
            tell(peer);
        }
    }

    /// A peer has everything up to this place on its disk.
    pub fn acknowledged(&self, peer: NodeId, place: Place) {
        self.acknowledged.note(peer, place);
    }

    /// What a peer acknowledges from now on.
    #[must_use]
    pub fn acknowledgements(&self, peer: NodeId) -> watch::Receiver<Option<Place>> {
        self.acknowledged.subscribe(peer)
    }

    /// Write a frame on our sending stream, if it is still this session's.
    pub fn send_frame(&self, peer: NodeId, session: u64, frame: ToReceiver) {
        self.with_outgoing(peer, session, |outgoing| outgoing.frame(frame));
    }

    /// Stream parcels from this one on, if it is still this session.
    pub fn stream_from(&self, peer: NodeId, session: u64, seq: u64) {
        self.with_outgoing(peer, session, |outgoing| outgoing.stream_from(seq));
    }

    /// Answer on the peer's sending stream, if it is still this session's.
    pub fn answer(&self, peer: NodeId, session: u64, frame: ToSender) {
        if let Some(incoming) = self.incoming().get(&(peer, session)) {
            incoming.answer(frame);
        }
    }

    /// Close the peer's sending stream: it sent what no sender sends, or its session was replaced.
    pub fn reset(&self, peer: NodeId, session: u64) {
        if let Some(incoming) = self.incoming().remove(&(peer, session)) {
            incoming.end();
        }
    }

    /// An event from this peer could not be handled: stop taking from it until its next link.
    pub fn pause(&self, peer: NodeId) {
        self.paused().insert(peer);
        let mut incoming = self.incoming();
        let sessions: Vec<_> = incoming.keys().filter(|(from, _)| *from == peer).copied().collect();
        sessions.iter().filter_map(|key| incoming.remove(key)).for_each(Incoming::end);
    }

    /// Whether nothing is taken from this peer until its next link.
    #[must_use]
    pub fn is_paused(&self, peer: NodeId) -> bool {
        self.paused().contains(&peer)
    }

    fn with_outgoing(&self, peer: NodeId, session: u64, call: impl FnOnce(&Outgoing)) {
        if let Some(outgoing) = self.outgoing().get(&peer).filter(|outgoing| outgoing.session() == session) {
            call(outgoing);
        }
    }

    /// Hands an event to the writer, waiting for room. False when the node is stopping.
    async fn post(&self, peer: NodeId, delivery: event::Delivery, bytes: usize) -> bool {
        let Some(writer) = self.writer.get() else { return false };
        let share =
            self.shares.lock().unwrap_or_else(PoisonError::into_inner).entry(peer).or_default().clone();
        writer.post_within(&share, Event::Delivery(peer, delivery), bytes).await.is_ok()
    }
}
