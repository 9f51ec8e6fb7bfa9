//! The tool calls of one turn: which may run, running them one after the other, and their results.
//!
//! Every call gets exactly one result, in the order of the calls. A failure is a result too: the model is told, and may
//! do better.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::{LoopContext, RunError, tool_result_limit};
use crate::event::{LoopEvent, ToolClaims, ToolFailure};
use crate::message::{ToolCall, ToolResult};
use crate::stop::{Stop, StopReason};
use crate::tool::{Dispatch, SharedTool, ToolContext, ToolError, ToolOutput};
use crate::usage::FinishReason;

/// The tools of a run by name.
pub(super) struct Surface {
    tools: HashMap<String, SharedTool>,
}

impl Surface {
    /// # Errors
    /// When two tools have one name, or the caller would have to execute one.
    pub(super) fn of(tools: &[SharedTool]) -> Result<Self, RunError> {
        let mut by_name = HashMap::new();
        for tool in tools {
            let name = tool.spec().name.clone();
            if tool.meta().dispatch == Some(Dispatch::External) {
                return Err(RunError::ExternalTool { name });
            }
            if by_name.insert(name.clone(), tool.clone()).is_some() {
                return Err(RunError::DuplicateTool { name });
            }
        }
        Ok(Self { tools: by_name })
    }
}

/// The calls of one turn.
pub(super) struct Calls<'a> {
    pub(super) step: u32,
    /// Why the turn ended.
    pub(super) turn_ended: FinishReason,
    pub(super) context: &'a LoopContext,
    pub(super) stop: &'a Stop,
}

/// Why a call has no answer.
struct Failed {
    reason: ToolFailure,
    error: String,
}

impl Failed {
    fn new(reason: ToolFailure, error: impl Into<String>) -> Self {
        Self { reason, error: error.into() }
    }
}

impl Calls<'_> {
    /// Runs the calls, and says which was the final answer, if one was.
    pub(super) async fn run(
        &self,
        surface: &Surface,
        calls: &[ToolCall],
    ) -> (Vec<ToolResult>, Option<ToolCall>) {
        let mut results = Vec::with_capacity(calls.len());
        let mut terminal = None;
        for (at, call) in calls.iter().enumerate() {
            if self.stop.is_fired() {
                results.extend(self.not_run(calls.get(at..).unwrap_or_default()));
                break;
            }
            let is_last = at + 1 == calls.len();
            let result = match self.one(surface, call, is_last).await {
                Ok((output, is_final)) => {
                    if is_final && terminal.is_none() {
                        terminal = Some(call.clone());
                    }
                    self.result(call, output)
                }
                Err(failed) => {
                    let Failed { reason, error } = failed;
                    let output = ToolOutput { content: error.clone(), structured: None, is_error: true };
                    self.failed(call, reason, error);
                    self.result(call, output)
                }
            };
            results.push(result);
        }
        (results, terminal)
    }

    /// Results for calls that were never run because the run was stopped.
    pub(super) fn not_run(&self, calls: &[ToolCall]) -> Vec<ToolResult> {
        let why = self.stop.reason().map(StopReason::to_string).unwrap_or_default();
        let content = format!("not run, because the run was stopped: {why}");
        let output = ToolOutput { content, structured: None, is_error: true };
        calls.iter().map(|call| self.result(call, output.clone())).collect()
    }

    /// Runs one call. Says whether its answer is the final one.
    async fn one(
        &self,
        surface: &Surface,
        call: &ToolCall,
        is_last: bool,
    ) -> Result<(ToolOutput, bool), Failed> {
        let tool = surface.tools.get(&call.name);
        let is_final = tool.is_some_and(|tool| tool.meta().dispatch == Some(Dispatch::Terminal));
        if let Some(why) = self.cut_off(call, is_final, is_last) {
            return Err(Failed::new(ToolFailure::Truncated, why));
        }
        let Some(tool) = tool else {
            let error = format!("there is no tool {:?}; use one that was offered", call.name);
            return Err(Failed::new(ToolFailure::UnknownTool, error));
        };
        let claims = ToolClaims::from(tool.meta());
        self.context.events.emit(LoopEvent::ToolCalled {
            step: self.step,
            call_id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            claims: claims.clone(),
        });
        let output = self.execute(tool, call).await?;
        if output.is_error {
            // It answered, and the answer is that it failed: the model sees the content as it is.
            self.failed(call, ToolFailure::Threw, output.content.clone());
            return Ok((output, false));
        }
        self.context.events.emit(LoopEvent::ToolSucceeded {
            step: self.step,
            call_id: call.id.clone(),
            name: call.name.clone(),
            bytes: u64::try_from(output.content.len()).unwrap_or(u64::MAX),
            claims,
        });
        Ok((output, is_final))
    }

    async fn execute(&self, tool: &SharedTool, call: &ToolCall) -> Result<ToolOutput, Failed> {
        let context = ToolContext {
            stop: self.stop.clone(),
            call_id: call.id.clone(),
            run_id: self.context.run_id.clone(),
        };
        // A tool may panic before its future is there, or in it.
        let work =
            AssertUnwindSafe(async { tool.execute(call.input.clone(), &context).await }).catch_unwind();
        match self.stop.or_give_up(work).await {
            Ok(Ok(Ok(output))) => Ok(output),
            Ok(Ok(Err(error))) if self.stop.is_fired() && error.is_stop() => {
                Err(Failed::new(ToolFailure::Aborted, sentence(&error)))
            }
            Ok(Ok(Err(error))) => Err(Failed::new(ToolFailure::Threw, sentence(&error))),
            Ok(Err(_panic)) => Err(Failed::new(ToolFailure::Threw, "the tool broke down")),
            Err(reason) => Err(Failed::new(ToolFailure::Aborted, format!("the tool was stopped: {reason}"))),
        }
    }

    /// Why a call must not run because it is not whole.
    fn cut_off(&self, call: &ToolCall, is_final: bool, is_last: bool) -> Option<&'static str> {
        if !call.is_well_formed() {
            return Some("not run: its arguments are not a whole JSON object; call the tool again");
        }
        if self.turn_ended != FinishReason::Length {
            return None;
        }
        if is_final {
            return Some("not run: the answer was cut off by the token limit; give a shorter one");
        }
        // Without the bytes of the arguments there is no telling whether the last call is whole.
        let may_be_cut = is_last && call.arguments_text.is_none();
        may_be_cut.then_some("not run: it was cut off by the token limit; call the tool again")
    }

    fn failed(&self, call: &ToolCall, reason: ToolFailure, error: String) {
        self.context.events.emit(LoopEvent::ToolFailed {
            step: self.step,
            call_id: call.id.clone(),
            name: call.name.clone(),
            reason,
            error,
        });
    }

    fn result(&self, call: &ToolCall, output: ToolOutput) -> ToolResult {
        ToolResult {
            tool_call_id: call.id.clone(),
            content: cut(output.content, tool_result_limit(&self.context.host)),
            structured: output.structured,
            is_error: output.is_error,
        }
    }
}

/// An error with what caused it, for the model.
fn sentence(error: &ToolError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// `text` cut to `limit` bytes between two characters, with a note of how much is gone.
fn cut(mut text: String, limit: usize) -> String {
    let bytes = text.len();
    if bytes <= limit {
        return text;
    }
    text.truncate(text.floor_char_boundary(limit));
    let gone = bytes - text.len();
    text.push_str(&format!("\n[{gone} bytes were cut off]"));
    text
}
