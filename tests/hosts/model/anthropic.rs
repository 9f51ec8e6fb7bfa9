//! Anthropic's messages.

use serde_json::{Value, json};

use super::{Offered, Reply, event, named};

pub(super) fn tools(body: &Value) -> Vec<Offered> {
    named(&body["tools"], |tool| &tool["name"])
}

pub(super) fn stream(reply: &Reply) -> String {
    let usage = json!({"input_tokens": 11, "output_tokens": 5});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    let (block, delta, reason) = match reply {
        Reply::Text(text) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}), "end_turn")
        }
        Reply::Call(tool, input) => (
            json!({"type": "tool_use", "id": "toolu_1", "name": tool.name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            "tool_use",
        ),
    };
    let events = [
        ("message_start", json!({"message": message})),
        ("content_block_start", json!({"index": 0, "content_block": block})),
        ("content_block_delta", json!({"index": 0, "delta": delta})),
        ("content_block_stop", json!({"index": 0})),
        ("message_delta", json!({"delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage})),
        ("message_stop", json!({})),
    ];
    let typed = events.into_iter().map(|(name, mut data)| {
        data["type"] = name.into();
        event(name, &data)
    });
    typed.collect()
}
