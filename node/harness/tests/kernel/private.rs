//! Private runs: only on this host, and nothing of their material in a channel.

use std::error::Error as _;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use mesh_harness::agent::{
    AgentEngine as _, EngineContext, EngineError, EngineResult, EngineSelection, NativeEngine, RunSpec,
};
use mesh_harness::context::{ContextFragment, ContextProvider};
use mesh_harness::event::{LoopEvent, RecordedEvents, RunEvents, record_run_events};
use mesh_harness::host::HostEnv;
use mesh_harness::log::Log;
use mesh_harness::model::BoxError;
use mesh_harness::outcome::Outcome;
use mesh_harness::private::{PrivatePhase, PrivateRunError};
use mesh_harness::provider::ProviderSelection;
use mesh_harness::tool::{SharedTool, ToolError, ToolMetadata, ToolOutput, tool_fn};
use mesh_harness::usage::{FinishReason, Usage};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::stand_ins::{locked, no_host, spec as tool_spec};

/// What must be seen in no channel of a private run.
const CANARY: &str = "canary-7f3a";

/// A server whose model calls everything it can and then answers, or breaks down.
async fn server(ends_well: bool) -> MockServer {
    let server = MockServer::start().await;
    let call = |id: &str, name: &str, arguments: Value| {
        json!({"id": format!("{CANARY}-{id}"), "type": "function",
               "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let calls = [
        call("1", "look", json!({"q": CANARY})),
        call("2", "fails", json!({})),
        call("3", &format!("invented_{CANARY}"), json!({})),
        call("1", "look", json!({})),
    ];
    let asks = json!({"id": CANARY, "model": CANARY, "provider": CANARY,
        "choices": [{"finish_reason": "tool_calls", "message": {"content": CANARY, "tool_calls": calls}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.5}});
    Mock::given(matchers::any())
        .respond_with(ResponseTemplate::new(200).set_body_json(asks))
        .up_to_n_times(1)
        .with_priority(1)
        .mount(&server)
        .await;
    let says = json!({"choices": [{"finish_reason": "stop", "message": {"content": CANARY}}]});
    let last = if ends_well {
        ResponseTemplate::new(200).set_body_json(says)
    } else {
        ResponseTemplate::new(400).set_body_string(CANARY)
    };
    Mock::given(matchers::any()).respond_with(last).with_priority(2).mount(&server).await;
    server
}

struct BrokenContext;

impl ContextProvider for BrokenContext {
    fn name(&self) -> &'static str {
        CANARY
    }

    fn assemble<'a>(&'a self, _: &'a RunSpec) -> BoxFuture<'a, Result<Vec<ContextFragment>, BoxError>> {
        Box::pin(async { Err(CANARY.into()) })
    }
}

fn tools() -> Vec<SharedTool> {
    let meta = ToolMetadata { reversible: Some(true), ..ToolMetadata::default() };
    let look = tool_fn(tool_spec("look"), |_, _| async { Ok(ToolOutput::text(CANARY)) }).with_meta(meta);
    let fails = tool_fn(tool_spec("fails"), |_, _| async { Err::<ToolOutput, _>(ToolError::failed(CANARY)) });
    vec![Arc::new(look), Arc::new(fails)]
}

struct Channels {
    ended: Result<EngineResult, EngineError>,
    events: RecordedEvents,
    lines: Vec<String>,
}

async fn run(server: &MockServer, private: bool) -> Channels {
    let engine = NativeEngine::new(EngineSelection {
        domain_tools: Some(Arc::new(|_| tools())),
        context_providers: vec![Arc::new(BrokenContext)],
        host: HostEnv::fixed([
            ("LOCAL_MODEL_BASE_URL", server.uri()),
            ("RUNNER_PROVIDER_MAX_RETRIES", "0".to_owned()),
        ]),
        ..EngineSelection::default()
    });
    let mut spec = RunSpec { private, provider: ProviderSelection::of("local"), ..RunSpec::default() };
    spec.workflow.prompt = CANARY.into();
    spec.context = CANARY.into();
    let (sink, events) = record_run_events();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let log = Log::new(move |line| locked(&kept).push(line.to_owned()));
    let ended = engine.run(&spec, EngineContext { log, sink: Some(sink), ..EngineContext::default() }).await;
    let lines = locked(&lines).clone();
    Channels { ended, events, lines }
}

fn serialized(events: &RecordedEvents) -> String {
    events.all().iter().map(|event| serde_json::to_string(event).unwrap_or_default() + "\n").collect()
}

#[tokio::test]
async fn nothing_of_the_material_is_in_any_event_or_line() -> anyhow::Result<()> {
    let channels = run(&server(true).await, true).await;
    let result = channels.ended?;
    assert_eq!(
        (result.text.as_str(), result.outcome),
        (CANARY, Some(Outcome::Completed)),
        "its caller gets it"
    );
    let all = format!("{}{}", serialized(&channels.events), channels.lines.join("\n"));
    assert!(!all.contains(CANARY), "{all}");

    let open = run(&server(true).await, false).await;
    let all = serialized(&open.events);
    assert!(all.matches(CANARY).count() > 10, "the same run in the open shows it: {all}");
    assert!(open.lines.iter().any(|line| line.contains(CANARY)));
    Ok(())
}

#[tokio::test]
async fn the_structure_of_a_private_run_is_told() -> anyhow::Result<()> {
    let channels = run(&server(true).await, true).await;
    let names = channels.events.names();
    let open = run(&server(true).await, false).await;
    assert_eq!(names, open.events.names());
    assert_eq!(channels.lines.len(), names.len(), "one line each");
    for (line, name) in channels.lines.iter().zip(&names) {
        assert!(line.starts_with(&format!("phase={name} ")), "{line}");
    }

    let events: Vec<Value> =
        channels.events.all().iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    assert!(events.iter().enumerate().all(|(at, event)| event["seq"] == at && event["redacted"] == true));
    let tools = json!(["look", "fails", "run_code", "read_file", "list_files", "http_fetch"]);
    assert_eq!(events[0]["tools"], tools);
    let turn = &events[1];
    assert_eq!(
        turn["tool_calls"],
        json!([
            {"id": "call-1", "name": "look"},
            {"id": "call-2", "name": "fails"},
            {"id": "call-3", "name": "(unregistered)"},
            {"id": "call-1", "name": "look"},
        ])
    );
    assert_eq!(
        (&turn["usage"]["input"], &turn["usage"]["reported_cost"]["amount"]),
        (&json!(7), &json!(0.5))
    );
    assert_eq!((&turn["finish_reason"], &turn["text"]), (&json!("tool_calls"), &json!("")));
    assert!(["model", "response_id", "upstream"].iter().all(|field| turn.get(field).is_none()));
    let succeeded = &events[3];
    assert_eq!((&succeeded["bytes"], &succeeded["reversible"]), (&json!(CANARY.len()), &json!(true)));
    let last = events.last().expect("an end");
    assert_eq!((&last["outcome"], last.get("text")), (&json!("completed"), None));
    Ok(())
}

#[tokio::test]
async fn an_error_of_a_private_run_says_where_and_nothing_else() {
    let channels = run(&server(false).await, true).await;
    let error = channels.ended.expect_err("the server breaks down");
    let EngineError::Private(error) = error else { panic!("another error") };
    assert_eq!(error, PrivateRunError { phase: PrivatePhase::Loop });
    assert!(error.source().is_none());
    let all = format!("{error} {error:?} {}{}", serialized(&channels.events), channels.lines.join("\n"));
    assert!(!all.contains(CANARY), "{all}");
    assert_eq!(channels.events.names().last(), Some(&"run.finished"));

    let open = run(&server(false).await, false).await;
    assert!(open.ended.expect_err("it breaks down").to_string().contains(CANARY));
}

#[tokio::test]
async fn a_private_run_is_refused_anywhere_else() {
    let with_local =
        HostEnv::fixed([("LOCAL_MODEL_BASE_URL", "http://127.0.0.1:1"), ("OPENAI_API_KEY", "k")]);
    let cases = [
        (Some("mock"), with_local.clone()),
        (Some("openai"), with_local.clone()),
        (None, with_local),
        (Some("local"), no_host()),
    ];
    for (preferred, host) in cases {
        let engine = NativeEngine::new(EngineSelection { host, ..EngineSelection::default() });
        let mut spec = RunSpec { private: true, ..RunSpec::default() };
        spec.provider.preferred = preferred.map(str::to_owned);
        spec.provider.allow_mock_fallback = true;
        let (sink, events) = record_run_events();
        let context = EngineContext { sink: Some(sink), ..EngineContext::default() };
        assert!(engine.supports(&spec).is_err(), "{preferred:?}");
        assert!(matches!(engine.run(&spec, context).await, Err(EngineError::Refused { .. })));
        assert!(events.all().is_empty());
    }
}

#[test]
fn a_name_is_unregistered_until_the_run_says_what_it_has_and_a_units_label_is_withheld() -> anyhow::Result<()>
{
    let (sink, events) = record_run_events();
    let emitter = RunEvents::private(Some(sink), Log::silent());
    emitter.for_loop().emit(LoopEvent::ModelTurn {
        step: 0,
        text: String::new(),
        tool_calls: vec![mesh_harness::event::CallName { id: "x".into(), name: "look".into() }],
        usage: Some(Usage::Unit { units: 2.0, unit: Some(CANARY.into()) }),
        finish_reason: FinishReason::Stop,
        model: None,
        response_id: None,
        upstream: None,
    });
    let turn = serde_json::to_value(&events.all()[0])?;
    assert_eq!(turn["tool_calls"], json!([{"id": "call-1", "name": "(unregistered)"}]));
    assert_eq!(turn["usage"], json!({"kind": "unit", "units": 2.0}));
    Ok(())
}

#[tokio::test]
async fn a_private_run_that_nobody_watches_still_has_its_lines() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let emitter = RunEvents::private(None, Log::new(move |line| locked(&kept).push(line.to_owned())));
    let budget = mesh_harness::event::Budget::Steps;
    emitter.for_loop().emit(LoopEvent::BudgetExhausted { kind: budget, step: 3 });
    assert_eq!(*locked(&lines), ["phase=run.budget_exhausted kind=Steps step=3"]);
}
