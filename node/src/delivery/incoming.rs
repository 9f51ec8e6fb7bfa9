//! A peer's sending session to us.

use std::sync::Arc;

use mesh_node_core::event;
use mesh_protocol::codec::{decode, encode};
use mesh_protocol::delivery::{Ack, ToReceiver, ToSender};
use mesh_protocol::id::NodeId;
use mesh_protocol::limits::{CONTROL_FRAME_BYTES_MAX, PARCEL_FRAME_BYTES_MAX};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Delivery;
use crate::transport::{Receiver, Sender};

/// Answers other than acknowledgements that may wait for the stream.
const ANSWERS_MAX: usize = 4;
/// Size an event without a body counts as, in the writer's queue.
const EVENT_BYTES: usize = 64;

/// The handle of a session.
pub(super) struct Incoming {
    /// Cumulative: only the newest is worth sending.
    ack: watch::Sender<Option<Ack>>,
    answers: mpsc::Sender<ToSender>,
    over: CancellationToken,
}

impl Incoming {
    pub(super) fn answer(&self, frame: ToSender) {
        match frame {
            ToSender::Ack(ack) => drop(self.ack.send_replace(Some(ack))),
            other @ (ToSender::Resume(_) | ToSender::Busy(_)) => {
                if self.answers.try_send(other).is_err() {
                    self.over.cancel();
                }
            }
        }
    }

    /// Whether this is the handle of the session that ends with this token.
    pub(super) fn is_of(&self, over: &CancellationToken) -> bool {
        // Whoever takes a session's place ends it first.
        self.over.is_cancelled() == over.is_cancelled()
    }

    pub(super) fn end(self) {
        self.over.cancel();
    }
}

/// Takes a peer's parcels until its stream ends or the core closes it.
pub(super) async fn run(delivery: Arc<Delivery>, peer: NodeId, sender: Sender, mut receiver: Receiver) {
    // The opening names the session; nothing else may come first.
    let Ok(Some(frame)) = receiver.receive_frame(CONTROL_FRAME_BYTES_MAX).await else { return };
    let Ok(ToReceiver::Open(open)) = decode::<ToReceiver>(&frame) else {
        tracing::warn!(peer = %peer.short(), "a peer opened delivery with something else");
        return;
    };
    let session = open.session;
    let (ack, acks) = watch::channel(None);
    let (answers, inbox) = mpsc::channel(ANSWERS_MAX);
    let over = CancellationToken::new();
    let handle = Incoming { ack, answers, over: over.clone() };
    if !delivery.begin_incoming(peer, session, handle) {
        return;
    }
    if delivery.post(peer, event::Delivery::Open(open), EVENT_BYTES).await {
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            () = read(&delivery, peer, session, receiver) => {}
            () = write(sender, acks, inbox) => {}
        }
    }
    delivery.end_incoming(peer, session, &over);
}

async fn read(delivery: &Arc<Delivery>, peer: NodeId, session: u64, mut receiver: Receiver) {
    while let Ok(Some(frame)) = receiver.receive_frame(PARCEL_FRAME_BYTES_MAX).await {
        let event = match decode::<ToReceiver>(&frame) {
            Ok(ToReceiver::Parcel(parcel)) => event::Delivery::Parcel { session, parcel },
            Ok(ToReceiver::Gap(gap)) => event::Delivery::Gap { session, gap },
            // A new numbering within the same session.
            Ok(ToReceiver::Open(open)) if open.session == session => event::Delivery::Open(open),
            Ok(ToReceiver::Open(_)) => return,
            Err(error) => {
                tracing::warn!(peer = %peer.short(), %error, "a peer broke the delivery protocol");
                return;
            }
        };
        if !delivery.post(peer, event, EVENT_BYTES.saturating_add(frame.len())).await {
            return;
        }
    }
}

async fn write(
    mut sender: Sender,
    mut acks: watch::Receiver<Option<Ack>>,
    mut answers: mpsc::Receiver<ToSender>,
) {
    loop {
        let frame = tokio::select! {
            biased;
            answer = answers.recv() => answer,
            changed = acks.changed() => match changed {
                Ok(()) => acks.borrow_and_update().map(ToSender::Ack),
                Err(_) => None,
            },
        };
        let Some(frame) = frame else { return };
        if sender.send_frame(&encode(&frame), PARCEL_FRAME_BYTES_MAX).await.is_err() {
            return;
        }
    }
}
