//! An agent that follows the script in its task, and writes what it does into the ledger.

use std::time::Duration;

use mesh_harness::{Availability, Capabilities, Engine, RunFuture, RunOutcome, Task};
use tokio_util::sync::CancellationToken;

use super::ledger::{Kind, Ledger, Number};
use super::life::Life;

/// What a task, a message or a job says: which it is, and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) number: Number,
    pub(super) work_ms: u64,
}

impl Script {
    pub(super) fn text(self) -> String {
        format!("{} {}", self.number, self.work_ms)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let (number, work_ms) = text.split_once(' ')?;
        Some(Self { number: number.parse().ok()?, work_ms: work_ms.trim().parse().ok()? })
    }

    /// What comes out when it was done to its end.
    pub(super) fn result(self) -> String {
        format!("did {}", self.number)
    }
}

/// One agent in one life of a machine.
#[derive(Debug)]
pub(super) struct Scripted {
    pub(super) machine: usize,
    pub(super) number_of_life: u32,
    pub(super) life: Life,
    pub(super) ledger: Ledger,
}

impl Engine for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn probe(&self) -> Availability {
        Availability::Online
    }

    fn run(&self, task: Task, cancel: CancellationToken) -> RunFuture<'_> {
        Box::pin(async move {
            let Some(script) = Script::read(task.text()).filter(|_| !self.life.is_over()) else {
                return RunOutcome::Cancelled;
            };
            self.ledger.begin(Kind::Ask, script.number, self.machine, self.number_of_life);
            tokio::select! {
                biased;
                () = self.life.over() => RunOutcome::Cancelled,
                () = cancel.cancelled() => RunOutcome::Cancelled,
                () = tokio::time::sleep(Duration::from_millis(script.work_ms)) => {
                    self.ledger.end(Kind::Ask, script.number, self.machine, self.number_of_life);
                    RunOutcome::Completed { reply: script.result() }
                }
            }
        })
    }
}
