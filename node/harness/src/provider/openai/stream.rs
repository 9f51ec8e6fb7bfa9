//! A response that comes in events.

use std::collections::BTreeMap;

use serde_json::Value;

use super::response::{finish_reason, id_of_call, refuse, usage};
use crate::message::ToolCall;
use crate::model::StreamSink;
use crate::provider::wire::{Events, Wire};
use crate::provider::{ConverseResult, ProviderError};

/// What the dialect ends a stream with.
const DONE: &str = "[DONE]";

/// A call as far as it has come.
#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// Puts the events together, and tells `sink` of each piece. An answer that breaks off is an error.
pub(super) async fn read(
    mut events: Events,
    sink: &dyn StreamSink,
    wire: &Wire,
) -> Result<ConverseResult, ProviderError> {
    let mut result = ConverseResult::default();
    let mut calls = BTreeMap::<u64, Call>::new();
    let mut refusal = String::new();
    while let Some(event) = events.next().await? {
        if event.data.trim() == DONE {
            refuse(&mut result, refusal);
            for call in calls.into_values() {
                sink.call_complete(&call.id, &call.name, &call.arguments);
                result.tool_calls.push(ToolCall::from_text(call.id, call.name, call.arguments));
            }
            return Ok(result);
        }
        let data: Value = serde_json::from_str(&event.data).map_err(|error| wire.unreadable(error))?;
        if data.get("error").is_some_and(|error| !error.is_null()) {
            return Err(wire.refused(200, event.data.as_bytes()));
        }
        let named = |field: &str| data.get(field).and_then(Value::as_str).map(str::to_owned);
        result.response_id = result.response_id.or_else(|| named("id"));
        result.model = named("model").or(result.model);
        result.upstream = named("provider").or(result.upstream);
        result.usage = data.get("usage").and_then(usage).or(result.usage);
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        if let Some(reason) = text("/choices/0/finish_reason") {
            result.finish_reason = finish_reason(Some(reason));
        }
        if let Some(delta) = text("/choices/0/delta/content").filter(|delta| !delta.is_empty()) {
            sink.text(delta);
            result.text.push_str(delta);
        }
        refusal.push_str(text("/choices/0/delta/refusal").unwrap_or_default());
        let pieces = data.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array);
        for piece in pieces.into_iter().flatten() {
            add(&mut calls, piece, sink);
        }
    }
    Err(wire.broken_off())
}

/// Adds a piece to its call. The first piece names it.
fn add(calls: &mut BTreeMap<u64, Call>, piece: &Value, sink: &dyn StreamSink) {
    let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str);
    let index = piece.get("index").and_then(Value::as_u64).unwrap_or_default();
    let call = calls.entry(index).or_insert_with(|| {
        let id = id_of_call(text("/id").map(str::to_owned));
        let name = text("/function/name").unwrap_or_default().to_owned();
        sink.call_started(&id, &name);
        Call { id, name, arguments: String::new() }
    });
    if let Some(fragment) = text("/function/arguments").filter(|fragment| !fragment.is_empty()) {
        sink.call_delta(&call.id, fragment);
        call.arguments.push_str(fragment);
    }
}
