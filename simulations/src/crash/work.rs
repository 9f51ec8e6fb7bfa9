//! What agents and sandboxes have in hand, and what they say when it ends. Gone with the process.

use mesh_node_core::event::{CloseReason, Event, JobTicket};
use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::id::{FlightId, JobId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{Contents, JobResult, JobStatus, OutputFile};

use super::truth::Truth;

/// One run or one job, begun.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Run { origin: NodeId, flight: FlightId, attempt: u32 },
    Job { origin: NodeId, job: JobId, attempt: u32, long: bool },
}

impl Work {
    /// It came to its end: from now on its effects outside are done.
    pub(super) fn end(self, truth: &mut Truth) -> Event {
        match self {
            Self::Run { origin, flight, attempt } => {
                truth.answered.insert(flight);
                let outcome = FlightOutcome::Completed { reply: Truth::reply(flight) };
                Event::RunEnded { origin, flight, attempt, outcome }
            }
            Self::Job { origin, job, attempt, long } => {
                truth.jobs_done.insert(job);
                let result = result(JobStatus::Succeeded, None, true);
                let mut ended = ended(origin, job, attempt, result);
                if let Event::JobEnded { outputs, .. } = &mut ended
                    && long
                {
                    let file = |(path, bytes)| OutputFile { path, content: Contents(bytes) };
                    outputs.extend(Truth::files("output").map(file));
                }
                ended
            }
        }
    }

    /// It was stopped.
    pub(super) fn stop(self) -> Event {
        match self {
            Self::Run { origin, flight, attempt } => {
                let outcome = FlightOutcome::Cancelled { may_have_run: true };
                Event::RunEnded { origin, flight, attempt, outcome }
            }
            Self::Job { origin, job, attempt, .. } => {
                let result = result(JobStatus::Cancelled, Some("cancelled"), true);
                ended(origin, job, attempt, result)
            }
        }
    }

    pub(super) fn is_run(self, of: (NodeId, FlightId)) -> bool {
        matches!(self, Self::Run { origin, flight, .. } if (origin, flight) == of)
    }

    pub(super) fn is_job(self, of: (NodeId, JobId)) -> bool {
        matches!(self, Self::Job { origin, job, .. } if (origin, job) == of)
    }
}

/// The end of a job that the sandbox was told not to run to its end.
pub(super) fn close(ticket: &JobTicket, reason: CloseReason) -> Event {
    let (status, word, may_have_run) = match reason {
        CloseReason::NodeRestarted => (JobStatus::Error, "server_restarted", true),
        CloseReason::CancelledBeforeStart => (JobStatus::Cancelled, "cancelled_before_start", false),
        CloseReason::DeadlinePassed => (JobStatus::Error, "deadline", false),
        CloseReason::Unavailable => (JobStatus::Error, "unavailable", false),
    };
    let JobTicket { origin, job, attempt, .. } = *ticket;
    ended(origin, job, attempt, result(status, Some(word), may_have_run))
}

fn ended(origin: NodeId, job: JobId, attempt: u32, result: JobResult) -> Event {
    let (evidence, outputs, events) = Default::default();
    Event::JobEnded { origin, job, attempt, result, evidence, outputs, events }
}

fn result(status: JobStatus, killed_by: Option<&str>, may_have_run: bool) -> JobResult {
    JobResult {
        status,
        exit_code: None,
        killed_by: killed_by.map(str::to_owned),
        stdout: String::new(),
        stderr: String::new(),
        truncated: false,
        duration_ms: 0,
        isolation: may_have_run.then_some(IsolationClass::GvisorApplicationKernel),
        may_have_run,
        violations: Vec::new(),
        artifacts: Vec::new(),
    }
}
