//! What is said in a conversation between a model, its user and its tools.
//!
//! The same types go to every provider, and a transcript is a list of them that can be stored and used as the seed of
//! the next run. Nothing here checks a transcript: the loop does, before it starts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object.
pub type JsonObject = Map<String, Value>;

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum AgentMessage {
    /// The user speaks.
    User {
        /// What they say.
        text: String,
        /// What goes with it, such as images.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
    },
    /// The model speaks.
    Assistant {
        /// Its prose, possibly empty.
        text: String,
        /// The tools it asks for, in its order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// The tools answer.
    Tool {
        /// One result for each call of the turn before, in the order of the calls.
        results: Vec<ToolResult>,
    },
}

impl AgentMessage {
    /// A user's message of text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), parts: Vec::new() }
    }

    /// A model's message of text.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), tool_calls: Vec::new() }
    }
}

/// Something beside text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its media type: `image/png`.
    pub media_type: String,
    /// Its bytes in base64.
    pub base64: String,
}

/// A model asks for a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's own id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments. Empty when [`arguments_text`](Self::arguments_text) is no JSON object.
    #[serde(default)]
    pub input: JsonObject,
    /// The bytes the model emitted, exactly, where the provider's API hands over bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_text: Option<String>,
    /// What a provider's adapter wants to see again. Rides through the history and reaches no wire by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
}

impl ToolCall {
    /// A call with arguments that are known as an object.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: JsonObject) -> Self {
        Self { id: id.into(), name: name.into(), input, arguments_text: None, meta: None }
    }

    /// A call with arguments as a model emitted them: an empty text is an empty object.
    #[must_use]
    pub fn from_text(id: impl Into<String>, name: impl Into<String>, arguments: String) -> Self {
        let input = parse_arguments(&arguments).unwrap_or_default();
        Self { id: id.into(), name: name.into(), input, arguments_text: Some(arguments), meta: None }
    }

    /// Whether the arguments are whole: no text, or one that is a JSON object.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.arguments_text.as_deref().is_none_or(|text| parse_arguments(text).is_some())
    }
}

/// The object that a text of arguments is, if it is one. An empty text is an empty object.
fn parse_arguments(text: &str) -> Option<JsonObject> {
    if text.trim().is_empty() { Some(JsonObject::new()) } else { serde_json::from_str(text).ok() }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call this answers.
    pub tool_call_id: String,
    /// What the model sees.
    pub content: String,
    /// The same as data, for the application. Reaches no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON schema of its arguments.
    pub input_schema: Value,
}

impl ToolSpec {
    /// A description of a tool.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self { name: name.into(), description: description.into(), input_schema }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_spelling_of_arguments_is_kept() {
        let call = ToolCall::from_text("c", "t", r#"{"b":1,  "a":2.0}"#.into());
        assert_eq!(call.input.len(), 2);
        assert_eq!(call.arguments_text.as_deref(), Some(r#"{"b":1,  "a":2.0}"#));
        assert!(call.is_well_formed());
    }

    #[test]
    fn arguments_that_are_no_object_are_kept_and_marked() {
        for text in [r#"{"a":"#, "[1]", "7", "null"] {
            let call = ToolCall::from_text("c", "t", text.into());
            assert!(call.input.is_empty() && !call.is_well_formed(), "{text}");
            assert_eq!(call.arguments_text.as_deref(), Some(text));
        }
        assert!(ToolCall::from_text("c", "t", String::new()).is_well_formed());
    }
}
