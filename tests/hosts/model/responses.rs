//! OpenAI's responses.

use serde_json::{Value, json};

use super::{Offered, Reply, event};

/// Tools stand by themselves or in a namespace, which a call has to name.
pub(super) fn tools(body: &Value) -> Vec<Offered> {
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    let tools = body["tools"].as_array().into_iter().flatten();
    tools
        .flat_map(|tool| match tool["tools"].as_array() {
            Some(inner) => {
                let namespace = Some(name(tool));
                inner
                    .iter()
                    .map(|it| Offered { name: name(it), namespace: namespace.clone() })
                    .collect::<Vec<_>>()
            }
            None => vec![Offered { name: name(tool), namespace: None }],
        })
        .collect()
}

pub(super) fn stream(reply: &Reply) -> String {
    let item = match reply {
        Reply::Text(text) => {
            json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
        }
        Reply::Call(tool, input) => {
            let mut call = json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1",
                "name": tool.name, "arguments": input.to_string()});
            if let Some(namespace) = &tool.namespace {
                call["namespace"] = namespace.as_str().into();
            }
            call
        }
    };
    let usage = json!({"input_tokens": 21, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 27});
    let response = |status: &str, output: &[&Value], usage: &Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "scripted",
            "output": output, "usage": usage})
    };
    let events = [
        ("response.created", json!({"response": response("in_progress", &[], &Value::Null)})),
        ("response.output_item.added", json!({"output_index": 0, "item": item})),
        ("response.output_item.done", json!({"output_index": 0, "item": item})),
        ("response.completed", json!({"response": response("completed", &[&item], &usage)})),
    ];
    let typed = events.into_iter().enumerate().map(|(number, (name, mut data))| {
        data["type"] = name.into();
        data["sequence_number"] = number.into();
        event(name, &data)
    });
    typed.collect()
}
