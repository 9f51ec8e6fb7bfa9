//! Answers that come piece by piece.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_harness::log::Log;
use mesh_harness::model::{
    Correlation, InvokeContext, Logging, ModelCaps, ModelError, chat_model, chat_model_with,
    invoke_streaming, with_middleware,
};
use mesh_harness::provider::{ConverseOptions, ConverseResult, ProviderError};
use mesh_harness::usage::{FinishReason, TokenUsage};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::{NAMES, answering, body, provider, provider_with, requests, saying};
use crate::stand_ins::{Heard, locked};

/// Events as a server sends them.
fn events(data: &[Value], last: &str) -> ResponseTemplate {
    let mut text: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    text.push_str(last);
    ResponseTemplate::new(200).set_body_raw(text, "text/event-stream")
}

const DONE: &str = "data: [DONE]\n\n";

fn dialect() -> Vec<Value> {
    let delta = |delta: Value| json!({"id": "r1", "model": "m", "choices": [{"delta": delta, "finish_reason": null}]});
    let call = |id: Value, name: Value, arguments: &str| {
        delta(json!({"tool_calls": [{"index": 0, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]}))
    };
    vec![
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Loo"})),
        delta(json!({"content": "king"})),
        call(json!("c1"), json!("look"), ""),
        call(Value::Null, Value::Null, "{\"q\": "),
        call(Value::Null, Value::Null, "1}"),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
    ]
}

fn anthropic() -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": {"id": "r1", "model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Loo"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "king"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c1", "name": "look", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"q\": "}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}}),
        json!({"type": "message_stop"}),
    ]
}

fn script(name: &str) -> (Vec<Value>, &'static str) {
    if name == "anthropic" { (anthropic(), "") } else { (dialect(), DONE) }
}

async fn hear(
    name: &str,
    answer: ResponseTemplate,
) -> (Result<ConverseResult, ProviderError>, Vec<String>, Value) {
    let server = answering(answer).await;
    let heard = Heard::default();
    let provider = provider_with(name, &server, &[("RUNNER_PROVIDER_MAX_RETRIES", "0")]);
    let answer = provider.converse_streaming(&saying("hello"), &heard, &ConverseOptions::default()).await;
    let body = body(&server).await;
    (answer, heard.all(), body)
}

#[tokio::test]
async fn an_answer_is_heard_in_pieces_and_comes_out_whole() -> anyhow::Result<()> {
    for name in NAMES {
        let (data, last) = script(name);
        let (answer, heard, body) = hear(name, events(&data, last)).await;
        let answer = answer?;
        assert_eq!(body["stream"], true, "{name}");
        assert_eq!(
            (answer.text.as_str(), answer.finish_reason),
            ("Looking", FinishReason::ToolCalls),
            "{name}"
        );
        assert_eq!(answer.tool_calls[0].input.get("q"), Some(&json!(1)));
        assert_eq!((answer.response_id.as_deref(), answer.model.as_deref()), (Some("r1"), Some("m")));
        assert_eq!(answer.usage, Some(TokenUsage::new(3, 4)), "{name}");
        let expected =
            ["text Loo", "text king", "start c1 look", "delta {\"q\": ", "delta 1}", "complete {\"q\": 1}"];
        assert_eq!(heard, expected, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    for name in NAMES {
        let (data, _) = script(name);
        let (answer, ..) = hear(name, events(&data[..4], "")).await;
        assert!(matches!(answer, Err(ProviderError::Connection { .. })), "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_an_answer_is_an_error() {
    for name in NAMES {
        let (mut data, last) = script(name);
        data.insert(3, json!({"type": "error", "error": {"message": "overloaded"}}));
        let (answer, ..) = hear(name, events(&data, last)).await;
        assert!(
            matches!(&answer, Err(ProviderError::Status { message, .. }) if message == "overloaded"),
            "{name}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_model_streams_only_where_its_caller_declares_it() -> anyhow::Result<()> {
    let (data, last) = script("openai");
    let server = answering(events(&data, last)).await;
    let provider = provider("openai", &server);
    let heard = Heard::default();
    let plain = chat_model(provider.clone());
    let refused = invoke_streaming(&*plain, saying("hello"), &heard, &InvokeContext::default()).await;
    assert!(matches!(refused, Err(ModelError::Capability(_))));
    assert_eq!(requests(&server).await.len(), 0);

    let declared =
        chat_model_with(provider, ModelCaps { streaming: true, usage: true, ..ModelCaps::default() });
    let answer = invoke_streaming(&*declared, saying("hello"), &heard, &InvokeContext::default()).await?;
    assert_eq!(answer.value.text, "Looking");
    assert!(answer.usage.is_some());
    Ok(())
}

#[tokio::test]
async fn a_wrapped_model_streams_and_its_middleware_hears_how_it_went() -> anyhow::Result<()> {
    let (data, last) = script("local");
    let server = answering(events(&data, last)).await;
    let caps = ModelCaps { streaming: true, ..ModelCaps::default() };
    let model = with_middleware(
        chat_model_with(provider("local", &server), caps),
        vec![Arc::new(Correlation::default()), Arc::new(Logging)],
    );
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let log = Log::new(move |line| locked(&kept).push(line.to_owned()));
    let heard = Heard::default();
    let context = InvokeContext { log, ..InvokeContext::default() };
    let answer = invoke_streaming(&*model, saying("hello"), &heard, &context).await?;
    assert_eq!((answer.value.text.as_str(), heard.all().len()), ("Looking", 6));
    let lines = locked(&lines).clone();
    assert!(lines.len() == 1 && lines[0].starts_with("chat:local ") && lines[0].contains("ok"), "{lines:?}");
    Ok(())
}

#[tokio::test]
async fn a_stop_ends_an_answer_that_is_not_there_yet() {
    let server = answering(ResponseTemplate::new(200).set_delay(Duration::from_secs(60))).await;
    let provider = provider("anthropic", &server);
    let (heard, options) = (Heard::default(), ConverseOptions::default());
    let request = saying("hello");
    let asking = provider.converse_streaming(&request, &heard, &options);
    let stopping = async {
        while requests(&server).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        options.stop.cancel("enough");
    };
    let (answer, ()) = tokio::join!(asking, stopping);
    assert!(matches!(answer, Err(ProviderError::Stopped { .. })), "{answer:?}");
}
