//! Gemini's content.

use serde_json::{Value, json};

use super::{Offered, Reply, event, named};

pub(super) fn tools(body: &Value) -> Vec<Offered> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.flat_map(|tool| named(&tool["functionDeclarations"], |declared| &declared["name"])).collect()
}

pub(super) fn stream(reply: &Reply) -> String {
    let part = match reply {
        Reply::Text(text) => json!({"text": text}),
        Reply::Call(tool, input) => {
            json!({"functionCall": {"id": "call_1", "name": tool.name, "args": input}})
        }
    };
    let candidate =
        json!({"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0});
    let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13});
    let content = json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted", "responseId": "r"});
    event("", &content)
}
