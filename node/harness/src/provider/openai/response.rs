//! The body of a response as a turn. Servers differ: what is not known is passed over, what is missing is empty.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::ToolCall;
use crate::provider::wire::Wire;
use crate::provider::{ConverseResult, ProviderError};
use crate::usage::{Cost, FinishReason, TokenUsage};

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    model: Option<String>,
    /// Who answered behind OpenRouter.
    provider: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Message>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Content>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
struct ContentPart {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    r#type: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

pub(super) fn read(body: &[u8], wire: &Wire) -> Result<ConverseResult, ProviderError> {
    let response: Response = serde_json::from_slice(body).map_err(|error| wire.unreadable(error))?;
    if response.error.is_some() {
        return Err(wire.refused(200, body));
    }
    let mut result = ConverseResult {
        usage: response.usage.as_ref().and_then(usage),
        model: response.model,
        response_id: response.id,
        upstream: response.provider,
        ..ConverseResult::default()
    };
    let Some(choice) = response.choices.into_iter().flatten().next() else { return Ok(result) };
    result.finish_reason = finish_reason(choice.finish_reason.as_deref());
    let Some(message) = choice.message else { return Ok(result) };
    result.text = match message.content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
        None => String::new(),
    };
    refuse(&mut result, message.refusal.unwrap_or_default());
    let functions = message.tool_calls.into_iter().flatten().filter(|call| {
        let kind = call.r#type.as_deref();
        kind.is_none_or(|kind| kind == "function")
    });
    result.tool_calls = functions.filter_map(call).collect();
    Ok(result)
}

/// A refusal is what the model said instead.
pub(super) fn refuse(result: &mut ConverseResult, refusal: String) {
    if !refusal.is_empty() {
        result.finish_reason = FinishReason::ContentFilter;
        if result.text.is_empty() {
            result.text = refusal;
        }
    }
}

fn call(call: Call) -> Option<ToolCall> {
    let function = call.function?;
    let spelled = function.arguments.as_deref().map_or("null", RawValue::get);
    // A text, as the dialect has it; some servers hand over the object itself.
    let arguments = match serde_json::from_str::<Option<String>>(spelled) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => spelled.to_owned(),
    };
    Some(ToolCall::from_text(id_of_call(call.id), function.name.unwrap_or_default(), arguments))
}

/// Some servers give a call no id, and its result needs one.
pub(super) fn id_of_call(id: Option<String>) -> String {
    id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{}", uuid::Uuid::now_v7().simple()))
}

pub(super) fn finish_reason(reason: Option<&str>) -> FinishReason {
    match reason {
        Some("stop") => FinishReason::Stop,
        Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
        Some("length") => FinishReason::Length,
        Some("content_filter") => FinishReason::ContentFilter,
        _ => FinishReason::Unknown,
    }
}

pub(super) fn usage(usage: &Value) -> Option<TokenUsage> {
    let tokens = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let (input, output) = (tokens("/prompt_tokens"), tokens("/completion_tokens"));
    input.or(output)?;
    Some(TokenUsage {
        input,
        output,
        total: input.zip(output).map(|(input, output)| input.saturating_add(output)),
        cache_read: tokens("/prompt_tokens_details/cached_tokens"),
        cache_write: tokens("/prompt_tokens_details/cache_write_tokens"),
        reasoning: tokens("/completion_tokens_details/reasoning_tokens"),
        reported_cost: usage.get("cost").and_then(Value::as_f64).and_then(Cost::usd),
    })
}
