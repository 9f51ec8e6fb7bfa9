//! Anthropic's Messages API.

use std::sync::Arc;

use mesh_harness::message::{AgentMessage, Part, ToolResult};
use mesh_harness::provider::ConverseRequest;
use mesh_harness::usage::{FinishReason, TokenUsage};
use serde_json::{Value, json};

use super::{KEY, answering_json, ask, body, provider, requests, saying};
use crate::stand_ins::{call, spec};

/// A question, two calls, and their results, one of which is an error.
pub(super) fn history() -> ConverseRequest {
    let calls = vec![call("c1", "look", json!({"q": "a"})), call("c2", "look", json!({"q": "b"}))];
    let result = |id: &str, content: &str, is_error| ToolResult {
        tool_call_id: id.into(),
        content: content.into(),
        structured: Some(json!({"not": "sent"})),
        is_error,
    };
    ConverseRequest {
        system: "be brief".into(),
        messages: Arc::new(vec![
            AgentMessage::user("find both"),
            AgentMessage::Assistant { text: "looking".into(), tool_calls: calls },
            AgentMessage::Tool { results: vec![result("c1", "found", false), result("c2", "lost", true)] },
        ]),
        tools: Arc::new(vec![spec("look")]),
        ..ConverseRequest::default()
    }
}

#[tokio::test]
async fn a_history_is_sent_as_anthropic_wants_it() -> anyhow::Result<()> {
    let server = answering_json(super::minimal("anthropic")).await;
    ask(&*provider("anthropic", &server), &history()).await?;
    assert_eq!(
        body(&server).await,
        json!({
            "model": "model-1",
            "max_tokens": 4096,
            "system": "be brief",
            "messages": [
                {"role": "user", "content": "find both"},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "looking"},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "look", "input": {"q": "b"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "found"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "lost", "is_error": true},
                ]},
            ],
            "tools": [{"name": "look", "description": "does look", "input_schema": {"type": "object"}}],
        })
    );
    let sent = &requests(&server).await[0];
    assert_eq!(sent.url.path(), "/base/v1/messages");
    let header = |name: &str| sent.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!((header("x-api-key"), header("anthropic-version")), (Some(KEY), Some("2023-06-01")));
    assert_eq!(header("authorization"), None);
    Ok(())
}

#[tokio::test]
async fn a_message_without_content_is_not_sent_and_an_image_is() -> anyhow::Result<()> {
    let parts = vec![Part { media_type: "image/png".into(), base64: "AAAA".into() }];
    let messages = vec![
        AgentMessage::user("hello"),
        AgentMessage::assistant(""),
        AgentMessage::User { text: "what is this?".into(), parts },
    ];
    let request = ConverseRequest { messages: Arc::new(messages), ..ConverseRequest::default() };
    let body = super::sent("anthropic", &request).await;
    assert!(body.get("system").is_none() && body.get("tools").is_none());
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    let content = json!([image, {"type": "text", "text": "what is this?"}]);
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": "hello"}, {"role": "user", "content": content}])
    );
    Ok(())
}

async fn read(answer: Value) -> anyhow::Result<mesh_harness::provider::ConverseResult> {
    let server = answering_json(answer).await;
    Ok(ask(&*provider("anthropic", &server), &saying("hello")).await?)
}

#[tokio::test]
async fn an_answer_is_read_with_who_gave_it() -> anyhow::Result<()> {
    let answer = read(json!({
        "id": "msg_1", "model": "model-1-20260101", "type": "message", "something": {"new": true},
        "content": [
            {"type": "text", "text": "one"},
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "two"},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "a"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100,
                  "cache_creation_input_tokens": 20},
    }))
    .await?;
    assert_eq!((answer.text.as_str(), answer.finish_reason), ("one\ntwo", FinishReason::ToolCalls));
    assert_eq!(answer.tool_calls, [call("c1", "look", json!({"q": "a"}))]);
    assert_eq!(answer.tool_calls[0].arguments_text, None);
    assert_eq!(answer.model.as_deref(), Some("model-1-20260101"));
    assert_eq!((answer.response_id.as_deref(), answer.upstream), (Some("msg_1"), None));
    let usage = TokenUsage { cache_read: Some(100), cache_write: Some(20), ..TokenUsage::new(130, 5) };
    assert_eq!(answer.usage, Some(usage));
    Ok(())
}

#[tokio::test]
async fn usage_that_is_not_reported_stays_unknown() -> anyhow::Result<()> {
    let with = |usage: Value| json!({"content": [], "usage": usage});
    let plain = read(with(json!({"input_tokens": 12, "output_tokens": 3}))).await?;
    assert_eq!(plain.usage, Some(TokenUsage::new(12, 3)));
    assert_eq!(read(json!({"content": []})).await?.usage, None);
    let reasoning =
        json!({"input_tokens": 1, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4}});
    assert_eq!(read(with(reasoning)).await?.usage.and_then(|usage| usage.reasoning), Some(4));
    Ok(())
}

#[tokio::test]
async fn every_reason_to_stop_has_its_place() -> anyhow::Result<()> {
    let reasons = [
        (json!("end_turn"), FinishReason::Stop),
        (json!("stop_sequence"), FinishReason::Stop),
        (json!("tool_use"), FinishReason::ToolCalls),
        (json!("max_tokens"), FinishReason::Length),
        (json!("model_context_window_exceeded"), FinishReason::Length),
        (json!("refusal"), FinishReason::ContentFilter),
        (json!("pause_turn"), FinishReason::Unknown),
        (json!("something_new"), FinishReason::Unknown),
        (Value::Null, FinishReason::Unknown),
    ];
    for (reason, expected) in reasons {
        let answer = read(json!({"content": [], "stop_reason": reason})).await?;
        assert_eq!(answer.finish_reason, expected, "{reason}");
    }
    Ok(())
}

#[tokio::test]
async fn numbers_keep_their_digits_when_a_call_is_replayed() -> anyhow::Result<()> {
    let spelled = r#"{"z": 12345678901234567890123, "a": 1.10}"#;
    let answer = format!(
        r#"{{"content": [{{"type": "tool_use", "id": "c1", "name": "look", "input": {spelled}}}], "stop_reason": "tool_use"}}"#
    );
    let server = super::answering(wiremock::ResponseTemplate::new(200).set_body_string(answer)).await;
    let provider = provider("anthropic", &server);
    let first = ask(&*provider, &saying("hello")).await?;
    assert!(first.tool_calls[0].is_well_formed() && first.tool_calls[0].input.len() == 2);

    let assistant = AgentMessage::Assistant { text: String::new(), tool_calls: first.tool_calls };
    let request = ConverseRequest { messages: Arc::new(vec![assistant]), ..ConverseRequest::default() };
    ask(&*provider, &request).await?;
    let second = String::from_utf8(requests(&server).await[1].body.clone())?;
    assert!(second.contains(spelled), "{second}");
    assert!(!second.contains("anthropic_input") && !second.contains("meta"), "{second}");
    Ok(())
}

#[tokio::test]
async fn an_input_that_is_no_object_is_a_call_that_is_not_run() -> anyhow::Result<()> {
    let answer =
        read(json!({"content": [{"type": "tool_use", "id": "c", "name": "t", "input": [1]}]})).await?;
    assert!(answer.tool_calls[0].input.is_empty() && !answer.tool_calls[0].is_well_formed());
    Ok(())
}
