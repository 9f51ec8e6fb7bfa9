//! A provider that plays a recorded script: for evals, tests and examples.
//!
//! It invents nothing. A run that is longer than its script fails, and what was left over can be seen.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{ConverseOptions, ConverseRequest, ConverseResult, Conversing, Provider, ProviderError};
use crate::message::ToolCall;
use crate::usage::{FinishReason, TokenUsage};

/// Plays turns in order and remembers what it was asked.
pub struct ScriptedProvider {
    turns: usize,
    reports_usage: bool,
    state: Mutex<State>,
}

struct State {
    left: std::vec::IntoIter<Script>,
    requests: Vec<ConverseRequest>,
}

/// One entry of a script.
pub enum Script {
    /// This turn.
    Turn(Box<ScriptedTurn>),
    /// The turn this function makes of the request, or its error.
    Function(ScriptFunction),
}

/// Makes a turn of a request.
pub type ScriptFunction = Box<dyn Fn(&ConverseRequest) -> Result<ScriptedTurn, ProviderError> + Send + Sync>;

impl Script {
    /// The turn that `function` makes of the request.
    pub fn function(function: impl Fn(&ConverseRequest) -> ScriptedTurn + Send + Sync + 'static) -> Self {
        Self::Function(Box::new(move |request| Ok(function(request))))
    }

    /// A turn that fails.
    pub fn failure(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Function(Box::new(move |_| Err(ProviderError::Other(message.clone().into()))))
    }
}

impl From<ScriptedTurn> for Script {
    fn from(turn: ScriptedTurn) -> Self {
        Self::Turn(Box::new(turn))
    }
}

/// What a model says in one turn of a script.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScriptedTurn {
    /// The turn; its reason to end is filled in unless `finish_reason` says one.
    pub turn: ConverseResult,
    /// Why it ends; None: because of its calls, or because it is done.
    pub finish_reason: Option<FinishReason>,
}

impl ScriptedTurn {
    /// The model says this.
    pub fn text(text: impl Into<String>) -> Self {
        Self { turn: ConverseResult { text: text.into(), ..ConverseResult::default() }, finish_reason: None }
    }

    /// The model asks for these tools.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let tool_calls = calls.into_iter().collect();
        Self { turn: ConverseResult { tool_calls, ..ConverseResult::default() }, finish_reason: None }
    }

    /// The same, with prose.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.turn.text = text.into();
        self
    }

    /// The same, ending for this reason.
    #[must_use]
    pub fn ending(mut self, reason: FinishReason) -> Self {
        self.finish_reason = Some(reason);
        self
    }

    /// The same, with usage.
    #[must_use]
    pub fn using(mut self, usage: TokenUsage) -> Self {
        self.turn.usage = Some(usage);
        self
    }

    /// The same, with an id of the response.
    #[must_use]
    pub fn identified(mut self, response_id: impl Into<String>) -> Self {
        self.turn.response_id = Some(response_id.into());
        self
    }

    fn into_result(self) -> ConverseResult {
        let mut turn = self.turn;
        turn.finish_reason = self.finish_reason.unwrap_or(if turn.tool_calls.is_empty() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        });
        turn
    }
}

impl ScriptedProvider {
    /// A provider that plays this script.
    pub fn new<S: Into<Script>>(script: impl IntoIterator<Item = S>) -> Self {
        let script: Vec<Script> = script.into_iter().map(Into::into).collect();
        let turns = script.len();
        Self {
            turns,
            reports_usage: false,
            state: Mutex::new(State { left: script.into_iter(), requests: Vec::new() }),
        }
    }

    /// The same, declaring that its turns report their usage.
    #[must_use]
    pub fn reporting_usage(mut self) -> Self {
        self.reports_usage = true;
        self
    }

    /// Every request so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<ConverseRequest> {
        self.state().requests.clone()
    }

    /// Turns that were not played.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.state().left.len()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(
        &self,
        request: &ConverseRequest,
        options: &ConverseOptions,
    ) -> Result<ConverseResult, ProviderError> {
        let provider = self.name().to_owned();
        options.stop.check().map_err(|reason| ProviderError::Stopped { provider, reason })?;
        let next = {
            let mut state = self.state();
            state.requests.push(request.clone());
            state.left.next()
        };
        match next {
            Some(Script::Turn(turn)) => Ok(turn.into_result()),
            Some(Script::Function(function)) => Ok(function(request)?.into_result()),
            None => Err(ProviderError::ScriptExhausted { turns: self.turns }),
        }
    }
}

impl Provider for ScriptedProvider {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn reports_usage(&self) -> bool {
        self.reports_usage
    }

    fn converse<'a>(&'a self, request: &'a ConverseRequest, options: &'a ConverseOptions) -> Conversing<'a> {
        Box::pin(async move { self.next(request, options) })
    }
}

impl fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedProvider")
            .field("turns", &self.turns)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(turn) => f.debug_tuple("Turn").field(turn).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}
