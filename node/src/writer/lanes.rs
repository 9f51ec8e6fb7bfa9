//! The two queues in front of the writer, and how a batch is filled from them.
//!
//! A queue is bounded in events and in bytes by one budget: an event costs its bytes, but at least its even share of
//! the budget, so that the budget also bounds their number. The cost is given back when the event is done with, so
//! events in a running batch count as waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_node_core::handler::Handler;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::{Queued, SubmitError};
use crate::limits::{
    BATCH_BYTES_MAX, BATCH_EVENTS_MAX, COMMANDS_PER_ROUND, EVENTS_PER_ROUND, LANE_BYTES_MAX, LANE_EVENTS_MAX,
};

/// Which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Commands of people and programs here.
    Commands,
    /// Everything else: peers' frames, timers, reports.
    Events,
}

/// What is wrong with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It failed and is opened again.
    Failing,
    /// There is no room on its disk.
    DiskFull,
}

pub(super) struct Lanes<H: Handler> {
    waiting: Mutex<Waiting<Queued<H>>>,
    /// For the one writer: something was queued, or the lanes were stopped.
    changed: Notify,
    commands: Arc<Semaphore>,
    events: Arc<Semaphore>,
}

impl<H: Handler> Lanes<H> {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting::new()),
            changed: Notify::new(),
            commands: Arc::new(Semaphore::new(LANE_BYTES_MAX)),
            events: Arc::new(Semaphore::new(LANE_BYTES_MAX)),
        }
    }

    /// A place for an event of this size, or the reason there is none.
    pub(super) fn try_reserve(&self, lane: Lane, bytes: usize) -> Result<OwnedSemaphorePermit, SubmitError> {
        self.budget(lane).try_acquire_many_owned(cost(bytes)).map_err(|error| match error {
            TryAcquireError::NoPermits => SubmitError::Full,
            TryAcquireError::Closed => SubmitError::Stopped,
        })
    }

    /// A place for an event of this size, once there is one.
    pub(super) async fn reserve(
        &self,
        lane: Lane,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, SubmitError> {
        self.budget(lane).acquire_many_owned(cost(bytes)).await.map_err(|_| SubmitError::Stopped)
    }

    /// Puts an event into the place reserved for it. Gives it back when the writer has stopped.
    pub(super) fn push(
        &self,
        lane: Lane,
        mut queued: Queued<H>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), Queued<H>> {
        let mut waiting = self.lock();
        if waiting.stopped {
            return Err(queued);
        }
        queued.permit = Some(permit);
        match lane {
            Lane::Commands => waiting.commands.push_back(queued),
            Lane::Events => waiting.events.push_back(queued),
        }
        self.changed.notify_one();
        Ok(())
    }

    /// The next batch, once there is one. `None` once the lanes are stopped and empty.
    pub(super) async fn next_batch(&self) -> Option<Vec<Queued<H>>> {
        loop {
            {
                let mut waiting = self.lock();
                let batch = waiting.take_batch(|queued| queued.bytes);
                if !batch.is_empty() {
                    return Some(batch);
                }
                if waiting.stopped {
                    return None;
                }
            }
            // What changed since the look above has left a permit.
            self.changed.notified().await;
        }
    }

    /// Waits this long, or until the lanes are stopped; whether they are.
    pub(super) async fn wait_stopped(&self, at_most: Duration) -> bool {
        let stopped = async {
            while !self.lock().stopped {
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(at_most, stopped).await.is_ok()
    }

    /// Says what is wrong with the database, or that nothing is.
    pub(super) fn set_trouble(&self, trouble: Option<Trouble>) {
        self.lock().trouble = trouble;
    }

    /// Why new commands must be refused for the database's sake. Stopped lanes refuse them for their own.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let waiting = self.lock();
        waiting.trouble.filter(|_| !waiting.stopped)
    }

    /// No new events. What is queued will still be run.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.commands.close();
        self.events.close();
        self.changed.notify_one();
    }

    /// No new events, and those queued will never be run.
    pub(super) fn abandon(&self) {
        self.stop();
        let mut waiting = self.lock();
        let dropped = (std::mem::take(&mut waiting.commands), std::mem::take(&mut waiting.events));
        drop(waiting);
        drop(dropped);
    }

    fn budget(&self, lane: Lane) -> Arc<Semaphore> {
        match lane {
            Lane::Commands => Arc::clone(&self.commands),
            Lane::Events => Arc::clone(&self.events),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<Queued<H>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an event costs of a lane's budget. One larger than the budget waits for all of it.
fn cost(bytes: usize) -> u32 {
    const SHARE: usize = LANE_BYTES_MAX / LANE_EVENTS_MAX;
    u32::try_from(bytes.clamp(SHARE, LANE_BYTES_MAX)).unwrap_or(u32::MAX)
}

struct Waiting<T> {
    commands: VecDeque<T>,
    events: VecDeque<T>,
    trouble: Option<Trouble>,
    stopped: bool,
}

impl<T> Waiting<T> {
    const fn new() -> Self {
        Self { commands: VecDeque::new(), events: VecDeque::new(), trouble: None, stopped: false }
    }

    fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.events.is_empty()
    }

    /// Fills a batch in weighted rounds, so that a flood in one queue only slows the other.
    fn take_batch(&mut self, bytes_of: impl Fn(&T) -> usize) -> Vec<T> {
        let mut batch = Vec::new();
        let mut room = BATCH_BYTES_MAX;
        while !self.is_empty() {
            let turns = [(&mut self.commands, COMMANDS_PER_ROUND), (&mut self.events, EVENTS_PER_ROUND)];
            for (queue, share) in turns {
                for _ in 0..share {
                    let Some(next) = queue.front() else { break };
                    let bytes = bytes_of(next);
                    if batch.len() == BATCH_EVENTS_MAX || (bytes > room && !batch.is_empty()) {
                        return batch;
                    }
                    room = room.saturating_sub(bytes);
                    batch.extend(queue.pop_front());
                }
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events as (is a command, bytes).
    fn waiting(commands: usize, events: usize, bytes: usize) -> Waiting<(bool, usize)> {
        let mut waiting = Waiting::new();
        waiting.commands.extend(vec![(true, bytes); commands]);
        waiting.events.extend(vec![(false, bytes); events]);
        waiting
    }

    fn take(waiting: &mut Waiting<(bool, usize)>) -> Vec<(bool, usize)> {
        waiting.take_batch(|event| event.1)
    }

    #[test]
    fn a_batch_is_bounded_in_events_and_shared_by_weight() {
        let batch = take(&mut waiting(1_000, 1_000, 10));
        assert_eq!(batch.len(), BATCH_EVENTS_MAX);
        let commands = batch.iter().filter(|event| event.0).count();
        assert_eq!(commands, BATCH_EVENTS_MAX * COMMANDS_PER_ROUND / (COMMANDS_PER_ROUND + EVENTS_PER_ROUND));
    }

    #[test]
    fn one_queue_alone_fills_the_batch() {
        assert_eq!(take(&mut waiting(1_000, 0, 10)).len(), BATCH_EVENTS_MAX);
        assert_eq!(take(&mut waiting(0, 1_000, 10)).len(), BATCH_EVENTS_MAX);
    }

    #[test]
    fn a_batch_is_bounded_in_bytes_but_never_empty() {
        assert_eq!(take(&mut waiting(0, 100, BATCH_BYTES_MAX / 4)).len(), 4);
        assert_eq!(take(&mut waiting(0, 2, BATCH_BYTES_MAX * 2)).len(), 1);
    }

    #[test]
    fn nothing_is_lost_or_reordered_within_a_queue() {
        let mut waiting = Waiting::new();
        waiting.commands.extend((0..700).map(|n| (true, n)));
        waiting.events.extend((0..900).map(|n| (false, n)));
        let mut taken = Vec::new();
        while !waiting.is_empty() {
            taken.extend(waiting.take_batch(|_| 1));
        }
        let (commands, events): (Vec<_>, Vec<_>) = taken.into_iter().partition(|event| event.0);
        assert!(commands.into_iter().map(|event| event.1).eq(0..700));
        assert!(events.into_iter().map(|event| event.1).eq(0..900));
    }
}
