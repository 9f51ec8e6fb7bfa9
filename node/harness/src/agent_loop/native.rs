//! The loop of the kernel: ask the model, run the tools it asks for, until it asks for none or may not go on.
//!
//! ```text
//!   model call ──> no calls ─────────────────────────────> end_turn, length
//!       ▲   └────> calls, one after the other
//!       │              └──> a final answer ──────────────> terminal_tool
//!       └─ steps left ─┘──> none: a summary without tools > steps_exhausted
//!
//!   the deadline, or the caller's stop, anywhere ────────> timed_out, canceled
//! ```
//!
//! Invariants: a call that was cut off is never run; every call in the transcript has exactly one result, also of a run
//! that was stopped; after a stop no model is asked and no tool is started.

use std::sync::Arc;

use super::calls::{Calls, Surface};
use super::{Loop, LoopContext, LoopRequest, LoopResult, Looping, RunError, check_seed};
use crate::event::{Budget, CallName, LoopEvent, TurnPhase};
use crate::message::{AgentMessage, ToolSpec};
use crate::model::{InvokeContext, ModelError, ModelResult};
use crate::outcome::LoopEnd;
use crate::provider::{ConverseRequest, ConverseResult};
use crate::stop::{Stop, StopReason};
use crate::usage::{TokenUsage, Usage};

/// What a run says that has nothing to say.
pub(super) const NO_ANSWER: &str = "(the agent gave no answer)";

/// What the model is told when its steps are used up.
const SUMMARY: &str = "The step budget of this run is used up and no tool is available any more. Answer now with \
                       what is known: what was done, what was found, and what is missing.";

/// The loop of the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct NativeLoop;

impl Loop for NativeLoop {
    fn name(&self) -> &'static str {
        "native"
    }

    fn run<'a>(&'a self, request: LoopRequest, context: &'a LoopContext) -> Looping<'a> {
        Box::pin(async move {
            check_seed(&request.messages)?;
            let surface = Surface::of(&request.tools)?;
            let stop = context.stop.child();
            let limit = request.limits.max_duration;
            let run = Run::new(request, context, &stop);
            stop.within(limit, run.drive(&surface)).await
        })
    }
}

/// One run of the loop.
struct Run<'a> {
    request: LoopRequest,
    context: &'a LoopContext,
    /// The caller's stop, and the deadline of this run.
    stop: &'a Stop,
    specs: Arc<Vec<ToolSpec>>,
    transcript: Arc<Vec<AgentMessage>>,
    result: LoopResult,
}

/// How a step ended.
enum Step {
    /// The run goes on.
    Next,
    /// It is over.
    End(LoopEnd),
    /// It was stopped.
    Stopped(StopReason),
}

impl<'a> Run<'a> {
    fn new(mut request: LoopRequest, context: &'a LoopContext, stop: &'a Stop) -> Self {
        let specs = Arc::new(crate::tool::to_tool_specs(&request.tools));
        let transcript = Arc::new(std::mem::take(&mut request.messages));
        let mut result = LoopResult::completed("", 0);
        result.provider = request.model.id().to_owned();
        Self { request, context, stop, specs, transcript, result }
    }

    async fn drive(mut self, surface: &Surface) -> Result<LoopResult, RunError> {
        while self.result.steps < self.request.limits.max_steps {
            if let Some(reason) = self.stop.reason().cloned() {
                return Ok(self.stopped(&reason));
            }
            match self.step(surface).await? {
                Step::Next => {}
                Step::End(end) => return Ok(self.ended(end)),
                Step::Stopped(reason) => return Ok(self.stopped(&reason)),
            }
        }
        self.out_of_steps().await
    }

