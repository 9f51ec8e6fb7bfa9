//! Running a loop: a prompt or a conversation in, an answer out, with the bookends around it.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::native::NO_ANSWER;
use super::{
    ConversationResult, Loop, LoopContext, LoopRequest, LoopResult, NativeLoop, RequestedLimits, RunError,
    SeedError, TruncatedAnswerError, resolve_loop_limits,
};
use crate::event::{Bookend, OpenRun, RunEvents, SharedSink};
use crate::host::HostEnv;
use crate::log::Log;
use crate::message::AgentMessage;
use crate::model::{ChatModel, IntoChatModel};
use crate::outcome::{LoopEnd, Outcome};
use crate::provider::ProviderOptions;
use crate::stop::{Stop, StopReason};
use crate::tool::SharedTool;

/// A run of the native loop: everything but what is said. Only the model has to be given.
#[derive(Clone)]
pub struct AgentRun {
    /// Whom to ask.
    pub model: ChatModel,
    /// The system prompt.
    pub system: String,
    /// What the model may ask for.
    pub tools: Vec<SharedTool>,
    /// How far to go.
    pub limits: RequestedLimits,
    /// How to ask, on every call.
    pub options: ProviderOptions,
    /// Prose about the run.
    pub log: Log,
    /// What happens, for programs.
    pub sink: Option<SharedSink>,
    /// Ends the run.
    pub stop: Stop,
    /// The run, if it has a name.
    pub run_id: Option<String>,
    /// The host's settings.
    pub host: HostEnv,
}

impl AgentRun {
    /// A run with this model, or the model of this provider.
    pub fn new(model: impl IntoChatModel) -> Self {
        Self {
            model: model.into_chat_model(),
            system: String::new(),
            tools: Vec::new(),
            limits: RequestedLimits::default(),
            options: ProviderOptions::default(),
            log: Log::silent(),
            sink: None,
            stop: Stop::new(),
            run_id: None,
            host: HostEnv::process(),
        }
    }

    /// The same, with a system prompt.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = system.into();
        self
    }

    /// The same, with these tools as well.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = SharedTool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// The same, with at most so many steps.
    #[must_use]
    pub fn with_max_steps(mut self, steps: u32) -> Self {
        self.limits.max_steps = Some(steps);
        self
    }

    /// The same, with a sink for its events.
    #[must_use]
    pub fn with_sink(mut self, sink: SharedSink) -> Self {
        self.sink = Some(sink);
        self
    }
}

impl std::fmt::Debug for AgentRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentRun")
            .field("model", &self.model.id())
            .field("tools", &self.tools.len())
            .field("limits", &self.limits)
            .field("run_id", &self.run_id)
            .finish_non_exhaustive()
    }
}

/// Goes on with a conversation until the model is done or may not go on. The seed is copied into the result.
///
/// # Errors
/// A [`RunError`]: before any event when the seed is no seed, else after the events were closed.
pub async fn run_conversation(
    run: AgentRun,
    messages: Vec<AgentMessage>,
) -> Result<ConversationResult, RunError> {
    check_seed(&messages)?;
    let events = RunEvents::new(run.sink, run.log.clone()).keeping();
    let request = LoopRequest {
        model: run.model,
        system: run.system.into(),
        messages,
        tools: run.tools,
        limits: resolve_loop_limits(run.limits, &run.host),
        options: Arc::new(run.options),
    };
    let context = RunContext { log: run.log, stop: run.stop, run_id: run.run_id, host: run.host };
    let result = run_with_events(&NativeLoop, request, &events, context).await?;
    Ok(ConversationResult { run: result, events: events.take_kept() })
}

/// Asks an agent one thing.
///
/// # Errors
/// A [`RunError`], also when the answer was cut off: text alone could not say so.
pub async fn run_agent(run: AgentRun, prompt: impl Into<String>) -> Result<String, RunError> {
    let result = run_conversation(run, vec![AgentMessage::user(prompt)]).await?;
    if result.end == LoopEnd::Length {
        return Err(RunError::Truncated(Box::new(TruncatedAnswerError { result })));
    }
    Ok(if result.text.is_empty() { NO_ANSWER.into() } else { result.run.text })
}

/// What a run reports to besides its events, and what may end it.
#[derive(Debug, Clone, Default)]
pub struct RunContext {
    /// Prose about the run; silent in a private one.
    pub log: Log,
    /// Ends the run.
    pub stop: Stop,
    /// The run, if it has a name.
    pub run_id: Option<String>,
    /// The host's settings.
    pub host: HostEnv,
}

/// Runs a loop between `run.started` and `run.finished`, whichever loop it is and however it ends, also in a panic
/// or because it is dropped.
///
/// # Errors
/// What the loop failed with, unchanged.
pub async fn run_with_events(
    control: &dyn Loop,
    request: LoopRequest,
    events: &RunEvents,
    context: RunContext,
) -> Result<LoopResult, RunError> {
    let open = OpenRun::begin(
        events,
        Bookend::Started {
            max_steps: request.limits.max_steps,
            max_duration_ms: u64::try_from(request.limits.max_duration.as_millis()).unwrap_or(u64::MAX),
            tools: request.tools.iter().map(|tool| tool.spec().name.clone()).collect(),
        },
    );
    let stop = context.stop.clone();
    let context = LoopContext {
        log: if events.is_private() { Log::silent() } else { context.log },
        events: events.for_loop(),
        stop: context.stop,
        run_id: context.run_id,
        host: context.host,
    };
    let ended = AssertUnwindSafe(async { control.run(request, &context).await }).catch_unwind().await;
    open.close(match &ended {
        Ok(Ok(result)) => Bookend::Finished {
            outcome: result.outcome,
            steps: Some(result.steps),
            text: Some(result.text.clone()),
            error: None,
        },
        Ok(Err(error)) => Bookend::failed(outcome_of(error, &stop), error.to_string()),
        Err(_panic) => Bookend::failed(Outcome::Failed, "the loop broke down".into()),
    });
    match ended {
        Ok(ended) => ended,
        Err(panic) => resume_unwind(panic),
    }
}

/// The outcome of a loop that failed: the stop's, if the failure says no more than that.
fn outcome_of(error: &RunError, stop: &Stop) -> Outcome {
    match stop.reason() {
        Some(StopReason::Canceled(_)) if error.is_stop() => Outcome::Canceled,
        Some(StopReason::Deadline(_)) if error.is_stop() => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}

/// # Errors
/// What is wrong with a conversation that a model cannot go on with.
pub fn check_seed(messages: &[AgentMessage]) -> Result<(), SeedError> {
    match messages {
        [] => Err(SeedError::Empty),
        [.., AgentMessage::User { .. }] => Ok(()),
        [.., AgentMessage::Assistant { .. }] => Err(SeedError::EndsWithModel),
        [before @ .., AgentMessage::Tool { results }] => {
            let mut expected: Vec<String> = match before.last() {
                Some(AgentMessage::Assistant { tool_calls, .. }) => {
                    tool_calls.iter().map(|call| call.id.clone()).collect()
                }
                _ => Vec::new(),
            };
            let mut found: Vec<String> = results.iter().map(|result| result.tool_call_id.clone()).collect();
            expected.sort_unstable();
            found.sort_unstable();
            if expected == found && !found.is_empty() {
                Ok(())
            } else {
                Err(SeedError::Results { expected, found })
            }
        }
    }
}
