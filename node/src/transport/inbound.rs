//! What a connection does by itself: it takes the peer's streams, and ends when the peer is no longer let in.
//!
//! A stream is handed out once its kind byte is here. A peer may open streams and send nothing on them, so each waits
//! for its byte on its own and for a limited time, and none holds up the others. Streams nobody takes are bounded by
//! what the peer may have open, [`CARRIER_STREAMS_MAX`] at most.

use std::sync::Arc;
use std::time::Duration;

use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use mesh_protocol::stream::{StopCode, StreamKind};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::Arrival;
use super::line::Line;
use super::settings::CARRIER_STREAMS_MAX;
use super::stream::{Receiver, Sender, halves};
use crate::identity::{Admission, Exclusion};

/// How long an opened stream may take to say its kind.
const KIND_WITHIN: Duration = Duration::from_secs(5);
/// Streams that wait to be taken: as many as the peer may have open on any connection.
pub(super) const ARRIVALS_MAX: usize = CARRIER_STREAMS_MAX as usize;

/// What the task of one connection works with. It holds no [`super::Connection`], so that dropping the last one ends
/// the connection and with it this task.
pub(super) struct Inbound {
    pub(super) line: Arc<Line>,
    pub(super) peer: NodeId,
    pub(super) admission: Arc<Admission>,
    pub(super) frame_bytes_max: usize,
    pub(super) arrivals: mpsc::Sender<Arrival>,
    /// Cancelled when the path of a relayed connection ended.
    pub(super) broken: CancellationToken,
}

impl Inbound {
    /// Runs until the connection ends.
    pub(super) async fn run(self) {
        let mut changes = self.admission.subscribe();
        let mut waiting = JoinSet::new();
        loop {
            if let Err(exclusion) = self.admission.check(self.peer) {
                self.line.close(code_for(exclusion), "");
                return;
            }
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return },
                () = self.broken.cancelled() => {
                    self.line.close(CloseCode::PathLost, "");
                    return;
                }
                // Before new streams, so that what has ended never piles up.
                Some(read) = waiting.join_next(), if !waiting.is_empty() => {
                    if let Ok(Some(arrival)) = read {
                        self.hand_out(arrival);
                    }
                }
                stream = self.line.quic.accept_bi() => {
                    let Ok(stream) = stream else { return };
                    let (sender, receiver) = halves(&self.line, stream, self.frame_bytes_max);
                    waiting.spawn(read_kind(sender, receiver));
                }
            }
        }
    }

    /// The queue has room for every stream a peer may have open. It is full only when streams end faster than they
    /// are taken, and closed when nobody takes any more; then this one is refused.
    fn hand_out(&self, (kind, mut sender, mut receiver): Arrival) {
        match self.arrivals.try_reserve() {
            Ok(place) => place.send((kind, sender, receiver)),
            Err(_) => {
                sender.give_up(StopCode::Busy);
                receiver.give_up(StopCode::Busy);
            }
        }
    }
}

/// A new stream with its kind; `None` after giving it up.
async fn read_kind(mut sender: Sender, mut receiver: Receiver) -> Option<Arrival> {
    let code = match tokio::time::timeout(KIND_WITHIN, receiver.receive_raw(1)).await {
        Ok(Ok(bytes)) => match bytes.first().map(|byte| StreamKind::from_byte(*byte)) {
            Some(Some(kind)) => return Some((kind, sender, receiver)),
            Some(None) => StopCode::UnknownKind,
            None => StopCode::Malformed,
        },
        Ok(Err(_)) => StopCode::Malformed,
        Err(_) => StopCode::NoKind,
    };
    receiver.give_up(code);
    sender.give_up(code);
    None
}

/// What a member that is not let in is told.
pub(super) fn code_for(exclusion: Exclusion) -> CloseCode {
    match exclusion {
        Exclusion::Revoked => CloseCode::Revoked,
        Exclusion::Blocked => CloseCode::Blocked,
    }
}
