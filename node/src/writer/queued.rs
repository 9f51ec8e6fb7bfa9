//! An event on its way to the writer.

use std::fmt;

use mesh_node_core::handler::Handler;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::SubmitError;

/// The answer to a submitted event.
type Answer<H> = Result<<H as Handler>::Reply, SubmitError>;

/// An event with its size and whoever waits for the reply. The event is not shown by `Debug`: it may carry secrets.
pub struct Queued<H: Handler> {
    pub(super) event: H::Event,
    pub(super) bytes: usize,
    waiter: Option<oneshot::Sender<Answer<H>>>,
    /// Its place in a queue's budget, given back when the event is done with.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// The same of its peer's share of the queue, if it is a peer's.
    pub(super) share: Option<OwnedSemaphorePermit>,
}

impl<H: Handler> fmt::Debug for Queued<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queued({}, {} bytes)", H::describe(&self.event), self.bytes)
    }
}

impl<H: Handler> Queued<H> {
    /// An event whose reply nobody waits for. `bytes` estimates what it keeps in memory.
    #[must_use]
    pub const fn post(event: H::Event, bytes: usize) -> Self {
        Self { event, bytes, waiter: None, permit: None, share: None }
    }

    /// An event and where its reply will come. Dropping the receiver does not withdraw the event.
    #[must_use]
    pub fn submit(event: H::Event, bytes: usize) -> (Self, oneshot::Receiver<Answer<H>>) {
        let (waiter, reply) = oneshot::channel();
        (Self { event, bytes, waiter: Some(waiter), permit: None, share: None }, reply)
    }

    /// Answers whoever still waits; later answers go nowhere.
    pub(super) fn answer(&mut self, reply: impl FnOnce() -> Answer<H>) {
        if let Some(waiter) = self.waiter.take() {
            // The submitter may be gone; the event stands all the same.
            let _ = waiter.send(reply());
        }
    }
}
