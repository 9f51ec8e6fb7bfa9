//! A turn as the body of a request.
//!
//! A message is a text where one will do, else a list of blocks. Marks for the prompt cache go on the system prompt, the
//! last tool, and the last block of the last messages: at most four, which is what the API takes.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::INPUT_TEXT;
use crate::message::{AgentMessage, JsonObject, ToolCall};
use crate::provider::{CacheTtl, ConverseRequest, ToolChoice};

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Content<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    what: What<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum What<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Input<'a>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    /// As the API spelled it.
    Spelled(&'a RawValue),
    Object(&'a JsonObject),
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct Choice<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

/// A mark for the prompt cache.
#[derive(Serialize, Clone, Copy)]
struct Mark {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<CacheTtl>,
}

impl<'a> Body<'a> {
    pub(super) fn of(request: &'a ConverseRequest, model: &'a str, max_tokens: u64, stream: bool) -> Self {
        let cache = request.options.prompt_cache.as_ref();
        let mark = cache.map(|cache| Mark { r#type: "ephemeral", ttl: cache.ttl });
        let mut messages: Vec<Message<'_>> = request.messages.iter().filter_map(message).collect();
        let trailing = usize::from(cache.map_or(0, |cache| cache.trailing_messages.unwrap_or(1)));
        for message in messages.iter_mut().rev().take(trailing) {
            message.content.mark(mark);
        }
        let mut tools: Vec<Tool<'_>> = request.tools.iter().map(tool).collect();
        if let Some(last) = tools.last_mut() {
            last.cache_control = mark;
        }
        let has_tools = !tools.is_empty();
        Self {
            model,
            max_tokens,
            system: system(&request.system, mark),
            messages,
            tools,
            tool_choice: request.options.tool_choice.as_ref().filter(|_| has_tools).map(choice),
            temperature: request.options.temperature,
            stream,
        }
    }
}

impl<'a> Content<'a> {
    /// Marks the last block, if there is a mark.
    fn mark(&mut self, mark: Option<Mark>) {
        if mark.is_none() {
            return;
        }
        if let Self::Text(text) = self {
            *self = Self::Blocks(vec![What::Text { text }.into()]);
        }
        if let Self::Blocks(blocks) = self
            && let Some(last) = blocks.last_mut()
        {
            last.cache_control = mark;
        }
    }
}

impl<'a> From<What<'a>> for Block<'a> {
    fn from(what: What<'a>) -> Self {
        Self { what, cache_control: None }
    }
}

fn system(text: &str, mark: Option<Mark>) -> Option<Content<'_>> {
    let mut system = (!text.is_empty()).then_some(Content::Text(text))?;
    system.mark(mark);
    Some(system)
}

fn tool(spec: &crate::message::ToolSpec) -> Tool<'_> {
    Tool {
        name: &spec.name,
        description: &spec.description,
        input_schema: &spec.input_schema,
        cache_control: None,
    }
}

/// None for a message without content, which the API does not take.
fn message(message: &AgentMessage) -> Option<Message<'_>> {
    match message {
        AgentMessage::User { text, parts } if parts.is_empty() => {
            Some(Message { role: "user", content: Content::Text(text) })
        }
        AgentMessage::User { text, parts } => {
            let images = parts.iter().map(|part| What::Image {
                source: Source { r#type: "base64", media_type: &part.media_type, data: &part.base64 },
            });
            let text = (!text.is_empty()).then_some(What::Text { text });
            let blocks = images.chain(text).map(Block::from).collect();
            Some(Message { role: "user", content: Content::Blocks(blocks) })
        }
        AgentMessage::Assistant { text, tool_calls } => {
            let text = (!text.is_empty()).then_some(What::Text { text });
            let calls = tool_calls.iter().map(|call| What::ToolUse {
                id: &call.id,
                name: &call.name,
                input: input(call),
            });
            let blocks: Vec<Block<'_>> = text.into_iter().chain(calls).map(Block::from).collect();
            (!blocks.is_empty()).then_some(Message { role: "assistant", content: Content::Blocks(blocks) })
        }
        AgentMessage::Tool { results } => {
            let results = results.iter().map(|result| What::ToolResult {
                tool_use_id: &result.tool_call_id,
                content: &result.content,
                is_error: result.is_error,
            });
            Some(Message { role: "user", content: Content::Blocks(results.map(Block::from).collect()) })
        }
    }
}

fn input(call: &ToolCall) -> Input<'_> {
    let spelled = call.meta.as_ref().and_then(|meta| meta.get(INPUT_TEXT)).and_then(Value::as_str);
    let spelled = spelled.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    spelled.map_or(Input::Object(&call.input), Input::Spelled)
}

fn choice(choice: &ToolChoice) -> Choice<'_> {
    let of = |r#type| Choice { r#type, name: None };
    match choice {
        ToolChoice::Auto => of("auto"),
        ToolChoice::Required => of("any"),
        ToolChoice::None => of("none"),
        ToolChoice::Tool { name } => Choice { r#type: "tool", name: Some(name) },
    }
}
