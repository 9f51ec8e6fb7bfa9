//! Our sending session to one peer.

use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::event;
use mesh_node_core::outbox;
use mesh_protocol::codec::{decode, encode};
use mesh_protocol::delivery::{ToReceiver, ToSender};
use mesh_protocol::id::NodeId;
use mesh_protocol::limits::PARCEL_FRAME_BYTES_MAX;
use mesh_protocol::stream::StreamKind;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::Delivery;
use crate::transport::{Connection, Receiver, Sender};

/// Parcels read from the database at once.
const PAGE_PARCELS: usize = 64;
/// Bytes of them.
const PAGE_BYTES: u64 = 1024 * 1024;
/// Frames the core may ask for before the stream takes the first: an opening and a gap, and room for a repeat.
const ORDERS_MAX: usize = 8;
/// How long a session may take to come to live, and how often a quiet one looks whether it still does. A busy one
/// learns it from what it reads of the outbox.
const LIVE_WITHIN: Duration = Duration::from_secs(5);
/// Size an event without a body counts as, in the writer's queue.
const EVENT_BYTES: usize = 64;
/// How long after a session ended on a link that lives the next one begins: a peer whose disk takes nothing now, or
/// that had an older session's opening overtake this one's, is asked again and not hammered.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// The longest wait a busy peer may ask for.
const BUSY_MAX: Duration = Duration::from_secs(60);

/// What the core asked of this session.
enum Order {
    Frame(ToReceiver),
    StreamFrom(u64),
}

/// The handle of a session. Dropped, the session ends too; only [`Outgoing::end`] keeps it from beginning
/// the next.
pub(super) struct Outgoing {
    session: u64,
    orders: mpsc::Sender<Order>,
    grew: Arc<Notify>,
    over: CancellationToken,
}

impl Outgoing {
    pub(super) const fn session(&self) -> u64 {
        self.session
    }

    pub(super) fn wake(&self) {
        self.grew.notify_one();
    }

    pub(super) fn frame(&self, frame: ToReceiver) {
        self.order(Order::Frame(frame));
    }

    pub(super) fn stream_from(&self, seq: u64) {
        self.order(Order::StreamFrom(seq));
    }

    fn order(&self, order: Order) {
        match self.orders.try_send(order) {
            // Closed: it ended before a slow disk let the core answer its beginning. The next one begins soon.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            // The peer makes this node begin again and again without reading: the next link begins anew.
            Err(TrySendError::Full(_)) => self.over.cancel(),
        }
    }

    pub(super) fn end(self) {
        self.over.cancel();
    }
}

/// Opens the stream and tells the core that a session begins.
pub(super) fn begin(delivery: Arc<Delivery>, connection: Connection, session: u64) -> Outgoing {
    let (orders, inbox) = mpsc::channel(ORDERS_MAX);
    let (grew, over) = (Arc::new(Notify::new()), CancellationToken::new());
    let handle = Outgoing { session, orders, grew: Arc::clone(&grew), over: over.clone() };
    let peer = connection.peer();
    tokio::spawn(async move {
        let work = run(&delivery, &connection, session, inbox, &grew);
        tokio::select! {
            // First: a session that was replaced before it began must not tell the core that it begins.
            biased;
            () = over.cancelled() => {}
            () = work => {}
        }
        delivery.post(peer, event::Delivery::Lost { session }, EVENT_BYTES).await;
        // The stream ended and nobody here ended it.
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            _ = connection.closed() => {}
            () = tokio::time::sleep(AGAIN_AFTER) => delivery.begin_again(&connection, session),
        }
    });
    handle
}

async fn run(
    delivery: &Arc<Delivery>,
    connection: &Connection,
    session: u64,
    orders: mpsc::Receiver<Order>,
    grew: &Notify,
) {
    let peer = connection.peer();
    // The stream exists at the peer from its first frame on, which is the opening the core decides.
    let Ok((sender, receiver)) = connection.open(StreamKind::Outbox).await else { return };
    if !delivery.post(peer, event::Delivery::Begin { session }, EVENT_BYTES).await {
        return;
    }
    tokio::select! {
        biased;
        () = write(delivery, peer, session, sender, orders, grew) => {}
        () = read(delivery, peer, session, receiver) => {}
    }
}

async fn write(
    delivery: &Arc<Delivery>,
    peer: NodeId,
    session: u64,
    mut sender: Sender,
    mut orders: mpsc::Receiver<Order>,
    grew: &Notify,
) {
    let mut next = None;
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Frame(frame)) => {
                    if sender.send_frame(&encode(&frame), PARCEL_FRAME_BYTES_MAX).await.is_err() {
                        return;
                    }
                }
                Some(Order::StreamFrom(seq)) => next = Some(seq),
                None => return,
            },
            () = grew.notified(), if next.is_some() => {}
            // A session whose opening crossed that of another never comes to live, and nobody says so: then it ends
            // here, and the next begins. One that did come to live looks below whether it still does.
            () = tokio::time::sleep(LIVE_WITHIN) => if next.is_none() {
                tracing::info!(peer = %peer.short(), "a delivery session did not come to live");
                return;
            },
        }
        if let Some(seq) = next {
            next = stream(delivery, peer, session, &mut sender, seq).await;
            if next.is_none() {
                return;
            }
        }
    }
}

/// Sends all committed parcels from this one on. Returns the first that is not there yet; `None` when the session does
/// not go on.
async fn stream(
    delivery: &Arc<Delivery>,
    peer: NodeId,
    session: u64,
    sender: &mut Sender,
    mut seq: u64,
) -> Option<u64> {
    loop {
        let page = match delivery.database.snapshot() {
            Ok(snapshot) => outbox::next_parcels(&snapshot, peer, session, seq, PAGE_PARCELS, PAGE_BYTES),
            Err(error) => Err(error.into()),
        };
        let parcels = match page {
            Ok(Some(parcels)) if parcels.is_empty() => return Some(seq),
            Ok(Some(parcels)) => parcels,
            Ok(None) => {
                tracing::info!(peer = %peer.short(), "a delivery session lives no more");
                return None;
            }
            Err(error) => {
                tracing::warn!(peer = %peer.short(), %error, "the outbox cannot be read");
                return None;
            }
        };
        for parcel in parcels {
            seq = parcel.seq.saturating_add(1);
            let frame = encode(&ToReceiver::Parcel(parcel));
            if sender.send_frame(&frame, PARCEL_FRAME_BYTES_MAX).await.is_err() {
                return None;
            }
        }
    }
}

async fn read(delivery: &Arc<Delivery>, peer: NodeId, session: u64, mut receiver: Receiver) {
    while let Ok(Some(frame)) = receiver.receive_frame(PARCEL_FRAME_BYTES_MAX).await {
        let event = match decode::<ToSender>(&frame) {
            Ok(ToSender::Resume(resume)) => event::Delivery::Resume { session, resume },
            Ok(ToSender::Ack(ack)) => event::Delivery::Ack { session, ack },
            Ok(ToSender::Busy(busy)) => {
                tracing::info!(peer = %peer.short(), ?busy, "a peer takes nothing for a while");
                // What it did not take is offered again in the next session.
                tokio::time::sleep(Duration::from_millis(busy.retry_after_ms).min(BUSY_MAX)).await;
                return;
            }
            Err(error) => {
                tracing::warn!(peer = %peer.short(), %error, "a peer broke the delivery protocol");
                return;
            }
        };
        if !delivery.post(peer, event, EVENT_BYTES).await {
            return;
        }
    }
}
