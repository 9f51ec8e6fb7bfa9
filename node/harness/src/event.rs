//! What happens in a run, as an ordered account a program can read.
//!
//! Every event has a number from one counter of its run, without gaps, so that a lost event is noticed. `run.started`
//! comes first and `run.finished` last and once; a loop cannot emit either ([`LoopEvents`] has no way to). A sink is an
//! observer: it gets copies, and when it fails or panics the run says so in its log and goes on.
//!
//! Events carry what the model said and asked for, raw: whoever keeps them has to redact, except in a private run, where
//! they come redacted. Nothing is stored here.

mod emitter;
mod open;
mod recorder;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::JsonObject;
use crate::model::BoxError;
use crate::outcome::Outcome;
use crate::tool::{Replay, ToolMetadata};
use crate::usage::{FinishReason, Usage};

pub use emitter::{LoopEvents, RunEvents};
pub(crate) use open::OpenRun;
pub use recorder::{RecordedEvents, record_run_events};

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Its number in the run, from 0.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// Whether text was withheld because the run is private.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// What happened.
    #[serde(flatten)]
    pub what: RunEventKind,
}

impl RunEvent {
    /// Its name: `tool.called`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.what.name()
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RunEventKind {
    /// The run began or ended.
    Bookend(Bookend),
    /// Something inside its loop.
    Loop(LoopEvent),
}

impl RunEventKind {
    /// The event's name: `tool.called`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bookend(Bookend::Started { .. }) => "run.started",
            Self::Bookend(Bookend::Finished { .. }) => "run.finished",
            Self::Loop(LoopEvent::ModelTurn { .. }) => "model.turn",
            Self::Loop(LoopEvent::ModelTurnFailed { .. }) => "model.turn.failed",
            Self::Loop(LoopEvent::ToolCalled { .. }) => "tool.called",
            Self::Loop(LoopEvent::ToolSucceeded { .. }) => "tool.succeeded",
            Self::Loop(LoopEvent::ToolFailed { .. }) => "tool.failed",
            Self::Loop(LoopEvent::BudgetExhausted { .. }) => "run.budget_exhausted",
        }
    }
}

/// The first and the last event of a run, which no loop emits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Bookend {
    /// A run began.
    #[serde(rename = "run.started")]
    Started {
        /// Its budget of steps.
        max_steps: u32,
        /// Its budget of time, milliseconds.
        max_duration_ms: u64,
        /// The names of its tools.
        tools: Vec<String>,
    },
    /// It ended.
    #[serde(rename = "run.finished")]
    Finished {
        /// How.
        outcome: Outcome,
        /// Steps it took; absent when the loop failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        steps: Option<u32>,
        /// Its answer; absent when the loop failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// What happens inside a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum LoopEvent {
    /// A model answered.
    #[serde(rename = "model.turn")]
    ModelTurn {
        /// The step, from 0. The summary's is the number of steps taken.
        step: u32,
        /// Its prose.
        text: String,
        /// What it asks for.
        tool_calls: Vec<CallName>,
        /// What it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Why the turn ended.
        finish_reason: FinishReason,
        /// The model that answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The provider's id of the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_id: Option<String>,
        /// Who processed the prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upstream: Option<String>,
    },
    /// A model call failed, and the run goes on without it.
    #[serde(rename = "model.turn.failed")]
    ModelTurnFailed {
        /// The step.
        step: u32,
        /// What the call was for.
        phase: TurnPhase,
        /// Why.
        error: String,
    },
    /// A tool is about to run.
    #[serde(rename = "tool.called")]
    ToolCalled {
        /// The step.
        step: u32,
        /// The model's id of the call.
        call_id: String,
        /// The tool.
        name: String,
        /// A copy of the arguments, raw.
        input: JsonObject,
        /// What the tool claims about itself.
        #[serde(flatten)]
        claims: ToolClaims,
    },
    /// A tool answered.
    #[serde(rename = "tool.succeeded")]
    ToolSucceeded {
        /// The step.
        step: u32,
        /// The model's id of the call.
        call_id: String,
        /// The tool.
        name: String,
        /// Length of its answer before it was cut, bytes.
        bytes: u64,
        /// What the tool claims about itself.
        #[serde(flatten)]
        claims: ToolClaims,
    },
    /// A call has no answer. The model is told.
    #[serde(rename = "tool.failed")]
    ToolFailed {
        /// The step.
        step: u32,
        /// The model's id of the call.
        call_id: String,
        /// The tool the model named.
        name: String,
        /// What kind of failure.
        reason: ToolFailure,
        /// The failure in words.
        error: String,
    },
    /// The run used up what it had.
    #[serde(rename = "run.budget_exhausted")]
    BudgetExhausted {
        /// Of what.
        kind: Budget,
        /// The step.
        step: u32,
    },
}

/// A call as events name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallName {
    /// The model's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
}

/// What a tool claims about undoing and replaying it, at the moment it was called. Absent is not false.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolClaims {
    /// Whether what it does can be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversible: Option<bool>,
    /// The tool that undoes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_tool_name: Option<String>,
    /// For how long, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_window_seconds: Option<u64>,
    /// Whether it may be run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl From<&ToolMetadata> for ToolClaims {
    fn from(meta: &ToolMetadata) -> Self {
        Self {
            reversible: meta.reversible,
            undo_tool_name: meta.undo_tool_name.clone(),
            undo_window_seconds: meta.undo_window_seconds,
            replay: meta.replay,
        }
    }
}

/// What a model call whose failure is absorbed was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnPhase {
    /// The summary after the last step.
    Summary,
}

/// What kind of failure a tool call had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFailure {
    /// The tool failed.
    Threw,
    /// There is no such tool.
    UnknownTool,
    /// The run was stopped.
    Aborted,
    /// The call was cut off, so it was not run.
    Truncated,
}

/// What a run can use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Steps.
    Steps,
    /// Time.
    Duration,
}

/// A sink as it is handed around.
pub type SharedSink = Arc<dyn EventSink>;

/// Takes the events of runs.
pub trait EventSink: Send + Sync {
    /// Takes one event. Called in order, one at a time within a run; must not block.
    ///
    /// # Errors
    /// Whatever went wrong. The run says so in its log and goes on.
    fn emit(&self, event: RunEvent) -> Result<(), BoxError>;
}

impl<F: Fn(RunEvent) -> Result<(), BoxError> + Send + Sync> EventSink for F {
    fn emit(&self, event: RunEvent) -> Result<(), BoxError> {
        self(event)
    }
}
