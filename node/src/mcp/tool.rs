//! The tools: names, what models are told about them, and their schemas, in one fixed order.
//!
//! The list depends on the build alone: not on the node, the caller or the time. Rookhold's names for the three job
//! tools are answered like ours, for hosts that pin them, and are not listed: a model that saw both would have to
//! choose between two names of one thing.

use rmcp::model::{Tool as Definition, ToolAnnotations};
use schemars::JsonSchema;

use super::arguments;
use super::report::flight::{AskReport, InvocationReport};
use super::report::job::{CancelReport, JobReport};
use super::report::{ResolveReport, SendReport, WhoamiReport};
use super::schema;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tool {
    Whoami,
    AgentsResolve,
    MessagesSend,
    Ask,
    InvocationsGet,
    InvocationsWait,
    RunCode,
    JobResult,
    CancelJob,
}

impl Tool {
    /// All of them, in the order they are listed.
    pub(crate) const ALL: [Self; 9] = [
        Self::Whoami,
        Self::AgentsResolve,
        Self::MessagesSend,
        Self::Ask,
        Self::InvocationsGet,
        Self::InvocationsWait,
        Self::RunCode,
        Self::JobResult,
        Self::CancelJob,
    ];

    /// The published name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Whoami => "whoami",
            Self::AgentsResolve => "agents_resolve",
            Self::MessagesSend => "messages_send",
            Self::Ask => "ask",
            Self::InvocationsGet => "invocations_get",
            Self::InvocationsWait => "invocations_wait",
            Self::RunCode => "run_code",
            Self::JobResult => "job_result",
            Self::CancelJob => "cancel_job",
        }
    }

    /// The tool a name or an alias means.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "rookhold_run_code" => Some(Self::RunCode),
            "rookhold_job_result" => Some(Self::JobResult),
            "rookhold_cancel_job" => Some(Self::CancelJob),
            _ => Self::ALL.into_iter().find(|tool| tool.name() == name),
        }
    }

    /// Whether a call of it may last as long as the caller says.
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::Ask | Self::InvocationsWait | Self::RunCode | Self::JobResult)
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Whoami => {
                "Tells who you are to the mesh, which node you talk to, and what you may do there."
            }
            Self::AgentsResolve => {
                "Finds the agent an address means, on any machine of the mesh. Says `ambiguous` with the candidates, or \
                 `unknown`, rather than guessing. Use it before ask when you are not sure of a name."
            }
            Self::MessagesSend => {
                "Sends a message to another agent. Nothing is tracked and no answer is awaited; use ask to have \
                 something done. A message to a machine that cannot be reached now is kept and delivered later."
            }
            Self::Ask => {
                "Asks another agent to do something and waits a while for its answer. If the answer takes longer, \
                 complete is false and next names the call that waits on; the work goes on meanwhile. ok is false when \
                 the agent could not answer, and outcome says why and whether it may have begun."
            }
            Self::InvocationsGet => "Shows where an ask is now, without waiting.",
            Self::InvocationsWait => {
                "Waits until an ask has ended or the time is up. Running out of time changes nothing: call it again."
            }
            Self::RunCode => {
                "Runs a short Python, Node.js or Bash program in a sandbox on the mesh: no network, nothing kept \
                 between runs, bounded time, memory and output. A program that fails or is stopped is a normal result: \
                 read result.status and exit_code. If it takes longer than wait_seconds, complete is false and \
                 job_result gets the result later by job_id."
            }
            Self::JobResult => "Gets the result of a job by its id, waiting for its end if asked to.",
            Self::CancelJob => "Stops a job. Harmless when it has ended already.",
        }
    }

    /// Hints for hosts that decide by them what to ask their user about.
    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::new();
        match self {
            Self::Whoami
            | Self::AgentsResolve
            | Self::InvocationsGet
            | Self::InvocationsWait
            | Self::JobResult => hints.read_only(true).destructive(false).idempotent(true).open_world(false),
            Self::MessagesSend => {
                hints.read_only(false).destructive(false).idempotent(false).open_world(true)
            }
            // What another agent does with a task is up to it.
            Self::Ask => hints.read_only(false).destructive(true).idempotent(false).open_world(true),
            // The sandbox is thrown away and has no network.
            Self::RunCode => hints.read_only(false).destructive(false).idempotent(false).open_world(false),
            Self::CancelJob => hints.read_only(false).destructive(true).idempotent(true).open_world(false),
        }
    }

    /// The tool as it is listed.
    pub(crate) fn definition(self) -> Definition {
        match self {
            Self::Whoami => self.with::<arguments::Nothing, WhoamiReport>(),
            Self::AgentsResolve => self.with::<arguments::Resolve, ResolveReport>(),
            Self::MessagesSend => self.with::<arguments::Send, SendReport>(),
            Self::Ask => self.with::<arguments::Ask, AskReport>(),
            Self::InvocationsGet => self.with::<arguments::Flight, InvocationReport>(),
            Self::InvocationsWait => self.with::<arguments::FlightWait, InvocationReport>(),
            Self::RunCode => self.with::<arguments::RunCode, JobReport>(),
            Self::JobResult => self.with::<arguments::JobWait, JobReport>(),
            Self::CancelJob => self.with::<arguments::Job, CancelReport>(),
        }
    }

    fn with<Arguments: JsonSchema, Report: JsonSchema>(self) -> Definition {
        Definition::new(self.name(), self.description(), schema::of_arguments::<Arguments>())
            .with_raw_output_schema(schema::of_result::<Report>())
            .with_annotations(self.annotations())
    }
}
