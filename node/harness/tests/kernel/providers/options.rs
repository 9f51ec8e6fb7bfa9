//! Options: each lands in its field, or is refused before anything is sent.

use std::sync::Arc;

use mesh_harness::agent_loop::{AgentRun, run_conversation};
use mesh_harness::message::AgentMessage;
use mesh_harness::provider::{
    CacheTtl, ConverseRequest, OpenRouterOptions, PromptCache, ProviderError, ProviderOptions, ToolChoice,
};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use super::anthropic::history;
use super::{NAMES, answering_json, ask, minimal, provider, provider_with, requests, sent, with_options};
use crate::stand_ins::{answering, no_host, spec};

fn cached(cache: PromptCache) -> ProviderOptions {
    ProviderOptions { prompt_cache: Some(cache), ..ProviderOptions::default() }
}

/// The history, asked with these options.
fn history_with(options: ProviderOptions) -> ConverseRequest {
    ConverseRequest { options: Arc::new(options), ..history() }
}

#[tokio::test]
async fn the_cap_on_tokens_has_each_providers_own_name() -> anyhow::Result<()> {
    for name in NAMES {
        let field = if name == "openai" { "max_completion_tokens" } else { "max_tokens" };
        let asked = ProviderOptions { max_tokens: Some(77), ..ProviderOptions::default() };
        assert_eq!(sent(name, &with_options(asked)).await[field], 77, "{name}");

        for (setting, expected) in [("1024.9", 1024), ("-5", 4096), ("0", 4096), ("many", 4096)] {
            let server = answering_json(minimal(name)).await;
            let provider = provider_with(name, &server, &[("RUNNER_MAX_TOKENS", setting)]);
            ask(&*provider, &with_options(ProviderOptions::default())).await?;
            assert_eq!(super::body(&server).await[field], expected, "{name} {setting}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_temperature_is_passed_on() {
    for name in NAMES {
        let options = ProviderOptions { temperature: Some(0.25), ..ProviderOptions::default() };
        assert_eq!(sent(name, &with_options(options)).await["temperature"], 0.25, "{name}");
    }
}

#[tokio::test]
async fn the_choice_of_tools_is_spelled_for_each_and_left_out_without_tools() {
    let named = ToolChoice::Tool { name: "look".into() };
    let choices = [
        (ToolChoice::Auto, json!({"type": "auto"}), json!("auto")),
        (ToolChoice::Required, json!({"type": "any"}), json!("required")),
        (ToolChoice::None, json!({"type": "none"}), json!("none")),
        (
            named,
            json!({"type": "tool", "name": "look"}),
            json!({"type": "function", "function": {"name": "look"}}),
        ),
    ];
    for (choice, anthropic, dialect) in choices {
        for name in NAMES {
            let options = ProviderOptions { tool_choice: Some(choice.clone()), ..ProviderOptions::default() };
            let expected = if name == "anthropic" { &anthropic } else { &dialect };
            let mut request = with_options(options);
            assert!(sent(name, &request).await.get("tool_choice").is_none(), "no tools, no choice");
            request.tools = Arc::new(vec![spec("look")]);
            assert_eq!(sent(name, &request).await["tool_choice"], *expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_cached_prompt_is_marked_for_anthropic_in_three_places() {
    let body = sent("anthropic", &history_with(cached(PromptCache::default()))).await;
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["system"], json!([{"type": "text", "text": "be brief", "cache_control": mark}]));
    assert_eq!(body["tools"][0]["cache_control"], mark);
    let results = &body["messages"][2]["content"];
    assert_eq!(results[0].get("cache_control"), None);
    assert_eq!(results[1]["cache_control"], mark, "the last result of the last message");
    assert_eq!(body.to_string().matches("cache_control").count(), 3);

    let cache = PromptCache { ttl: Some(CacheTtl::OneHour), trailing_messages: Some(2), key: None };
    let body = sent("anthropic", &history_with(cached(cache))).await;
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(body["messages"][1]["content"][2]["cache_control"], mark);
    assert_eq!(body["messages"][2]["content"][1]["cache_control"], mark);
    assert_eq!(body.to_string().matches("cache_control").count(), 4, "as many as the API takes");

    let cache = PromptCache { trailing_messages: Some(0), ..PromptCache::default() };
    let mut request = history_with(cached(cache));
    request.system = "".into();
    let body = sent("anthropic", &request).await;
    assert_eq!(body.to_string().matches("cache_control").count(), 1, "only the tool");
    assert!(body.get("system").is_none());
}

#[tokio::test]
async fn a_cached_prompt_is_marked_for_openrouter_on_the_prompt_and_the_last_messages() {
    let cache = PromptCache { ttl: Some(CacheTtl::FiveMinutes), trailing_messages: Some(2), key: None };
    let body = sent("openrouter", &history_with(cached(cache))).await;
    let part = |text: &str| json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "5m"}}]);
    let contents: Vec<&Value> =
        body["messages"].as_array().into_iter().flatten().map(|message| &message["content"]).collect();
    assert_eq!(
        contents,
        [&part("be brief"), &json!("find both"), &part("looking"), &json!("found"), &part("lost")]
    );
    assert!(body["tools"][0].get("cache_control").is_none());
}

#[tokio::test]
async fn a_prompt_cached_as_usual_is_marked_on_the_prompt_and_the_last_message() {
    let body = sent("openrouter", &history_with(cached(PromptCache::default()))).await;
    let part = |text: &str| json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
    let contents: Vec<&Value> =
        body["messages"].as_array().into_iter().flatten().map(|message| &message["content"]).collect();
    assert_eq!(
        contents,
        [&part("be brief"), &json!("find both"), &json!("looking"), &json!("found"), &part("lost")]
    );
}

#[tokio::test]
async fn what_somebody_noted_on_a_call_is_never_sent() {
    for name in NAMES {
        let mut request = history();
        for message in Arc::make_mut(&mut request.messages) {
            if let AgentMessage::Assistant { tool_calls, .. } = message {
                for call in tool_calls {
                    call.meta = Some(crate::stand_ins::object(json!({"signature": "canary"})));
                }
            }
        }
        let body = sent(name, &request).await.to_string();
        assert!(body.contains("looking") && !body.contains("canary"), "{name}: {body}");
    }
}

#[tokio::test]
async fn where_caching_is_automatic_nothing_is_marked_and_a_key_is_openais() {
    for name in ["openai", "local"] {
        let plain = sent(name, &history()).await;
        let cache = PromptCache { ttl: Some(CacheTtl::OneHour), trailing_messages: Some(2), key: None };
        assert_eq!(sent(name, &history_with(cached(cache))).await, plain, "{name}");

        let keyed = PromptCache { key: Some("tenant-1".into()), ..PromptCache::default() };
        let body = sent(name, &history_with(cached(keyed))).await;
        let expected = (name == "openai").then(|| json!("tenant-1"));
        assert_eq!(body.get("prompt_cache_key"), expected.as_ref(), "{name}");
    }
}

#[tokio::test]
async fn the_form_of_the_answer_is_the_dialects() {
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"b": 1, "a": 2}}});
    for name in ["openai", "openrouter", "local"] {
        let options = ProviderOptions { response_format: Some(format.clone()), ..ProviderOptions::default() };
        assert_eq!(sent(name, &with_options(options)).await["response_format"], format);
    }
}

