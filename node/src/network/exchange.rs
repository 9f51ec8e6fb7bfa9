//! One anti-entropy exchange over one stream: a loop around the core's machine.

use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::directory::exchange::{Exchange, Heard};
use mesh_node_core::membership::Input;
use mesh_protocol::id::NodeId;
use mesh_protocol::limits::CONTROL_FRAME_BYTES_MAX;
use mesh_protocol::stream::StreamKind;

use super::{Event, Shared};
use crate::transport::{Receiver, Sender};

/// How long a whole exchange may take.
const EXCHANGE_WITHIN: Duration = Duration::from_secs(30);

/// Compares directories with a linked peer, and says when that is over.
pub(super) fn begin(shared: Arc<Shared>, peer: NodeId) {
    tokio::spawn(async move {
        let error = match tokio::time::timeout(EXCHANGE_WITHIN, initiate(&shared, peer)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some("the peer took too long".to_owned()),
        };
        // Fails only when the driver is gone.
        let _ = shared.events.send(Event::Membership(Input::SyncEnded { peer, error })).await;
    });
}

/// Takes part in an exchange a peer began.
pub(super) fn answer(shared: Arc<Shared>, peer: NodeId, sender: Sender, receiver: Receiver) {
    // Dropping the stream gives it up; a peer that keeps to the protocol compares again later.
    let Some(place) = shared.quotas.exchange(peer, shared.clock.now().node) else { return };
    tokio::spawn(async move {
        let _place = place;
        let run = run(&shared, peer, Exchange::respond(), sender, receiver);
        // The peer that began it is the one that counts how it ended.
        let _ = tokio::time::timeout(EXCHANGE_WITHIN, run).await;
    });
}

async fn initiate(shared: &Shared, peer: NodeId) -> Result<(), String> {
    let link = shared.link(peer).ok_or("there is no link")?;
    let (mut sender, receiver) = link.open(StreamKind::Sync).await.map_err(|error| error.to_string())?;
    let (exchange, first) = shared.membership().begin_sync();
    sender.send_frame(&first, CONTROL_FRAME_BYTES_MAX).await.map_err(|error| error.to_string())?;
    run(shared, peer, exchange, sender, receiver).await
}

async fn run(
    shared: &Shared,
    peer: NodeId,
    mut exchange: Exchange,
    mut sender: Sender,
    mut receiver: Receiver,
) -> Result<(), String> {
    loop {
        let frame =
            receiver.receive_frame(CONTROL_FRAME_BYTES_MAX).await.map_err(|error| error.to_string())?;
        let frame = frame.ok_or("the peer ended the exchange early")?;
        let mut step =
            shared.membership().continue_sync(&mut exchange, &frame).map_err(|error| error.to_string())?;
        // What is cut off here is fetched by a later comparison.
        let admitted = shared.quotas.records(peer, shared.clock.now().node, step.heard.records.len());
        step.heard.records.truncate(admitted);
        if step.heard != Heard::default() {
            let heard = step.heard.check(&shared.root, |record, signed| {
                shared.membership().directory().unchecked(record, signed)
            });
            let heard = Input::Heard { from: peer, heard };
            // Fails only when the driver is gone.
            let _ = shared.events.send(Event::Membership(heard)).await;
        }
        for body in &step.send {
            sender.send_frame(body, CONTROL_FRAME_BYTES_MAX).await.map_err(|error| error.to_string())?;
        }
        if step.done {
            // The peer may have hung up already: it has what it needs.
            let _ = sender.finish();
            let _ = sender.finished().await;
            return Ok(());
        }
    }
}
