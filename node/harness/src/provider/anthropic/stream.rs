//! A response that comes in events.

use std::collections::BTreeMap;

use serde_json::Value;

use super::response::{call, finish_reason, usage};
use crate::model::StreamSink;
use crate::provider::wire::{Events, Wire};
use crate::provider::{ConverseResult, ProviderError};

/// A block of the answer as far as it has come.
enum Block {
    Text(String),
    Call { id: String, name: String, input: String },
}

/// Puts the events together, and tells `sink` of each piece. An answer that breaks off is an error.
pub(super) async fn read(
    mut events: Events,
    sink: &dyn StreamSink,
    wire: &Wire,
) -> Result<ConverseResult, ProviderError> {
    let mut blocks = BTreeMap::new();
    let mut result = ConverseResult::default();
    let mut counted = Value::Null;
    while let Some(event) = events.next().await? {
        let data: Value = serde_json::from_str(&event.data).map_err(|error| wire.unreadable(error))?;
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let index = data.get("index").and_then(Value::as_u64).unwrap_or_default();
        match text("/type") {
            "message_start" => {
                let named = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                result.response_id = named("/message/id");
                result.model = named("/message/model");
                merge(&mut counted, data.pointer("/message/usage"));
            }
            "content_block_start" => match text("/content_block/type") {
                "text" => {
                    let begins = text("/content_block/text");
                    if !begins.is_empty() {
                        sink.text(begins);
                    }
                    blocks.insert(index, Block::Text(begins.to_owned()));
                }
                "tool_use" => {
                    let (id, name) = (text("/content_block/id"), text("/content_block/name"));
                    sink.call_started(id, name);
                    let (id, name) = (id.to_owned(), name.to_owned());
                    blocks.insert(index, Block::Call { id, name, input: String::new() });
                }
                _ => {}
            },
            "content_block_delta" => match blocks.get_mut(&index) {
                Some(Block::Text(prose)) => {
                    sink.text(text("/delta/text"));
                    prose.push_str(text("/delta/text"));
                }
                Some(Block::Call { id, input, .. }) => {
                    sink.call_delta(id, text("/delta/partial_json"));
                    input.push_str(text("/delta/partial_json"));
                }
                None => {}
            },
            "content_block_stop" => {
                if let Some(Block::Call { id, name, input }) = blocks.get(&index) {
                    sink.call_complete(id, name, input);
                }
            }
            "message_delta" => {
                result.finish_reason =
                    finish_reason(data.pointer("/delta/stop_reason").and_then(Value::as_str));
                merge(&mut counted, data.get("usage"));
            }
            "error" => return Err(wire.refused(200, data.to_string().as_bytes())),
            "message_stop" => {
                result.usage = usage(&counted);
                return Ok(put_together(result, blocks));
            }
            _ => {}
        }
    }
    Err(wire.broken_off())
}

fn put_together(mut result: ConverseResult, blocks: BTreeMap<u64, Block>) -> ConverseResult {
    let mut texts = Vec::new();
    for block in blocks.into_values() {
        match block {
            Block::Text(text) => texts.push(text),
            Block::Call { id, name, input } => {
                let input = if input.is_empty() { "{}".into() } else { input };
                result.tool_calls.push(call(id, name, input));
            }
        }
    }
    result.text = texts.join("\n");
    result
}

/// Later counts replace earlier ones.
fn merge(counted: &mut Value, more: Option<&Value>) {
    let Some(Value::Object(more)) = more else { return };
    match counted {
        Value::Object(counted) => counted.extend(more.clone()),
        other => *other = Value::Object(more.clone()),
    }
}
