//! How the rest of the node gives events to the writer.

use std::fmt;
use std::sync::Arc;

use mesh_node_core::handler::Handler;

use super::lanes::{Lane, Lanes, Trouble};
use super::share::PeerShare;
use super::{Counters, Counts, Queued, SubmitError};

/// Gives events to a running writer. Cheap to clone.
pub struct WriterHandle<H: Handler> {
    pub(super) lanes: Arc<Lanes<H>>,
    pub(super) counters: Arc<Counters>,
}

/// An event that was not taken, and why.
#[derive(Debug)]
pub struct Refused<E> {
    /// The event, given back.
    pub event: E,
    /// [`SubmitError::Full`] or [`SubmitError::Stopped`].
    pub reason: SubmitError,
}

impl<H: Handler> Clone for WriterHandle<H> {
    fn clone(&self) -> Self {
        Self { lanes: Arc::clone(&self.lanes), counters: Arc::clone(&self.counters) }
    }
}

impl<H: Handler> fmt::Debug for WriterHandle<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterHandle").field("counts", &self.counts()).finish()
    }
}

impl<H: Handler> WriterHandle<H> {
    /// Submits a command and waits until it is durable and answered. `bytes` estimates what it keeps in memory.
    /// Dropping the future does not withdraw a command that is queued.
    ///
    /// # Errors
    /// [`SubmitError`]: at once when the queue is full, the database is failing or the writer stops.
    pub async fn submit(&self, event: H::Event, bytes: usize) -> Result<H::Reply, SubmitError> {
        self.enqueue(event, bytes)?.await
    }

    /// As [`Self::submit`], for who has more to submit before waiting: the command has its place in the queue when this
    /// returns.
    ///
    /// # Errors
    /// [`SubmitError`], of this as of the answer.
    pub fn enqueue(
        &self,
        event: H::Event,
        bytes: usize,
    ) -> Result<impl Future<Output = Result<H::Reply, SubmitError>> + use<H>, SubmitError> {
        match self.lanes.trouble() {
            Some(Trouble::Failing) => return Err(SubmitError::StorageUnavailable),
            Some(Trouble::DiskFull) => return Err(SubmitError::DiskFull),
            None => {}
        }
        let permit = self.lanes.try_reserve(Lane::Commands, bytes)?;
        let (queued, reply) = Queued::submit(event, bytes);
        self.lanes.push(Lane::Commands, queued, permit).map_err(|_| SubmitError::Stopped)?;
        Ok(async { reply.await.unwrap_or(Err(SubmitError::Stopped)) })
    }

    /// Queues an event of a peer, a timer or a report, waiting while the queue is full: whoever reads a peer's stream
    /// reads no further meanwhile.
    ///
    /// # Errors
    /// [`SubmitError::Stopped`].
    pub async fn post(&self, event: H::Event, bytes: usize) -> Result<(), SubmitError> {
        let permit = self.lanes.reserve(Lane::Events, bytes).await?;
        self.lanes.push(Lane::Events, Queued::post(event, bytes), permit).map_err(|_| SubmitError::Stopped)
    }

    /// As [`Self::post`], for an event of a peer, which waits for its own share of the queue first: the events of other
    /// peers do not wait behind a flood of one.
    ///
    /// # Errors
    /// [`SubmitError::Stopped`].
    pub async fn post_within(
        &self,
        share: &PeerShare,
        event: H::Event,
        bytes: usize,
    ) -> Result<(), SubmitError> {
        let held = share.reserve(bytes).await?;
        let permit = self.lanes.reserve(Lane::Events, bytes).await?;
        let mut queued = Queued::post(event, bytes);
        queued.share = Some(held);
        self.lanes.push(Lane::Events, queued, permit).map_err(|_| SubmitError::Stopped)
    }

    /// As [`Self::post`], without waiting: for callers that are not async.
    ///
    /// # Errors
    /// [`Refused`] with the event, when the queue is full or the writer stops.
    pub fn try_post(&self, event: H::Event, bytes: usize) -> Result<(), Refused<H::Event>> {
        match self.lanes.try_reserve(Lane::Events, bytes) {
            Ok(permit) => self
                .lanes
                .push(Lane::Events, Queued::post(event, bytes), permit)
                .map_err(|queued| Refused { event: queued.event, reason: SubmitError::Stopped }),
            Err(reason) => Err(Refused { event, reason }),
        }
    }

    /// Takes no more events. Those queued are still run; then the writer ends.
    pub fn stop(&self) {
        self.lanes.stop();
    }

    /// What the writer did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }
}
