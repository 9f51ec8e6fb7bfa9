//! The `command` engine: a program reads its task on stdin and answers on stdout.
//!
//! Exit code 0 means answered; everything else is a failure that shows the end of stderr. The program gets a cleaned
//! environment, a working directory and a process group of its own, and the group does not outlive the run:
//!
//! ```text
//!             exit                          whole group SIGKILL, rest of the pipes read
//!   running ────────────────────────────────> ending ──> outcome
//!      │ cancel, time limit, reply too long     ^
//!      └──> whole group SIGTERM, grace ─────────┘
//! ```
//!
//! What it does not do: isolate. A process that moves to another group or session (`setsid`) leaves our reach; it can
//! neither hold up a run (reading its pipes is bounded) nor be ended with it. A control group would reach it.
//!
//! Nor can it end its programs when this process itself is killed. A parent-death signal would have to be set between
//! fork and exec, which takes unsafe code that this crate does without, and would miss grandchildren. Runs are recorded
//! in [run files](crate::run_file) instead, and swept at the next start.

mod environment;
mod pipes;
mod program;
mod run;
mod spec;

use tokio_util::sync::CancellationToken;

use crate::engine::{Availability, Capabilities, Engine, FailureReason, RunFuture, RunOutcome, Task};
use run::Run;

pub use environment::ALWAYS_PASSED;
pub use spec::{CommandSpec, SpecError};

/// Runs one configured program for every task.
#[derive(Debug)]
pub struct CommandEngine {
    spec: CommandSpec,
}

impl CommandEngine {
    /// An engine for this program. Does not look whether the program is there: [`Engine::probe`] does.
    ///
    /// # Errors
    /// A [`SpecError`] when no program could ever be started like that.
    pub fn new(spec: CommandSpec) -> Result<Self, SpecError> {
        spec.check()?;
        Ok(Self { spec })
    }

    async fn execute(&self, task: Task, cancel: CancellationToken) -> Result<RunOutcome, FailureReason> {
        if cancel.is_cancelled() {
            return Ok(RunOutcome::Cancelled);
        }
        let limit = task.time_limit().map_or(self.spec.time_limit, |limit| limit.min(self.spec.time_limit));
        let mut run = Run::start(&self.spec, task)?;
        let stopped = run.watch(limit, &cancel).await;
        Ok(run.finish(stopped).await)
    }
}

impl Engine for CommandEngine {
    fn name(&self) -> &'static str {
        "command"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn probe(&self) -> Availability {
        match program::resolve(&self.spec) {
            Ok(_) => Availability::Online,
            Err(reason) => Availability::Offline(reason.into()),
        }
    }

    fn run(&self, task: Task, cancel: CancellationToken) -> RunFuture<'_> {
        Box::pin(async move {
            let run = task.run().clone();
            let outcome =
                self.execute(task, cancel).await.unwrap_or_else(|reason| RunOutcome::Failed(reason.into()));
            match &outcome {
                RunOutcome::Completed { reply } => {
                    tracing::debug!(%run, bytes = reply.len(), "agent answered")
                }
                RunOutcome::Failed(failure) => {
                    tracing::info!(%run, reason = %failure.reason, "agent gave no answer")
                }
                RunOutcome::Cancelled => tracing::info!(%run, "run cancelled"),
            }
            outcome
        })
    }
}
