//! What the durable machine decided, handed to whoever does it; and what they tell it back.
//!
//! Called on the writer's thread, after the commit: nothing here blocks. Everything it calls either only notes the order
//! or starts a task of its own.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use mesh_node_core::event::{Action, CloseReason, Event, JobTicket};
use mesh_node_core::limits::JOB_QUEUE_MAX;
use mesh_node_core::machine::Machine;
use mesh_protocol::evidence::receipt::ExecutorOutput;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{JobResult, JobSpec};
use tokio::sync::watch;

use crate::agents::{Agents, Start};
use crate::delivery::Delivery;
use crate::executor::Executor;
use crate::timer::Timer;
use crate::writer::Perform;

/// Runs and closes jobs, and reports what became of each. Nothing here may block but [`RunJobs::shutdown`].
pub trait RunJobs: Send + Sync {
    /// Runs a job. [`Event::JobStarted`], [`Event::JobEvents`] and [`Event::JobEnded`] follow.
    fn start(&self, ticket: JobTicket, spec: Box<JobSpec>);

    /// Stops a job, whether it runs or still waits; has no effect on one that has ended.
    fn stop(&self, origin: NodeId, job: JobId);

    /// Attests the end of a job that is not running. [`Event::JobEnded`] follows.
    fn close(&self, ticket: JobTicket, reason: CloseReason);

    /// Attests an end that this node decided, or could not sign when it came, with what is known to have been seen of the
    /// job's streams. [`Event::JobAttested`] follows, or [`Event::JobUnsigned`].
    fn attest(&self, ticket: JobTicket, result: JobResult, seen: Option<Box<ExecutorOutput>>);

    /// How many jobs were started here and have not ended.
    fn running(&self) -> usize;

    /// Ends every job and waits until their ends are reported; whether all were, in time.
    fn shutdown(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
}

impl RunJobs for Executor {
    fn start(&self, ticket: JobTicket, spec: Box<JobSpec>) {
        Self::start(self, ticket, spec);
    }

    fn stop(&self, origin: NodeId, job: JobId) {
        Self::stop(self, origin, job);
    }

    fn close(&self, ticket: JobTicket, reason: CloseReason) {
        Self::close(self, ticket, reason);
    }

    fn attest(&self, ticket: JobTicket, result: JobResult, seen: Option<Box<ExecutorOutput>>) {
        Self::attest(self, ticket, result, seen);
    }

    fn running(&self) -> usize {
        Self::running(self)
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(Self::shutdown(self))
    }
}

/// The sandbox, once it is there. Orders that come before wait for it, in order.
#[derive(Default)]
pub struct Jobs(Mutex<JobsState>);

#[derive(Default)]
struct JobsState {
    executor: Option<Arc<dyn RunJobs>>,
    waiting: Vec<Order>,
}

enum Order {
    Start(JobTicket, Box<JobSpec>),
    Stop(NodeId, JobId),
    Close(JobTicket, CloseReason),
    Attest(JobTicket, JobResult, Option<Box<ExecutorOutput>>),
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jobs(..)")
    }
}

impl Jobs {
    /// The sandbox was observed, for better or worse: from now on it gets its orders.
    pub fn attach(&self, executor: Arc<dyn RunJobs>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.waiting).into_iter().for_each(|order| give(&executor, order));
        state.executor = Some(executor);
    }

    /// The sandbox, if it was observed.
    #[must_use]
    pub fn executor(&self) -> Option<Arc<dyn RunJobs>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).executor.clone()
    }

    fn order(&self, order: Order) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.executor {
            Some(executor) => give(executor, order),
            // The core has no more open jobs than that, and gives no second order to one that is closing.
            None if state.waiting.len() < JOB_QUEUE_MAX.saturating_mul(2) => state.waiting.push(order),
            None => {}
        }
    }
}

fn give(executor: &Arc<dyn RunJobs>, order: Order) {
    match order {
        Order::Start(ticket, spec) => executor.start(ticket, spec),
        Order::Stop(origin, job) => executor.stop(origin, job),
        Order::Close(ticket, reason) => executor.close(ticket, reason),
        Order::Attest(ticket, result, seen) => executor.attest(ticket, result, seen),
    }
}

/// Everybody who does something for the machine.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Carries messages.
    pub delivery: Arc<Delivery>,
    /// Runs agents.
    pub agents: Arc<Agents>,
    /// Runs jobs.
    pub jobs: Arc<Jobs>,
    /// Wakes.
    pub timer: Timer,
    /// Raised when a flight or a job changed.
    pub changes: watch::Sender<u64>,
}

impl Perform<Machine> for Surroundings {
    fn perform(&mut self, action: Action) {
        match action {
            Action::SendFrame(peer, session, frame) => self.delivery.send_frame(peer, session, frame),
            Action::StreamFrom(peer, session, seq) => self.delivery.stream_from(peer, session, seq),
            Action::OutboxGrew(peer) => self.delivery.grew(peer),
            Action::Acknowledged(peer, place) => self.delivery.acknowledged(peer, place),
            Action::Answer(peer, session, frame) => self.delivery.answer(peer, session, frame),
            Action::Reset(peer, session) => self.delivery.reset(peer, session),
            Action::StartRun { origin, flight, attempt, agent, task, remaining_ms, hops } => {
                self.agents.start(Start { origin, flight, attempt, agent, task, remaining_ms, hops });
            }
            Action::StopRun { origin, flight } => self.agents.stop(origin, flight),
            Action::StartJob(ticket, spec) => self.jobs.order(Order::Start(ticket, spec)),
            Action::StopJob { origin, job } => self.jobs.order(Order::Stop(origin, job)),
            Action::CloseJob(ticket, reason) => self.jobs.order(Order::Close(ticket, reason)),
            Action::AttestEnd(ticket, result, seen) => self.jobs.order(Order::Attest(ticket, result, seen)),
            Action::WakeAt(at) => self.timer.wake_at(at),
            Action::FlightChanged(_) | Action::JobChanged(_) => {
                self.changes.send_modify(|count| *count = count.wrapping_add(1));
            }
        }
    }

    fn quarantined(&mut self, event: &Event) {
        if let Event::Delivery(peer, _) = event {
            tracing::error!(peer = %peer.short(), "an event of this peer could not be handled; its stream is paused");
            self.delivery.pause(*peer);
        }
    }
}
