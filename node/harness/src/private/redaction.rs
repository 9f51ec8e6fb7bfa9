//! Takes every text out of an event and leaves its structure.
//!
//! A tool name is kept if the run registered it, which is known from `run.started`; calls are numbered in the order in
//! which they are first seen, because a model makes up their ids.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Bookend, CallName, LoopEvent, RunEvent, RunEventKind};
use crate::message::JsonObject;
use crate::usage::Usage;

/// Stands for the name of a tool that the run did not register.
const UNREGISTERED: &str = "(unregistered)";

/// Stands for an error's words.
const WITHHELD: &str = "(withheld)";

/// What one private run has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Redaction {
    registered: BTreeSet<String>,
    calls: BTreeMap<String, usize>,
}

impl Redaction {
    /// The same event without its texts.
    pub(crate) fn apply(&mut self, event: RunEvent) -> RunEvent {
        let what = match event.what {
            RunEventKind::Bookend(bookend) => RunEventKind::Bookend(self.bookend(bookend)),
            RunEventKind::Loop(event) => RunEventKind::Loop(self.inside(event)),
        };
        RunEvent { seq: event.seq, at: event.at, redacted: true, what }
    }

    /// An event that was redacted, as a line of a log.
    pub(crate) fn line(event: &RunEvent) -> String {
        let name = event.name();
        match &event.what {
            RunEventKind::Bookend(Bookend::Started { max_steps, max_duration_ms, tools }) => {
                format!(
                    "phase={name} max_steps={max_steps} max_duration_ms={max_duration_ms} tools={}",
                    tools.len()
                )
            }
            RunEventKind::Bookend(Bookend::Finished { outcome, steps, .. }) => {
                let steps = steps.map(|steps| format!(" steps={steps}")).unwrap_or_default();
                format!("phase={name} outcome={outcome:?}{steps}")
            }
            RunEventKind::Loop(LoopEvent::ModelTurn { step, tool_calls, finish_reason, .. }) => {
                format!("phase={name} step={step} calls={} finish={finish_reason:?}", tool_calls.len())
            }
            RunEventKind::Loop(LoopEvent::ModelTurnFailed { step, phase, .. }) => {
                format!("phase={name} step={step} in={phase:?}")
            }
            RunEventKind::Loop(LoopEvent::ToolCalled { step, call_id, name: tool, .. }) => {
                format!("phase={name} step={step} call={call_id} tool={tool}")
            }
            RunEventKind::Loop(LoopEvent::ToolSucceeded { step, call_id, name: tool, bytes, .. }) => {
                format!("phase={name} step={step} call={call_id} tool={tool} bytes={bytes}")
            }
            RunEventKind::Loop(LoopEvent::ToolFailed { step, call_id, name: tool, reason, .. }) => {
                format!("phase={name} step={step} call={call_id} tool={tool} reason={reason:?}")
            }
            RunEventKind::Loop(LoopEvent::BudgetExhausted { kind, step }) => {
                format!("phase={name} kind={kind:?} step={step}")
            }
        }
    }

    fn bookend(&mut self, bookend: Bookend) -> Bookend {
        match bookend {
            Bookend::Started { max_steps, max_duration_ms, tools } => {
                self.registered = tools.iter().cloned().collect();
                Bookend::Started { max_steps, max_duration_ms, tools }
            }
            Bookend::Finished { outcome, steps, text: _, error } => {
                Bookend::Finished { outcome, steps, text: None, error: error.map(|_| WITHHELD.into()) }
            }
        }
    }

    fn inside(&mut self, event: LoopEvent) -> LoopEvent {
        match event {
            LoopEvent::ModelTurn { step, text: _, tool_calls, usage, finish_reason, .. } => {
                let calls = tool_calls.into_iter();
                let calls =
                    calls.map(|call| CallName { id: self.call(&call.id), name: self.tool(call.name) });
                LoopEvent::ModelTurn {
                    step,
                    text: String::new(),
                    tool_calls: calls.collect(),
                    usage: usage.map(without_label),
                    finish_reason,
                    model: None,
                    response_id: None,
                    upstream: None,
                }
            }
            LoopEvent::ModelTurnFailed { step, phase, error: _ } => {
                LoopEvent::ModelTurnFailed { step, phase, error: WITHHELD.into() }
            }
            LoopEvent::ToolCalled { step, call_id, name, input: _, claims } => LoopEvent::ToolCalled {
                step,
                call_id: self.call(&call_id),
                name: self.tool(name),
                input: JsonObject::new(),
                claims,
            },
            LoopEvent::ToolSucceeded { step, call_id, name, bytes, claims } => LoopEvent::ToolSucceeded {
                step,
                call_id: self.call(&call_id),
                name: self.tool(name),
                bytes,
                claims,
            },
            LoopEvent::ToolFailed { step, call_id, name, reason, error: _ } => LoopEvent::ToolFailed {
                step,
                call_id: self.call(&call_id),
                name: self.tool(name),
                reason,
                error: WITHHELD.into(),
            },
            LoopEvent::BudgetExhausted { kind, step } => LoopEvent::BudgetExhausted { kind, step },
        }
    }

    fn tool(&self, name: String) -> String {
        if self.registered.contains(&name) { name } else { UNREGISTERED.into() }
    }

    fn call(&mut self, id: &str) -> String {
        let next = self.calls.len() + 1;
        let number = self.calls.entry(id.to_owned()).or_insert(next);
        format!("call-{number}")
    }
}

/// Numbers stay; what they are called is the provider's word.
fn without_label(usage: Usage) -> Usage {
    match usage {
        Usage::Token(tokens) => Usage::Token(tokens),
        Usage::Unit { units, unit: _ } => Usage::Unit { units, unit: None },
    }
}
