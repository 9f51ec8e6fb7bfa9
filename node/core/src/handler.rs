//! What the writer needs of a durable machine: one event in, changes, actions and a reply out.
//!
//! The writer runs events in batches: it gives each an [`Overlay`] over what the batch wrote so far, commits the batch
//! as one transaction, and only then performs the actions and sends the replies. This file says nothing about threads,
//! queues or disks.
//!
//! Invariants the implementor keeps:
//! - A refusal for a reason of the business (no such agent, not allowed, full) is part of the reply. An error is only
//!   for storage trouble, and drops everything the event wrote.
//! - Everything that matters is in the store. A machine may hold volatile state (caches, counters for people), but
//!   changes it only in events that cannot fail, and drops what it derived from the store in [`Handler::aborted`].

use rand::Rng;

use crate::store::{Overlay, StoreError};
use crate::time::Now;

/// A durable machine.
pub trait Handler: Send {
    /// What happened: a command, a frame, a timer, a report.
    type Event: Send + 'static;
    /// What to do once the changes are durable, or [come again](Handler::comes_again).
    type Action: Send + 'static;
    /// The answer to whoever submitted the event, sent once the changes are durable.
    type Reply: Send + 'static;

    /// Decides one event. Reads and writes go through the overlay only.
    ///
    /// # Errors
    /// [`StoreError`] when state could not be read: the event's writes are dropped.
    fn handle(
        &mut self,
        tx: &mut Overlay<'_>,
        now: Now,
        rng: &mut dyn Rng,
        event: &Self::Event,
    ) -> Result<Handled<Self::Action, Self::Reply>, StoreError>;

    /// The kind of an event, for counters and for the quarantine: a fixed word, never anything the event carries.
    fn describe(event: &Self::Event) -> &'static str;

    /// Whether the event comes again by itself when a crash forgets what it changed, and `actions`, which it led to, were
    /// right all the same. The writer then does not wait for the disk; the next commit that does keeps it too.
    fn comes_again(_event: &Self::Event, _actions: &[Self::Action]) -> bool {
        false
    }

    /// Events handled since the last commit were not kept: one failed, or the whole batch was rolled back and may be
    /// run again. Drop what was derived from them.
    fn aborted(&mut self) {}
}

/// What one event came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled<A, R> {
    /// Performed in order, after the commit.
    pub actions: Vec<A>,
    /// For the submitter; `None` where nobody waits.
    pub reply: Option<R>,
}

impl<A, R> Handled<A, R> {
    /// No actions, no reply.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { actions: Vec::new(), reply: None }
    }

    /// A reply and no actions.
    #[must_use]
    pub const fn reply(reply: R) -> Self {
        Self { actions: Vec::new(), reply: Some(reply) }
    }
}