#[tokio::test]
async fn what_only_openrouter_knows_goes_into_its_body_as_it_is() {
    let openrouter = OpenRouterOptions {
        models: Some(vec!["a".into(), "b".into()]),
        provider: Some(json!({"data_collection": "deny", "zdr": true})),
        usage: Some(json!({"include": true})),
    };
    let options = ProviderOptions { openrouter: Some(openrouter), ..ProviderOptions::default() };
    let body = sent("openrouter", &with_options(options)).await;
    assert_eq!(body["models"], json!(["a", "b"]));
    assert_eq!(body["provider"], json!({"data_collection": "deny", "zdr": true}));
    assert_eq!(body["usage"], json!({"include": true}));
}

#[tokio::test]
async fn what_a_provider_cannot_honour_is_refused_before_anything_is_sent() {
    let format = || ProviderOptions { response_format: Some(json!({})), ..ProviderOptions::default() };
    let openrouter =
        || ProviderOptions { openrouter: Some(Default::default()), ..ProviderOptions::default() };
    let key = || cached(PromptCache { key: Some("k".into()), ..PromptCache::default() });
    let trailing = || cached(PromptCache { trailing_messages: Some(3), ..PromptCache::default() });
    let hot = || ProviderOptions { temperature: Some(f64::NAN), ..ProviderOptions::default() };
    let mut refused = vec![
        ("anthropic", "response_format", format()),
        ("anthropic", "openrouter", openrouter()),
        ("openai", "openrouter", openrouter()),
        ("local", "openrouter", openrouter()),
        ("anthropic", "prompt_cache.key", key()),
        ("openrouter", "prompt_cache.key", key()),
    ];
    for name in NAMES {
        refused.push((name, "prompt_cache.trailing_messages", trailing()));
        refused.push((name, "temperature", hot()));
    }
    for (name, option, options) in refused {
        let server = answering_json(minimal(name)).await;
        let error = ask(&*provider(name, &server), &with_options(options)).await.expect_err(option);
        let ProviderError::Options(error) = error else { panic!("{name} {option}: {error}") };
        assert_eq!((error.provider.as_str(), error.option), (name, option));
        assert_eq!(requests(&server).await.len(), 0, "{name} {option}");
    }
}

