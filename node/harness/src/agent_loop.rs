//! The control flow of a run: which model is asked when, which tools run, and when it is over.
//!
//! A [`Loop`] is handed resolved materials (a model, a conversation, tools, limits as numbers) and decides control flow
//! and nothing else. [`run_with_events`] puts the bookends around whichever loop runs. The native loop is what
//! [`run_agent`] and [`run_conversation`] run.
//!
//! Invariant: a stop is an outcome and not an error, and an error of the loop comes out as it went in, after the stream
//! of events was closed.

mod calls;
mod error;
mod limits;
mod native;
mod run;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::event::{LoopEvents, RunEvent};
use crate::host::HostEnv;
use crate::log::Log;
use crate::message::{AgentMessage, ToolCall};
use crate::model::ChatModel;
use crate::outcome::{LoopEnd, Outcome};
use crate::provider::ProviderOptions;
use crate::stop::Stop;
use crate::tool::SharedTool;
use crate::usage::{FinishReason, TokenUsage};

pub use error::{RunError, SeedError, TruncatedAnswerError};
pub use limits::{LoopLimits, RequestedLimits, resolve_loop_limits, tool_result_limit};
pub use native::NativeLoop;
pub use run::{AgentRun, RunContext, check_seed, run_agent, run_conversation, run_with_events};

/// A loop as it is handed around.
pub type SharedLoop = Arc<dyn Loop>;

/// Decides the control flow of a run.
pub trait Loop: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Runs to an end. A stop is a clean end: the result says so, and there is no error.
    fn run<'a>(&'a self, request: LoopRequest, context: &'a LoopContext) -> Looping<'a>;
}

/// A loop under way.
pub type Looping<'a> = BoxFuture<'a, Result<LoopResult, RunError>>;

/// What a loop works with.
#[derive(Clone)]
pub struct LoopRequest {
    /// Whom to ask.
    pub model: ChatModel,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation to go on with.
    pub messages: Vec<AgentMessage>,
    /// What the model may ask for.
    pub tools: Vec<SharedTool>,
    /// How far to go.
    pub limits: LoopLimits,
    /// How to ask, on every call.
    pub options: Arc<ProviderOptions>,
}

/// What a loop reports to, and what may end it.
#[derive(Debug, Clone)]
pub struct LoopContext {
    /// Prose about the run.
    pub log: Log,
    /// What happens, for programs.
    pub events: LoopEvents,
    /// Ends the run.
    pub stop: Stop,
    /// The run, if its caller named it.
    pub run_id: Option<String>,
    /// Settings that are read while it runs.
    pub host: HostEnv,
}

/// How a loop ended. [`LoopResult::completed`] is the least a loop can say.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopResult {
    /// The answer.
    pub text: String,
    /// Steps taken.
    pub steps: u32,
    /// How it ended, in one word.
    pub outcome: Outcome,
    /// Why it stopped.
    pub end: LoopEnd,
    /// The whole transcript, fit to be the seed of the next run.
    pub messages: Vec<AgentMessage>,
    /// The call that gave the final answer.
    pub terminal: Option<ToolCall>,
    /// What all model calls together used.
    pub usage: Option<TokenUsage>,
    /// Why the last turn ended.
    pub finish_reason: FinishReason,
    /// Who was asked.
    pub provider: String,
    /// The model that served the last turn.
    pub model: Option<String>,
    /// The provider's ids of all responses, in order.
    pub response_ids: Vec<String>,
    /// Who processed the last prompt.
    pub upstream: Option<String>,
}

impl LoopResult {
    /// A run that came to its own end with this answer.
    #[must_use]
    pub fn completed(text: impl Into<String>, steps: u32) -> Self {
        Self {
            text: text.into(),
            steps,
            outcome: Outcome::Completed,
            end: LoopEnd::EndTurn,
            messages: Vec::new(),
            terminal: None,
            usage: None,
            finish_reason: FinishReason::Unknown,
            provider: String::new(),
            model: None,
            response_ids: Vec::new(),
            upstream: None,
        }
    }
}

/// How a conversation ended: what its loop said, and its events.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationResult {
    /// What the loop said.
    pub run: LoopResult,
    /// The events of this run, the same that went to the sink.
    pub events: Vec<RunEvent>,
}

impl std::ops::Deref for ConversationResult {
    type Target = LoopResult;

    fn deref(&self) -> &LoopResult {
        &self.run
    }
}

impl std::fmt::Debug for LoopRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoopRequest")
            .field("model", &self.model.id())
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .field("limits", &self.limits)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
