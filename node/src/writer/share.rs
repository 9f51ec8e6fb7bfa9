//! One peer's share of the queue in front of the writer.
//!
//! A budget in bytes, as the queue's own: an event costs its bytes, but at least its even share, so that the budget
//! bounds their number too. It is given back when the event is done with.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::SubmitError;
use crate::limits::{PEER_EVENT_BYTES_MAX, PEER_EVENTS_MAX};

/// How much of one peer's may be in the queue. Clones are the same share.
#[derive(Debug, Clone)]
pub struct PeerShare(Arc<Semaphore>);

impl Default for PeerShare {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PEER_EVENT_BYTES_MAX)))
    }
}

impl PeerShare {
    /// A place for an event of this size, once the peer has one free.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, SubmitError> {
        const EVEN: usize = PEER_EVENT_BYTES_MAX / PEER_EVENTS_MAX;
        let cost = u32::try_from(bytes.clamp(EVEN, PEER_EVENT_BYTES_MAX)).unwrap_or(u32::MAX);
        Arc::clone(&self.0).acquire_many_owned(cost).await.map_err(|_| SubmitError::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_share_is_bounded_in_events_and_in_bytes() {
        let share = PeerShare::default();
        let mut held = Vec::new();
        for _ in 0..PEER_EVENTS_MAX {
            held.push(share.reserve(1).await.unwrap());
        }
        let more = share.clone();
        let waiting = tokio::spawn(async move { more.reserve(1).await.map(drop) });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        held.clear();
        waiting.await.unwrap().unwrap();
        // One larger than the share waits for all of it, and is not stuck.
        drop(share.reserve(PEER_EVENT_BYTES_MAX * 2).await.unwrap());
    }
}
