//! The body of a response as a turn. Fields that are not known are passed over; none of those that are has to be there.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::INPUT_TEXT;
use crate::message::{JsonObject, ToolCall};
use crate::provider::wire::Wire;
use crate::provider::{ConverseResult, ProviderError};
use crate::usage::{FinishReason, TokenUsage};

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    model: Option<String>,
    content: Option<Vec<Block>>,
    stop_reason: Option<String>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Block {
    r#type: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
}

pub(super) fn read(body: &[u8], wire: &Wire) -> Result<ConverseResult, ProviderError> {
    let response: Response = serde_json::from_slice(body).map_err(|error| wire.unreadable(error))?;
    if response.error.is_some() {
        return Err(wire.refused(200, body));
    }
    let mut texts = Vec::new();
    let mut tool_calls = Vec::new();
    for block in response.content.unwrap_or_default() {
        match block.r#type.as_str() {
            "text" => texts.extend(block.text),
            "tool_use" => {
                let input = block.input.as_deref().map_or("{}", RawValue::get);
                tool_calls.push(call(
                    block.id.unwrap_or_default(),
                    block.name.unwrap_or_default(),
                    input.to_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok(ConverseResult {
        text: texts.join("\n"),
        tool_calls,
        finish_reason: finish_reason(response.stop_reason.as_deref()),
        usage: response.usage.as_ref().and_then(usage),
        model: response.model,
        response_id: response.id,
        upstream: None,
    })
}

/// A call whose input is an object: as it is, and as it was spelled if that differs. An input that is none is kept as
/// text, so that it is not run.
pub(super) fn call(id: String, name: String, spelled: String) -> ToolCall {
    let Ok(input) = serde_json::from_str::<JsonObject>(&spelled) else {
        return ToolCall::from_text(id, name, spelled);
    };
    let is_same = serde_json::to_string(&input).is_ok_and(|plain| plain == spelled);
    let mut call = ToolCall::new(id, name, input);
    if !is_same {
        call.meta = Some(JsonObject::from_iter([(INPUT_TEXT.to_owned(), Value::String(spelled))]));
    }
    call
}

pub(super) fn finish_reason(stop_reason: Option<&str>) -> FinishReason {
    match stop_reason {
        Some("end_turn" | "stop_sequence") => FinishReason::Stop,
        Some("tool_use") => FinishReason::ToolCalls,
        Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
        Some("refusal") => FinishReason::ContentFilter,
        _ => FinishReason::Unknown,
    }
}

/// Tokens as the API counts them, where its input is what no cache had.
pub(super) fn usage(usage: &Value) -> Option<TokenUsage> {
    let tokens = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let (fresh, output) = (tokens("/input_tokens"), tokens("/output_tokens"));
    let cache_read = tokens("/cache_read_input_tokens");
    let cache_write = tokens("/cache_creation_input_tokens");
    fresh.or(output)?;
    let cached = cache_read.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    let input = fresh.map(|fresh| fresh.saturating_add(cached));
    let details = tokens("/output_tokens_details/reasoning_tokens");
    Some(TokenUsage {
        input,
        output,
        total: input.zip(output).map(|(input, output)| input.saturating_add(output)),
        cache_read,
        cache_write,
        reasoning: details.or_else(|| tokens("/output_tokens_details/thinking_tokens")),
        reported_cost: None,
    })
}
