//! Runs batches. No thread, no queue: the loop around it, or a simulation, gives it one batch after another.
//!
//! ```text
//! run_batch ─attempt─┬─ committed ───────────────────────────────────> deliver
//!                    ├─ a handler panicked ─> again, one event a commit ─> deliver each, quarantine the culprit
//!                    └─ the database failed ─> held ─recover─┬─ it was kept ──> deliver
//!                                               ^            ├─ it was not ───> run_batch
//!                                               └────────────┴─ still failing
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

use mesh_node_core::handler::{Handled, Handler};
use mesh_node_core::store::{Change, Overlay, StoreError};
use mesh_node_core::time::Now;
use rand::Rng;

use super::quarantine::{self, Cause};
use super::{Counters, Perform, Queued, SubmitError};
use crate::clock::{Clock, ClockRow};
use crate::storage::{Batch, Database, DatabaseError};

/// What one event came to; delivered once it is durable.
enum Outcome<H: Handler> {
    Handled(Handled<H::Action, H::Reply>),
    Unreadable(StoreError),
}

/// Why an attempt did not end in a commit.
enum Aborted<H: Handler> {
    /// A handler panicked. Nothing was kept.
    Panic,
    /// The database failed before the commit. Nothing was kept.
    Storage(StoreError),
    /// The commit failed. If the database turns out to have this many commits, it was kept.
    Unknown { number: u64, outcomes: Vec<Outcome<H>>, error: StoreError },
}

impl<H: Handler, E: Into<StoreError>> From<E> for Aborted<H> {
    fn from(error: E) -> Self {
        Self::Storage(error.into())
    }
}

/// Events whose batch failed with the database, until it is recovered.
struct Held<H: Handler> {
    attempted: Vec<Queued<H>>,
    /// The commit whose outcome is not known, and what to deliver if it was kept.
    unknown: Option<(u64, Vec<Outcome<H>>)>,
    /// Events of the same batch that were not tried yet.
    rest: Vec<Queued<H>>,
}

/// A durable machine with its database, clock, randomness and surroundings.
pub struct WriterCore<H: Handler> {
    database: Arc<Database>,
    handler: H,
    clock: Arc<dyn Clock>,
    rng: Box<dyn Rng + Send>,
    perform: Box<dyn Perform<H>>,
    held: Option<Held<H>>,
    pub(super) counters: Arc<Counters>,
}

impl<H: Handler> fmt::Debug for WriterCore<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held.as_ref().map_or(0, |held| held.attempted.len());
        f.debug_struct("WriterCore").field("database", &self.database).field("held", &held).finish()
    }
}

impl<H: Handler> WriterCore<H> {
    /// A writer over an open database.
    #[must_use]
    pub fn new(
        database: Arc<Database>,
        handler: H,
        clock: Arc<dyn Clock>,
        rng: Box<dyn Rng + Send>,
        perform: Box<dyn Perform<H>>,
    ) -> Self {
        Self { database, handler, clock, rng, perform, held: None, counters: Arc::default() }
    }

    /// Handles the events in order, commits them together, then performs their actions and sends their replies.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// [`StoreError`] when the database failed. The events are held: call [`Self::recover`] until it succeeds. Events
    /// given before that join them.
    pub fn run_batch(&mut self, batch: Vec<Queued<H>>) -> Result<(), StoreError> {
        if let Some(held) = &mut self.held {
            held.rest.extend(batch);
            return self.recover();
        }
        match self.attempt(&batch) {
            Ok(outcomes) => {
                self.deliver(batch, outcomes);
                Ok(())
            }
            Err(Aborted::Panic) => {
                self.handler.aborted();
                self.run_one_by_one(batch)
            }
            Err(Aborted::Storage(error)) => self.hold(batch, None, Vec::new(), error),
            Err(Aborted::Unknown { number, outcomes, error }) => {
                self.hold(batch, Some((number, outcomes)), Vec::new(), error)
            }
        }
    }

