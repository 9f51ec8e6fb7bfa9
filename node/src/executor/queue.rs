//! What waits to be done, in two lanes, and which jobs can still be stopped.
//!
//! ```text
//!             start            next_job            finish
//!  (unknown) ──────> waiting ───────────> taken ──────────> (unknown)
//!                       └───── stop, close: cancelled ──┘
//! ```
//!
//! Jobs have a lane of their own, so that ends to attest and news never wait for a job to finish. Nothing here blocks
//! but [`Queue::next_job`], [`Queue::next_errand`] and [`Queue::wait_until_left`]. The lock is never held while a job
//! runs or an event is reported.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_node_core::event::{CloseReason, Event, JobTicket};
use mesh_node_core::limits::JOB_QUEUE_MAX;
use mesh_protocol::evidence::receipt::ExecutorOutput;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{JobResult, JobSpec};
use mesh_sandbox::Cancel;

/// A job to run, and the means to stop it unless it could not be made.
pub(super) struct Start {
    pub(super) ticket: JobTicket,
    pub(super) spec: Box<JobSpec>,
    pub(super) cancel: io::Result<Cancel>,
}

/// Something to do that takes no sandbox.
pub(super) enum Errand {
    /// Attest the end of a job that is not running.
    Close(JobTicket, CloseReason),
    /// Attest an end that was decided here for a job that was to run elsewhere, or could not be signed when it came; with
    /// what is known to have been seen of the job's streams.
    Attest(JobTicket, JobResult, Option<Box<ExecutorOutput>>),
    /// Report this.
    Announce(Event),
}

/// A job that has not ended.
struct Open {
    attempt: u32,
    /// Its requester asked for it to be stopped.
    stopped: bool,
    cancel: Option<Cancel>,
}

