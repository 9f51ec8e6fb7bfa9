//! The seam between who wants an agent's work done and what does it.
//!
//! An engine turns a task into exactly one outcome. It never panics on what its agent does, and it leaves nothing
//! running: not after an outcome, and not when the future of a run is dropped. Engines differ in what they can do
//! beyond that, and say so in their [`Capabilities`].

mod outcome;
mod task;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use tokio_util::sync::CancellationToken;

pub use outcome::{Failure, FailureReason, Layer, RunOutcome};
pub use task::{RunName, Task, TaskError, Variable, is_variable_name};

pub use crate::secret::Secret;

/// A run under way. Dropping it ends the run at once.
pub type RunFuture<'a> = Pin<Box<dyn Future<Output = RunOutcome> + Send + 'a>>;

/// Something that does an agent's work.
pub trait Engine: Debug + Send + Sync {
    /// The kind of engine, for people: `command`.
    fn name(&self) -> &'static str;

    /// What this engine can do beyond running a task.
    fn capabilities(&self) -> Capabilities;

    /// Whether a run could start now. Looks, and starts nothing.
    fn probe(&self) -> Availability;

    /// Does one task. Cancelling asks the agent to end, then ends it; the outcome is [`RunOutcome::Cancelled`] unless
    /// the agent had finished before.
    fn run(&self, task: Task, cancel: CancellationToken) -> RunFuture<'_>;
}

/// What an engine can do beyond running a task to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It takes further input while a run is under way.
    pub steering: bool,
    /// A later run can go on where an earlier one stopped.
    pub sessions: bool,
    /// It reports its reply piece by piece.
    pub streaming: bool,
}

/// Whether an engine could run something now.
#[derive(Debug)]
pub enum Availability {
    /// A run could start.
    Online,
    /// A run would fail, for this reason.
    Offline(Failure),
}
