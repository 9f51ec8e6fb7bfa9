//! What this node does for others' connections: it carries packets between two members, and takes in packets that a
//! member carries to it.
//!
//! ```text
//!   carrier from A ── Carry{to: B} ──> may A? is B linked here, directly? is there room? ──> carrier to B ── Arrive{from: A}
//!   carrier from a relay ── Arrive{from} ──> is there room? ──> a path of ours
//! ```
//! Packets are moved, never read: they are sealed between the two ends. Every refusal has its reason, and is counted.
//! A grant that is taken back ends what was carried because of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_protocol::close::CloseCode;
use mesh_protocol::codec::{decode, encode};
use mesh_protocol::id::NodeId;
use mesh_protocol::relay::{RELAY_FRAME_BYTES_MAX, RelayAnswer, RelayRefusal, RelayRequest};
use mesh_protocol::stream::StreamKind;
use tokio::sync::mpsc;

use super::Shared;
use super::meter::Meter;
use crate::limits::{CARRIERS_PER_PEER_MAX, RELAY_PAIRS_MAX, RELAY_PAIRS_PER_PEER_MAX, RELAY_QUEUE_PACKETS};
use crate::transport::{Connection, PacketReader, Receiver, Sender, send_packets};

/// How long a request may take to come, and a target to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at whether a pair is still used and still allowed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Looks without a packet after which a pair ends: longer than any connection lives in silence.
const SILENT_LOOKS_MAX: u32 = 6;

/// What was carried and refused since the process began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelayCounts {
    /// Pairs carried now.
    pub pairs: usize,
    /// Packets carried.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets lost because the target's stream was slow.
    pub dropped: u64,
    /// Streams given up because what came was no packet or no request.
    pub malformed: u64,
    /// Carriers turned away because one peer had too many.
    pub carriers_refused: u64,
    /// Requests refused, by reason.
    pub refused: BTreeMap<RelayRefusal, u64>,
}

/// How much is carried for others.
#[derive(Debug)]
pub(super) struct Relays {
    bytes_per_second: u64,
    desks: Mutex<BTreeMap<NodeId, Desk>>,
    refused: Mutex<BTreeMap<RelayRefusal, u64>>,
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    malformed: AtomicU64,
    carriers_refused: AtomicU64,
}

/// What is open because one peer asked.
#[derive(Debug)]
struct Desk {
    carriers: usize,
    pairs: usize,
    meter: Arc<Meter>,
}

impl Relays {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            desks: Mutex::default(),
            refused: Mutex::default(),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            carriers_refused: AtomicU64::new(0),
        }
    }

    pub(super) fn counts(&self) -> RelayCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RelayCounts {
            pairs: self.desks().values().map(|desk| desk.pairs).sum(),
            packets: read(&self.packets),
            bytes: read(&self.bytes),
            dropped: read(&self.dropped),
            malformed: read(&self.malformed),
            carriers_refused: read(&self.carriers_refused),
            refused: self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn desks(&self) -> MutexGuard<'_, BTreeMap<NodeId, Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_refusal(&self, refusal: RelayRefusal) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let count = refused.entry(refusal).or_default();
        *count = count.saturating_add(1);
    }

    /// Changes a peer's desk, which is there while anything of the peer's is.
    fn at_desk<T>(&self, peer: NodeId, change: impl FnOnce(&mut Desk) -> T) -> T {
        let mut desks = self.desks();
        let new = || Desk { carriers: 0, pairs: 0, meter: Arc::new(Meter::new(self.bytes_per_second)) };
        let desk = desks.entry(peer).or_insert_with(new);
        let changed = change(desk);
        if desk.carriers == 0 && desk.pairs == 0 {
            desks.remove(&peer);
        }
        changed
    }

    /// Room for one more pair of this peer's, until the returned place is dropped.
    fn place(self: &Arc<Self>, peer: NodeId) -> Result<Place, RelayRefusal> {
        let all: usize = self.desks().values().map(|desk| desk.pairs).sum();
        let meter = self.at_desk(peer, |desk| {
            let room = all < RELAY_PAIRS_MAX && desk.pairs < RELAY_PAIRS_PER_PEER_MAX;
            room.then(|| {
                desk.pairs = desk.pairs.saturating_add(1);
                Arc::clone(&desk.meter)
            })
        });
        meter.map(|meter| Place { relays: Arc::clone(self), peer, meter }).ok_or(RelayRefusal::Busy)
    }
}