impl Open {
    fn cancel(&self) {
        if let Some(cancel) = &self.cancel {
            cancel.cancel();
        }
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Start>,
    errands: VecDeque<Errand>,
    open: BTreeMap<(NodeId, JobId), Open>,
    workers: usize,
    closed: bool,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

/// A worker, from before its thread starts until it is gone.
pub(super) struct Presence(Arc<Queue>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.lock().workers -= 1;
        self.0.changed.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more worker.
    pub(super) fn enter(self: &Arc<Self>) -> Presence {
        self.lock().workers += 1;
        Presence(Arc::clone(self))
    }

    /// Adds a job. Another attempt of the same job that is still here is stopped: the core has moved on from it.
    pub(super) fn start(&self, ticket: JobTicket, spec: Box<JobSpec>) {
        let cancel = Cancel::new();
        let stop = cancel.as_ref().ok().cloned();
        let open = Open { attempt: ticket.attempt, stopped: false, cancel: stop };
        let key = (ticket.origin, ticket.job);
        let mut state = self.lock();
        if self.push(&mut state, |state| &mut state.jobs, Start { ticket, spec, cancel })
            && let Some(earlier) = state.open.insert(key, open)
        {
            earlier.cancel();
        }
    }

    /// Adds an errand.
    pub(super) fn send(&self, errand: Errand) {
        self.push(&mut self.lock(), |state| &mut state.errands, errand);
    }

    /// Adds to a lane and returns whether it did. The core has no more than [`JOB_QUEUE_MAX`] executions open, so a
    /// full lane is a fault; what does not fit, or comes after [`Queue::close`], is closed by the core at its next
    /// start.
    fn push<T>(&self, state: &mut State, lane: fn(&mut State) -> &mut VecDeque<T>, item: T) -> bool {
        let closed = state.closed;
        let lane = lane(state);
        if closed || lane.len() >= JOB_QUEUE_MAX {
            tracing::warn!(closed, waiting = lane.len(), "the executor takes nothing in");
            return false;
        }
        lane.push_back(item);
        self.changed.notify_all();
        true
    }

    /// Stops a job on behalf of its requester.
    pub(super) fn stop(&self, origin: NodeId, job: JobId) {
        if let Some(open) = self.lock().open.get_mut(&(origin, job)) {
            open.stopped = true;
            open.cancel();
        }
    }

    /// Whether a job's requester asked for it to be stopped.
    pub(super) fn was_stopped(&self, ticket: &JobTicket) -> bool {
        let state = self.lock();
        let open = state.open.get(&(ticket.origin, ticket.job));
        open.is_some_and(|open| open.attempt == ticket.attempt && open.stopped)
    }

    /// Forgets a job that has ended.
    pub(super) fn finish(&self, ticket: &JobTicket) {
        let mut state = self.lock();
        let key = (ticket.origin, ticket.job);
        if state.open.get(&key).is_some_and(|open| open.attempt == ticket.attempt) {
            state.open.remove(&key);
        }
    }

    /// How many jobs have not ended.
    pub(super) fn running(&self) -> usize {
        self.lock().open.len()
    }

    /// Waits for a job; `None` once closed and none is left.
    pub(super) fn next_job(&self) -> Option<Start> {
        self.next(|state| &mut state.jobs)
    }

    /// Waits for an errand; `None` once closed and none is left.
    pub(super) fn next_errand(&self) -> Option<Errand> {
        self.next(|state| &mut state.errands)
    }

    fn next<T>(&self, lane: fn(&mut State) -> &mut VecDeque<T>) -> Option<T> {
        let idle = |state: &mut State| lane(state).is_empty() && !state.closed;
        let waited = self.changed.wait_while(self.lock(), idle);
        lane(&mut waited.unwrap_or_else(PoisonError::into_inner)).pop_front()
    }

    /// Takes in nothing more and ends every job.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.open.values().for_each(Open::cancel);
        self.changed.notify_all();
    }

    /// Waits until the last worker has left. Returns whether it has, within `patience`.
    pub(super) fn wait_until_left(&self, patience: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, patience, |state| state.workers > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.workers == 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use mesh_node_core::jobs::outline::Outline;
    use mesh_protocol::job::Language;

    use super::*;

    fn spec() -> Box<JobSpec> {
        Box::new(JobSpec::new(Language::Bash, "true"))
    }

    pub(in crate::executor) fn ticket(attempt: u32) -> JobTicket {
        JobTicket {
            origin: NodeId::from_bytes([1; 32]),
            job: JobId::from_bytes([2; 16]),
            attempt,
            tenant: "nova/claude".to_owned(),
            asked: Outline::of(&spec()),
            created_wall_ms: 0,
            events: Vec::new(),
        }
    }

    fn taken(queue: &Queue) -> (JobTicket, Cancel) {
        let Start { ticket, cancel, .. } = queue.next_job().unwrap();
        (ticket, cancel.unwrap())
    }

    #[test]
    fn a_later_attempt_stops_an_earlier_one_and_outlives_its_end() {
        let queue = Queue::default();
        queue.start(ticket(1), spec());
        let (first, first_cancel) = taken(&queue);
        queue.start(ticket(2), spec());
        let (second, second_cancel) = taken(&queue);
        assert!(first_cancel.is_cancelled() && !second_cancel.is_cancelled());
        queue.finish(&first);
        queue.stop(second.origin, second.job);
        assert!(second_cancel.is_cancelled());
        assert!(queue.was_stopped(&second) && !queue.was_stopped(&first));
        queue.finish(&second);
        assert_eq!(queue.running(), 0);
    }

    #[test]
    fn closing_cancels_every_job_without_a_word_from_its_requester_and_hands_out_the_rest() {
        let queue = Queue::default();
        queue.start(ticket(1), spec());
        queue.close();
        let (job, cancel) = taken(&queue);
        assert!(cancel.is_cancelled() && !queue.was_stopped(&job));
        assert!(queue.next_job().is_none() && queue.next_errand().is_none());
    }

    #[test]
    fn a_full_lane_takes_nothing_in_and_leaves_the_other_open() {
        let queue = Queue::default();
        for _ in 0..=JOB_QUEUE_MAX {
            queue.send(Errand::Close(ticket(1), CloseReason::NodeRestarted));
        }
        queue.start(ticket(1), spec());
        queue.close();
        assert_eq!(std::iter::from_fn(|| queue.next_errand()).count(), JOB_QUEUE_MAX);
        assert!(queue.next_job().is_some());
    }

    #[test]
    fn workers_are_waited_for_until_the_last_has_left() {
        let queue = Arc::new(Queue::default());
        let presence = queue.enter();
        assert!(!queue.wait_until_left(Duration::ZERO));
        drop(presence);
        assert!(queue.wait_until_left(Duration::ZERO));
    }
}
