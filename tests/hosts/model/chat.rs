//! OpenAI's chat completions, which many other servers speak.

use serde_json::{Value, json};

use super::{Offered, Reply, event, named};

pub(super) fn tools(body: &Value) -> Vec<Offered> {
    named(&body["tools"], |tool| &tool["function"]["name"])
}

pub(super) fn stream(reply: &Reply) -> String {
    let (delta, reason) = match reply {
        Reply::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Reply::Call(tool, input) => {
            let function = json!({"name": tool.name, "arguments": input.to_string()});
            let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
    };
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
            "choices": choices, "usage": usage});
        event("", &chunk)
    };
    let usage = json!({"prompt_tokens": 31, "completion_tokens": 7, "total_tokens": 38});
    [
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}]), Value::Null),
        chunk(json!([]), usage),
        "data: [DONE]\n\n".into(),
    ]
    .concat()
}
