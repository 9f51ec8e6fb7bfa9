//! The chat completions dialect and its three speakers.

use std::sync::Arc;

use mesh_harness::host::HostEnv;
use mesh_harness::message::{AgentMessage, Part, ToolCall};
use mesh_harness::provider::{
    Attribution, ConverseRequest, ConverseResult, ProviderSelection, select_provider,
};
use mesh_harness::usage::{Cost, FinishReason, TokenUsage};
use serde_json::{Value, json};

use super::anthropic::history;
use super::{KEY, answering_json, ask, body, provider, requests, saying};

async fn read(name: &str, answer: Value) -> anyhow::Result<ConverseResult> {
    let server = answering_json(answer).await;
    Ok(ask(&*provider(name, &server), &saying("hello")).await?)
}

fn message(message: Value, finish_reason: Value) -> Value {
    json!({"choices": [{"message": message, "finish_reason": finish_reason}]})
}

fn calls(calls: Value) -> Value {
    message(json!({"content": null, "tool_calls": calls}), json!("tool_calls"))
}

#[tokio::test]
async fn a_history_is_sent_as_the_dialect_wants_it() -> anyhow::Result<()> {
    for (name, cap) in
        [("openai", "max_completion_tokens"), ("openrouter", "max_tokens"), ("local", "max_tokens")]
    {
        let server = answering_json(super::minimal(name)).await;
        ask(&*provider(name, &server), &history()).await?;
        let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
        let mut expected = json!({
            "model": "model-1",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "find both"},
                {"role": "assistant", "content": "looking",
                 "tool_calls": [call("c1", r#"{"q":"a"}"#), call("c2", r#"{"q":"b"}"#)]},
                {"role": "tool", "tool_call_id": "c1", "content": "found"},
                {"role": "tool", "tool_call_id": "c2", "content": "lost"},
            ],
            "tools": [{"type": "function", "function":
                {"name": "look", "description": "does look", "parameters": {"type": "object"}}}],
        });
        expected[cap] = json!(4096);
        assert_eq!(body(&server).await, expected, "{name}");

        let sent = &requests(&server).await[0];
        assert_eq!(sent.url.path(), "/base/chat/completions");
        let key = sent.headers.get("authorization").map(|value| value.to_str()).transpose()?;
        assert_eq!(key, (name != "local").then_some(format!("Bearer {KEY}")).as_deref());
        assert!(sent.headers.get("http-referer").is_none() && sent.headers.get("x-title").is_none());
    }
    Ok(())
}

#[tokio::test]
async fn without_tools_and_system_their_fields_are_left_out_and_images_are_parts() {
    let parts = vec![Part { media_type: "image/png".into(), base64: "AAAA".into() }];
    let messages = vec![AgentMessage::User { text: "what is this?".into(), parts }];
    let request = ConverseRequest { messages: Arc::new(messages), ..ConverseRequest::default() };
    let body = super::sent("openai", &request).await;
    assert!(body.get("tools").is_none());
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let content = json!([image, {"type": "text", "text": "what is this?"}]);
    assert_eq!(body["messages"], json!([{"role": "user", "content": content}]));
}

#[tokio::test]
async fn arguments_are_replayed_byte_for_byte() -> anyhow::Result<()> {
    let spelled = r#"{"b":1,  "a":2.0}"#;
    let function = json!({"name": "look", "arguments": spelled});
    let server = answering_json(calls(json!([{"id": "c1", "type": "function", "function": function}]))).await;
    let provider = provider("openai", &server);
    let first = ask(&*provider, &saying("hello")).await?;
    assert_eq!(first.tool_calls[0].arguments_text.as_deref(), Some(spelled));

    let assistant = AgentMessage::Assistant { text: String::new(), tool_calls: first.tool_calls };
    let request = ConverseRequest { messages: Arc::new(vec![assistant]), ..ConverseRequest::default() };
    ask(&*provider, &request).await?;
    let second: Value = serde_json::from_slice(&requests(&server).await[1].body)?;
    let replayed = &second["messages"][0];
    assert_eq!(replayed["tool_calls"][0]["function"]["arguments"], spelled);
    assert_eq!(replayed["content"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn arguments_may_be_empty_torn_or_an_object() -> anyhow::Result<()> {
    let call = |arguments: Value| json!({"id": "c", "type": "function", "function": {"name": "t", "arguments": arguments}});
    let answer = read(
        "local",
        calls(json!([call(json!("")), call(json!("{\"q\":\"ba")), call(json!({"q": 1})), call(Value::Null)])),
    )
    .await?;
    let [empty, torn, object, null] = &answer.tool_calls[..] else { panic!("four calls") };
    assert!(empty.is_well_formed() && empty.input.is_empty());
    assert!(!torn.is_well_formed() && torn.input.is_empty());
    assert_eq!(torn.arguments_text.as_deref(), Some("{\"q\":\"ba"));
    assert_eq!(object.input.get("q"), Some(&json!(1)));
    assert!(null.is_well_formed() && null.input.is_empty());
    Ok(())
}

#[tokio::test]
async fn calls_that_are_no_functions_are_passed_over_and_every_call_has_an_id() -> anyhow::Result<()> {
    let answer = read(
        "local",
        calls(json!([
            {"id": "x", "type": "custom", "custom": {"name": "t", "input": ""}},
            {"function": {"name": "t", "arguments": "{}"}},
            {"id": "", "type": "function", "function": {"name": "t", "arguments": "{}"}},
        ])),
    )
    .await?;
    let ids: Vec<&str> = answer.tool_calls.iter().map(|call: &ToolCall| call.id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| id.starts_with("call_")) && ids[0] != ids[1]);
    Ok(())
}

#[tokio::test]
async fn usage_is_read_with_its_parts() -> anyhow::Result<()> {
    let answer = read(
        "openai",
        json!({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 99,
               "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 7},
               "completion_tokens_details": {"reasoning_tokens": 2}}}),
    )
    .await?;
    let expected = TokenUsage {
        cache_read: Some(40),
        cache_write: Some(7),
        reasoning: Some(2),
        ..TokenUsage::new(50, 5)
    };
    assert_eq!(answer.usage, Some(expected));
    assert_eq!((answer.text.as_str(), answer.finish_reason), ("", FinishReason::Unknown));
    Ok(())
}

#[tokio::test]
async fn every_reason_to_finish_has_its_place() -> anyhow::Result<()> {
    let reasons = [
        (json!("stop"), FinishReason::Stop),
        (json!("tool_calls"), FinishReason::ToolCalls),
        (json!("function_call"), FinishReason::ToolCalls),
        (json!("length"), FinishReason::Length),
        (json!("content_filter"), FinishReason::ContentFilter),
        (json!("error"), FinishReason::Unknown),
        (Value::Null, FinishReason::Unknown),
    ];
    for (reason, expected) in reasons {
        let answer = read("openai", message(json!({"content": "hi"}), reason.clone())).await?;
        assert_eq!(answer.finish_reason, expected, "{reason}");
    }
    let refusal = json!({"content": null, "refusal": "I will not"});
    let answer = read("openai", message(refusal, json!("stop"))).await?;
    assert_eq!((answer.text.as_str(), answer.finish_reason), ("I will not", FinishReason::ContentFilter));
    Ok(())
}

#[tokio::test]
async fn openrouter_tells_who_answered_and_what_it_cost() -> anyhow::Result<()> {
    let answer = read(
        "openrouter",
        json!({"id": "gen-1", "model": "openai/gpt-4.1", "provider": "Azure",
               "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
               "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.0012}}),
    )
    .await?;
    assert_eq!(answer.model.as_deref(), Some("openai/gpt-4.1"), "another than was asked for");
    assert_eq!((answer.response_id.as_deref(), answer.upstream.as_deref()), (Some("gen-1"), Some("Azure")));
    assert_eq!(answer.usage.and_then(|usage| usage.reported_cost), Cost::usd(0.0012));
    Ok(())
}

#[tokio::test]
async fn openrouter_is_told_where_calls_come_from_only_if_the_caller_says() -> anyhow::Result<()> {
    let server = answering_json(super::minimal("openrouter")).await;
    let mut selection = ProviderSelection::of("openrouter");
    selection.credentials.openrouter = Some(KEY.into());
    selection.base_urls.insert("openrouter".into(), server.uri());
    selection.attribution = Attribution { referer: Some("https://app.example".into()), title: None };
    let titled = Attribution { referer: None, title: Some("App".into()) };
    selection.model = Some("anthropic/claude-sonnet-4.5".into());
    let provider = select_provider(&selection, &HostEnv::fixed::<String, String>([]))?;
    ask(&*provider, &saying("hello")).await?;
    let sent = &requests(&server).await[0];
    let referer = sent.headers.get("http-referer").map(|value| value.to_str()).transpose()?;
    assert_eq!((referer, sent.headers.get("x-title")), (Some("https://app.example"), None));
    assert_eq!(body(&server).await["model"], "anthropic/claude-sonnet-4.5");

    selection.attribution = titled;
    let provider = select_provider(&selection, &HostEnv::fixed::<String, String>([]))?;
    ask(&*provider, &saying("hello")).await?;
    let sent = &requests(&server).await[1];
    assert_eq!(sent.headers.get("x-title").map(|value| value.to_str()).transpose()?, Some("App"));
    assert!(sent.headers.get("http-referer").is_none());
    Ok(())
}