#[test]
fn options_are_read_as_callers_write_them_and_nothing_else_is() -> anyhow::Result<()> {
    let options: ProviderOptions = serde_json::from_value(json!({
        "max_tokens": 1024, "temperature": 0.2, "tool_choice": {"name": "reply"},
        "prompt_cache": {"ttl": "1h"}, "openrouter": {"models": ["a"]}, "max_retries": 0,
    }))?;
    assert_eq!(options.tool_choice, Some(ToolChoice::Tool { name: "reply".into() }));
    assert_eq!(options.prompt_cache.and_then(|cache| cache.ttl), Some(CacheTtl::OneHour));
    for wrong in
        [json!({"prompt_cache": {"ttl": "2h"}}), json!({"tool_choice": "maybe"}), json!({"max_token": 1})]
    {
        assert!(serde_json::from_value::<ProviderOptions>(wrong.clone()).is_err(), "{wrong}");
    }
    Ok(())
}

/// A server whose model asks for a tool until it is offered none.
async fn tireless() -> MockServer {
    let server = MockServer::start().await;
    let asks = json!({"choices": [{"finish_reason": "tool_calls", "message": {"content": "", "tool_calls":
        [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}}]});
    Mock::given(matchers::body_string_contains("\"tools\""))
        .respond_with(ResponseTemplate::new(200).set_body_json(asks))
        .mount(&server)
        .await;
    Mock::given(matchers::any())
        .respond_with(ResponseTemplate::new(200).set_body_json(minimal("openai")))
        .with_priority(9)
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn options_ride_on_every_call_and_the_summary_offers_no_tools() -> anyhow::Result<()> {
    let server = tireless().await;
    let mut run = AgentRun::new(provider("openai", &server)).with_tools([answering("look", "x").0]);
    run.host = no_host();
    run.options = ProviderOptions {
        temperature: Some(0.5),
        tool_choice: Some(ToolChoice::Required),
        ..ProviderOptions::default()
    };
    let result = run_conversation(run.with_max_steps(1), vec![AgentMessage::user("go")]).await?;
    assert_eq!(result.text, "hi");

    let bodies: Vec<Value> = requests(&server)
        .await
        .iter()
        .map(|request| serde_json::from_slice(&request.body))
        .collect::<Result<_, _>>()?;
    let [first, summary] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!((&first["temperature"], &first["tool_choice"]), (&json!(0.5), &json!("required")));
    assert_eq!(summary["temperature"], 0.5);
    assert!(summary.get("tools").is_none() && summary.get("tool_choice").is_none());
    Ok(())
}
