//! A turn as the body of a request.
//!
//! Arguments are replayed as the model spelled them, byte for byte. A message is a text; only what is marked for a cache
//! of OpenRouter's upstreams, and what has images, is a list of parts.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::Flavor;
use crate::message::{AgentMessage, Part, ToolCall, ToolSpec};
use crate::provider::{ConverseRequest, PromptCache, ToolChoice};

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    /// Its current name, which reasoning models insist on.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Nothing,
    Text(&'a str),
    Parts(Vec<Value>),
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Declared<'a>,
}

#[derive(Serialize)]
struct Declared<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Body<'a> {
    pub(super) fn of(
        request: &'a ConverseRequest,
        flavor: &Flavor,
        model: &'a str,
        max_tokens: u64,
        stream: bool,
    ) -> Self {
        let options = &request.options;
        let is_openai = *flavor == Flavor::OpenAi;
        let cache = options.prompt_cache.as_ref();
        let openrouter = options.openrouter.as_ref();
        let has_tools = !request.tools.is_empty();
        Self {
            model,
            messages: messages(request, cache.filter(|_| flavor.is_openrouter())),
            tools: request.tools.iter().map(tool).collect(),
            tool_choice: options.tool_choice.as_ref().filter(|_| has_tools).map(choice),
            temperature: options.temperature,
            max_completion_tokens: is_openai.then_some(max_tokens),
            max_tokens: (!is_openai).then_some(max_tokens),
            prompt_cache_key: cache.and_then(|cache| cache.key.as_deref()).filter(|_| is_openai),
            response_format: options.response_format.as_ref(),
            models: openrouter.and_then(|only| only.models.as_deref()),
            provider: openrouter.and_then(|only| only.provider.as_ref()),
            usage: openrouter.and_then(|only| only.usage.as_ref()),
            stream: stream.then_some(true),
            stream_options: stream.then(|| json!({"include_usage": true})),
        }
    }
}

/// The system prompt and the conversation, marked for a cache if there is one.
fn messages<'a>(request: &'a ConverseRequest, cache: Option<&PromptCache>) -> Vec<Message<'a>> {
    let mark = cache.map(|cache| match cache.ttl {
        Some(ttl) => json!({"type": "ephemeral", "ttl": ttl}),
        None => json!({"type": "ephemeral"}),
    });
    let trailing = usize::from(cache.map_or(0, |cache| cache.trailing_messages.unwrap_or(1)));
    let first_marked = request.messages.len().saturating_sub(trailing);

    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(Message::of("system", Content::Text(&request.system)));
        mark_last(&mut messages, mark.as_ref());
    }
    for (at, message) in request.messages.iter().enumerate() {
        push(&mut messages, message);
        if at >= first_marked {
            mark_last(&mut messages, mark.as_ref());
        }
    }
    messages
}

/// Marks the last message, if there is a mark and anything to mark.
fn mark_last(messages: &mut [Message<'_>], mark: Option<&Value>) {
    let (Some(mark), Some(last)) = (mark, messages.last_mut()) else { return };
    if let Content::Text(text) = last.content {
        last.content = Content::Parts(vec![json!({"type": "text", "text": text})]);
    }
    if let Content::Parts(parts) = &mut last.content
        && let Some(Value::Object(part)) = parts.last_mut()
    {
        part.insert("cache_control".into(), mark.clone());
    }
}

impl<'a> Message<'a> {
    fn of(role: &'static str, content: Content<'a>) -> Self {
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None }
    }
}

fn push<'a>(messages: &mut Vec<Message<'a>>, message: &'a AgentMessage) {
    match message {
        AgentMessage::User { text, parts } if parts.is_empty() => {
            messages.push(Message::of("user", Content::Text(text)));
        }
        AgentMessage::User { text, parts } => {
            let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
            let parts = parts.iter().map(image).chain(text).collect();
            messages.push(Message::of("user", Content::Parts(parts)));
        }
        AgentMessage::Assistant { text, tool_calls } => {
            let content = if text.is_empty() && !tool_calls.is_empty() {
                Content::Nothing
            } else {
                Content::Text(text)
            };
            let tool_calls = tool_calls.iter().map(call).collect();
            messages.push(Message { tool_calls, ..Message::of("assistant", content) });
        }
        AgentMessage::Tool { results } => messages.extend(results.iter().map(|result| Message {
            tool_call_id: Some(&result.tool_call_id),
            ..Message::of("tool", Content::Text(&result.content))
        })),
    }
}

fn image(part: &Part) -> Value {
    let url = format!("data:{};base64,{}", part.media_type, part.base64);
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn call(call: &ToolCall) -> Call<'_> {
    let arguments = match &call.arguments_text {
        Some(spelled) => Cow::Borrowed(spelled.as_str()),
        None => Cow::Owned(serde_json::to_string(&call.input).unwrap_or_else(|_| "{}".into())),
    };
    Call { id: &call.id, r#type: "function", function: Function { name: &call.name, arguments } }
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let function =
        Declared { name: &spec.name, description: &spec.description, parameters: &spec.input_schema };
    Tool { r#type: "function", function }
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Required => json!("required"),
        ToolChoice::None => json!("none"),
        ToolChoice::Tool { name } => json!({"type": "function", "function": {"name": name}}),
    }
}