    /// Opens the database again and finishes what a failure left: delivers the batch if it was kept, runs it again if
    /// it was not. Whoever waits for a reply is told [`SubmitError::StorageUnavailable`] when this fails; the events
    /// stay held.
    ///
    /// # Errors
    /// [`StoreError`] when the database still fails. Call again, after a while.
    pub fn recover(&mut self) -> Result<(), StoreError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        Counters::add(&self.counters.recoveries, 1);
        let result = match self.database.reopen().and_then(|()| self.database.commits()) {
            Ok(commits) => self.finish(held, commits),
            Err(error) => {
                self.held = Some(held);
                Err(error.into())
            }
        };
        if result.is_err() {
            let held = self.held.iter_mut().flat_map(|held| held.attempted.iter_mut().chain(&mut held.rest));
            held.for_each(|queued| queued.answer(|| Err(SubmitError::StorageUnavailable)));
        }
        result
    }

    /// How many events wait for [`Self::recover`].
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.attempted.len().saturating_add(held.rest.len()))
    }

    /// The machine, to look at.
    #[must_use]
    pub const fn handler(&self) -> &H {
        &self.handler
    }

    fn finish(&mut self, held: Held<H>, commits: u64) -> Result<(), StoreError> {
        let Held { mut attempted, unknown, rest } = held;
        match unknown {
            Some((number, outcomes)) if number <= commits => {
                self.deliver(attempted, outcomes);
                if rest.is_empty() { Ok(()) } else { self.run_batch(rest) }
            }
            _ => {
                self.handler.aborted();
                attempted.extend(rest);
                self.run_batch(attempted)
            }
        }
    }

    /// After a panic: each event in a commit of its own, so that only the culprit is lost.
    fn run_one_by_one(&mut self, batch: Vec<Queued<H>>) -> Result<(), StoreError> {
        // One event alone has just been tried.
        let mut tried = batch.len() == 1;
        let mut events = batch.into_iter();
        while let Some(queued) = events.next() {
            let attempt = if tried { Err(Aborted::Panic) } else { self.attempt(slice::from_ref(&queued)) };
            tried = false;
            let one = vec![queued];
            match attempt {
                Ok(outcomes) => self.deliver(one, outcomes),
                Err(Aborted::Panic) => {
                    self.handler.aborted();
                    if let Err(error) = self.quarantine(&one) {
                        return self.hold(one, None, events.collect(), error);
                    }
                    self.report_quarantined(one);
                }
                Err(Aborted::Storage(error)) => return self.hold(one, None, events.collect(), error),
                Err(Aborted::Unknown { number, outcomes, error }) => {
                    return self.hold(one, Some((number, outcomes)), events.collect(), error);
                }
            }
        }
        Ok(())
    }

    fn hold(
        &mut self,
        attempted: Vec<Queued<H>>,
        unknown: Option<(u64, Vec<Outcome<H>>)>,
        rest: Vec<Queued<H>>,
        error: StoreError,
    ) -> Result<(), StoreError> {
        self.held = Some(Held { attempted, unknown, rest });
        Err(error)
    }

    /// One transaction for all events. Only a commit leaves anything behind. What the events wrote is put together in
    /// memory first, so that a row many of them write is written once.
    fn attempt(&mut self, events: &[Queued<H>]) -> Result<Vec<Outcome<H>>, Aborted<H>> {
        let now = self.clock.now();
        let batch = self.database.begin()?;
        let mut written = Overlay::new(&batch);
        let mut outcomes = Vec::with_capacity(events.len());
        for queued in events {
            let handled = catch_unwind(AssertUnwindSafe(|| self.handle(&mut written, now, &queued.event)));
            outcomes.push(handled.map_err(|_| Aborted::Panic)??);
        }
        written.put(&ClockRow::key(), &self.clock.row());
        let changes = written.into_changes();
        let comes_again = |queued: &Queued<H>, outcome: &Outcome<H>| match outcome {
            Outcome::Handled(handled) => H::comes_again(&queued.event, &handled.actions),
            Outcome::Unreadable(_) => false,
        };
        let wait = !events.iter().zip(&outcomes).all(|(queued, outcome)| comes_again(queued, outcome));
        let number = batch.number();
        match self.commit(batch, changes, wait) {
            Ok(()) => Ok(outcomes),
            // The commit of this number is another's: it says nothing of this batch.
            Err(error @ DatabaseError::Overtaken) => Err(Aborted::Storage(error.into())),
            Err(error) => Err(Aborted::Unknown { number, outcomes, error: error.into() }),
        }
    }

    /// One event over what the batch has so far. An error is the database's; a row that is not readable is an outcome.
    fn handle(
        &mut self,
        written: &mut Overlay<'_>,
        now: Now,
        event: &H::Event,
    ) -> Result<Outcome<H>, StoreError> {
        let mut tx = Overlay::new(written);
        let error = match self.handler.handle(&mut tx, now, &mut *self.rng, event) {
            Ok(handled) => {
                let changes = tx.into_changes();
                written.write_raw(changes);
                return Ok(Outcome::Handled(handled));
            }
            Err(error @ StoreError::Backend(_)) => return Err(error),
            Err(error) => error,
        };
        self.handler.aborted();
        let mut tx = Overlay::new(written);
        quarantine::record(&mut tx, now, H::describe(event), Cause::Unreadable)?;
        let changes = tx.into_changes();
        written.write_raw(changes);
        Ok(Outcome::Unreadable(error))
    }

    fn commit(&self, mut batch: Batch, changes: Vec<Change>, wait: bool) -> Result<(), DatabaseError> {
        batch.apply(changes)?;
        if wait {
            batch.commit()?
        } else {
            batch.commit_without_waiting()?
        }
        Counters::add(&self.counters.commits, 1);
        Ok(())
    }

    fn quarantine(&self, events: &[Queued<H>]) -> Result<(), StoreError> {
        let now = self.clock.now();
        let batch = self.database.begin()?;
        let mut tx = Overlay::new(&batch);
        for queued in events {
            quarantine::record(&mut tx, now, H::describe(&queued.event), Cause::Panic)?;
        }
        tx.put(&ClockRow::key(), &self.clock.row());
        let changes = tx.into_changes();
        Ok(self.commit(batch, changes, true)?)
    }

    fn report_quarantined(&mut self, events: Vec<Queued<H>>) {
        for mut queued in events {
            let kind = H::describe(&queued.event);
            tracing::error!(kind, "handling an event panicked; it is in the quarantine");
            Counters::add(&self.counters.quarantined, 1);
            self.perform.quarantined(&queued.event);
            queued.answer(|| Err(SubmitError::Quarantined));
        }
    }

    /// The batch is durable, or will come again: actions first, in order, then the replies.
    fn deliver(&mut self, batch: Vec<Queued<H>>, outcomes: Vec<Outcome<H>>) {
        let mut replies = Vec::with_capacity(batch.len());
        for (queued, outcome) in batch.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Handled(Handled { actions, reply }) => {
                    Counters::add(&self.counters.events, 1);
                    actions.into_iter().for_each(|action| self.perform.perform(action));
                    replies.push((queued, reply.ok_or(SubmitError::NoReply)));
                }
                Outcome::Unreadable(error) => {
                    let kind = H::describe(&queued.event);
                    tracing::error!(kind, error = &error as &dyn std::error::Error, "state is not readable");
                    Counters::add(&self.counters.quarantined, 1);
                    self.perform.quarantined(&queued.event);
                    replies.push((queued, Err(SubmitError::Unreadable(error))));
                }
            }
        }
        for (mut queued, reply) in replies {
            queued.answer(|| reply);
        }
    }
}