    async fn step(&mut self, surface: &Surface) -> Result<Step, RunError> {
        let step = self.result.steps;
        let turn = match self.ask(self.request.system.clone(), self.specs.clone()).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(reason)) => return Ok(Step::Stopped(reason)),
            Err(error) => return Err(error.into()),
        };
        let turn = self.record(step, turn);
        self.result.steps = step + 1;
        let ConverseResult { text, tool_calls, finish_reason, .. } = turn;
        if !text.is_empty() {
            self.result.text.clone_from(&text);
        }
        let calls = Calls { step, turn_ended: finish_reason, context: self.context, stop: self.stop };
        let has_calls = !tool_calls.is_empty();
        self.say(AgentMessage::Assistant { text: text.clone(), tool_calls: tool_calls.clone() });
        if let Some(reason) = self.stop.reason().cloned() {
            if has_calls {
                self.say(AgentMessage::Tool { results: calls.not_run(&tool_calls) });
            }
            return Ok(Step::Stopped(reason));
        }
        if !has_calls {
            let cut_off = finish_reason == crate::usage::FinishReason::Length;
            return Ok(Step::End(if cut_off { LoopEnd::Length } else { LoopEnd::EndTurn }));
        }
        let (results, terminal) = calls.run(surface, &tool_calls).await;
        self.say(AgentMessage::Tool { results });
        if let Some(call) = terminal {
            self.result.terminal = Some(call);
            self.result.text = text;
            return Ok(Step::End(LoopEnd::TerminalTool));
        }
        Ok(self.stop.reason().cloned().map_or(Step::Next, Step::Stopped))
    }

    /// Asks the model. The inner error is a stop, the outer one anything else.
    async fn ask(
        &self,
        system: Arc<str>,
        tools: Arc<Vec<ToolSpec>>,
    ) -> Result<Result<ModelResult<ConverseResult>, StopReason>, ModelError> {
        let request = ConverseRequest {
            system,
            messages: self.transcript.clone(),
            tools,
            options: self.request.options.clone(),
        };
        let context = InvokeContext {
            log: self.context.log.clone(),
            stop: self.stop.clone(),
            correlation_id: self.context.run_id.clone(),
            max_duration: None,
        };
        match self.stop.or_give_up(self.request.model.invoke(request, &context)).await {
            Ok(Ok(turn)) => Ok(Ok(turn)),
            Ok(Err(error)) => match self.stop.reason() {
                Some(reason) if error.is_stop() => Ok(Err(reason.clone())),
                _ => Err(error),
            },
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// Takes note of what a turn cost and who served it, and tells the listeners.
    fn record(&mut self, step: u32, answer: ModelResult<ConverseResult>) -> ConverseResult {
        let turn = answer.value;
        if let Some(Usage::Token(usage)) = &answer.usage {
            self.result.usage.get_or_insert_with(TokenUsage::default).add(usage);
        }
        self.result.finish_reason = turn.finish_reason;
        self.result.model.clone_from(&turn.model);
        self.result.upstream.clone_from(&turn.upstream);
        self.result.response_ids.extend(turn.response_id.clone());
        let call_name =
            |call: &crate::message::ToolCall| CallName { id: call.id.clone(), name: call.name.clone() };
        self.context.events.emit(LoopEvent::ModelTurn {
            step,
            text: turn.text.clone(),
            tool_calls: turn.tool_calls.iter().map(call_name).collect(),
            usage: answer.usage,
            finish_reason: turn.finish_reason,
            model: turn.model.clone(),
            response_id: turn.response_id.clone(),
            upstream: turn.upstream.clone(),
        });
        turn
    }

    fn say(&mut self, message: AgentMessage) {
        Arc::make_mut(&mut self.transcript).push(message);
    }

    /// The steps are used up: one more question, without tools, for what to keep of them.
    async fn out_of_steps(mut self) -> Result<LoopResult, RunError> {
        let steps = self.result.steps;
        let step = steps.saturating_sub(1);
        self.context.events.emit(LoopEvent::BudgetExhausted { kind: Budget::Steps, step });
        let system = match &*self.request.system {
            "" => SUMMARY.into(),
            system => format!("{system}\n\n{SUMMARY}").into(),
        };
        match self.ask(system, Arc::default()).await {
            Ok(Ok(mut answer)) => {
                // Without tools there is nothing to call; what is asked for anyway could never be answered.
                answer.value.tool_calls.clear();
                let turn = self.record(steps, answer);
                if !turn.text.is_empty() {
                    self.result.text.clone_from(&turn.text);
                    self.say(AgentMessage::assistant(turn.text));
                }
                if let Some(reason) = self.stop.reason().cloned() {
                    return Ok(self.stopped(&reason));
                }
            }
            Ok(Err(reason)) => return Ok(self.stopped(&reason)),
            Err(error) => {
                let (error, phase) = (error.to_string(), TurnPhase::Summary);
                self.context.log.line(&format!("no summary: {error}"));
                self.context.events.emit(LoopEvent::ModelTurnFailed { step: steps, phase, error });
            }
        }
        Ok(self.ended(LoopEnd::StepsExhausted))
    }

    fn stopped(mut self, reason: &StopReason) -> LoopResult {
        let end = match reason {
            StopReason::Canceled(_) => LoopEnd::Canceled,
            StopReason::Deadline(_) => {
                let step = self.result.steps;
                self.context.events.emit(LoopEvent::BudgetExhausted { kind: Budget::Duration, step });
                LoopEnd::TimedOut
            }
        };
        let prose = match self.result.text.as_str() {
            "" => NO_ANSWER,
            prose => prose,
        };
        self.result.text = format!("{prose}\n\n[the run was stopped: {reason}]");
        self.ended(end)
    }

    fn ended(mut self, end: LoopEnd) -> LoopResult {
        self.result.end = end;
        self.result.outcome = end.outcome();
        self.result.messages = Arc::unwrap_or_clone(self.transcript);
        self.result
    }
}