/// One pair that is carried.
#[derive(Debug)]
struct Place {
    relays: Arc<Relays>,
    peer: NodeId,
    meter: Arc<Meter>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.relays.at_desk(self.peer, |desk| desk.pairs = desk.pairs.saturating_sub(1));
    }
}

/// Serves a carrier that a peer dialled, until it ends.
pub(super) async fn serve(shared: Arc<Shared>, carrier: Connection) {
    let peer = carrier.peer();
    let room = shared.relays.at_desk(peer, |desk| {
        let room = desk.carriers < CARRIERS_PER_PEER_MAX;
        desk.carriers = desk.carriers.saturating_add(usize::from(room));
        room
    });
    if !room {
        shared.relays.carriers_refused.fetch_add(1, Ordering::Relaxed);
        carrier.close(CloseCode::Busy, "");
        return;
    }
    // A carrier carries nothing else; dropping a stream gives it up.
    while let Ok((kind, sender, receiver)) = carrier.accept_stream().await {
        if kind == StreamKind::Relay {
            tokio::spawn(request(Arc::clone(&shared), peer, sender, receiver));
        }
    }
    shared.relays.at_desk(peer, |desk| desk.carriers = desk.carriers.saturating_sub(1));
}

/// One stream of a carrier: what it asks for, and whether it gets it.
async fn request(shared: Arc<Shared>, peer: NodeId, mut sender: Sender, mut receiver: Receiver) {
    let asked = tokio::time::timeout(ANSWER_WITHIN, receiver.receive_frame(RELAY_FRAME_BYTES_MAX)).await;
    let Ok(Ok(Some(frame))) = asked else { return };
    let refusal = match decode::<RelayRequest>(&frame) {
        Ok(RelayRequest::Carry { to }) => match prepare(&shared, peer, to).await {
            Ok((place, target)) => {
                if say(&mut sender, RelayAnswer::Accepted).await {
                    carry(&shared, place, (receiver, sender), target).await;
                }
                return;
            }
            Err(refusal) => refusal,
        },
        Ok(RelayRequest::Arrive { from }) => match arrive(&shared, peer, from) {
            Ok(()) => {
                if say(&mut sender, RelayAnswer::Accepted).await {
                    // Fails only when the last room went meanwhile; dropping the stream says so.
                    let _ = shared.paths.open((peer, from), receiver, sender);
                }
                return;
            }
            Err(refusal) => refusal,
        },
        Err(_) => {
            shared.relays.malformed.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    shared.relays.count_refusal(refusal);
    tracing::debug!(peer = %peer.short(), %refusal, "relaying refused");
    if say(&mut sender, RelayAnswer::Refused(refusal)).await {
        let _ = sender.finish();
        let _ = tokio::time::timeout(ANSWER_WITHIN, sender.finished()).await;
    }
}

async fn say(sender: &mut Sender, answer: RelayAnswer) -> bool {
    sender.send_frame(&encode(&answer), RELAY_FRAME_BYTES_MAX).await.is_ok()
}

/// Whether packets of this member may come to this node.
fn arrive(shared: &Shared, via: NodeId, from: NodeId) -> Result<(), RelayRefusal> {
    if from == shared.me || from == via {
        return Err(RelayRefusal::Impossible);
    }
    if shared.admission.check(from).is_err() || !shared.paths.has_room(via, from) {
        return Err(RelayRefusal::Unwanted);
    }
    Ok(())
}

/// Everything that is needed to carry, or why it is not done.
async fn prepare(
    shared: &Arc<Shared>,
    peer: NodeId,
    to: NodeId,
) -> Result<(Place, (Receiver, Sender)), RelayRefusal> {
    if to == shared.me || to == peer {
        return Err(RelayRefusal::Impossible);
    }
    if !shared.relays_for(peer) {
        return Err(RelayRefusal::NotAllowed);
    }
    if shared.link(to).is_none_or(|link| link.key().relayed) {
        return Err(RelayRefusal::NotLinked);
    }
    let place = shared.relays.place(peer)?;
    let ask = async {
        let carrier = shared.carriers.to(shared, to).await.ok()?;
        ask(&carrier, RelayRequest::Arrive { from: peer }).await
    };
    match tokio::time::timeout(ANSWER_WITHIN, ask).await {
        Ok(Some(Ok((sender, receiver)))) => Ok((place, (receiver, sender))),
        Ok(Some(Err(_))) => Err(RelayRefusal::Unwanted),
        Ok(None) | Err(_) => Err(RelayRefusal::NoAnswer),
    }
}

/// Asks for packets to be taken on a stream of this carrier; `None` when no answer came.
pub(super) async fn ask(
    carrier: &Connection,
    request: RelayRequest,
) -> Option<Result<(Sender, Receiver), RelayRefusal>> {
    let (mut sender, mut receiver) = carrier.open(StreamKind::Relay).await.ok()?;
    sender.send_frame(&encode(&request), RELAY_FRAME_BYTES_MAX).await.ok()?;
    let answer = receiver.receive_frame(RELAY_FRAME_BYTES_MAX).await.ok()??;
    match decode::<RelayAnswer>(&answer).ok()? {
        RelayAnswer::Accepted => Some(Ok((sender, receiver))),
        RelayAnswer::Refused(refusal) => Some(Err(refusal)),
    }
}

/// Moves packets both ways until either stream ends, nothing moves any more, or the grant is gone.
async fn carry(
    shared: &Shared,
    place: Place,
    (from_peer, to_peer): (Receiver, Sender),
    (from_target, to_target): (Receiver, Sender),
) {
    let moved = AtomicU64::new(0);
    let still_used = async {
        let (mut seen, mut silent) = (0, 0_u32);
        while silent < SILENT_LOOKS_MAX && shared.relays_for(place.peer) {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = moved.load(Ordering::Relaxed);
            silent = if now == seen { silent.saturating_add(1) } else { 0 };
            seen = now;
        }
    };
    tokio::select! {
        biased;
        () = one_way(from_peer, to_target, &place, &moved) => {}
        () = one_way(from_target, to_peer, &place, &moved) => {}
        () = still_used => {}
    }
}

/// Reading never waits for writing: a target that does not read loses packets and holds up nobody else.
async fn one_way(read: Receiver, write: Sender, place: &Place, moved: &AtomicU64) {
    let (queue, waiting) = mpsc::channel(RELAY_QUEUE_PACKETS);
    let relays = &place.relays;
    let take = async move {
        let mut reader = PacketReader::new(read);
        loop {
            let packet = match reader.next().await {
                Ok(Some(packet)) => packet,
                Ok(None) | Err(crate::transport::PacketError::Broken(_)) => return,
                Err(_) => {
                    relays.malformed.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            };
            let bytes = packet.len();
            place.meter.pass(bytes).await;
            moved.fetch_add(1, Ordering::Relaxed);
            if queue.try_send(packet).is_ok() {
                relays.packets.fetch_add(1, Ordering::Relaxed);
                relays.bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
            } else {
                relays.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    tokio::select! {
        biased;
        () = take => {}
        // A stream that broke ends the pair, as one that was closed does.
        _ = send_packets(write, waiting) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize) -> NodeId {
        NodeId::from_bytes([u8::try_from(number).unwrap(); 32])
    }

    #[test]
    fn one_peer_has_its_pairs_and_no_more_and_all_peers_together_have_theirs() {
        let relays = Arc::new(Relays::new(1));
        let mut held: Vec<Place> =
            (0..RELAY_PAIRS_PER_PEER_MAX).map(|_| relays.place(node(1)).unwrap()).collect();
        assert_eq!(relays.place(node(1)).err(), Some(RelayRefusal::Busy));
        held.pop();
        held.push(relays.place(node(1)).expect("one that ended makes room"));
        let others = (2..50).flat_map(|peer| std::iter::repeat_n(peer, RELAY_PAIRS_PER_PEER_MAX));
        held.extend(others.filter_map(|peer| relays.place(node(peer)).ok()));
        assert_eq!((held.len(), relays.counts().pairs), (RELAY_PAIRS_MAX, RELAY_PAIRS_MAX));
        drop(held);
        assert!(relays.desks().is_empty(), "nothing is kept of who uses nothing");
    }
}
