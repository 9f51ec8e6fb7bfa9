//! Secrets planted in every input of a run are in no log, event or error, and reach only who is to see them.

use std::sync::{Arc, Mutex};

use mesh_harness::agent::{AgentEngine as _, EngineContext, EngineSelection, Gateway, NativeEngine, RunSpec};
use mesh_harness::event::record_run_events;
use mesh_harness::host::HostEnv;
use mesh_harness::log::Log;
use mesh_harness::provider::ProviderSelection;
use serde_json::json;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::stand_ins::{all_words, answering, locked};

const OWN_KEY: &str = "canary-own-key";
const HOST_KEY: &str = "canary-host-key";
const SECRET: &str = "canary-secret";
const HEADER: &str = "canary-header";
const RUN_TOKEN: &str = "canary-run-token";

const ALL: [&str; 5] = [OWN_KEY, HOST_KEY, SECRET, HEADER, RUN_TOKEN];

fn spec(server: &MockServer, through_gateway: bool) -> RunSpec {
    let mut spec = RunSpec { run_id: "r1".into(), ..RunSpec::default() };
    spec.workflow.prompt = "Do it.".into();
    spec.provider = ProviderSelection::of("anthropic");
    spec.provider.credentials.anthropic = Some(OWN_KEY.into());
    spec.provider.base_urls.insert("anthropic".into(), server.uri());
    spec.secrets.insert("TOKEN".into(), SECRET.into());
    spec.gateway = through_gateway.then(|| Gateway {
        base_url: server.uri(),
        run_token: RUN_TOKEN.into(),
        routes: Default::default(),
    });
    spec
}

/// Runs an agent against a server that repeats whatever it was shown, and returns everything anybody could read.
async fn everything_said(status: u16, through_gateway: bool) -> (String, Vec<String>) {
    let server = MockServer::start().await;
    let echo = move |request: &wiremock::Request| {
        let shown = format!("{:?}", request.headers.get("x-api-key"));
        let shown = shown.replace("Sensitive", "");
        let key = request.headers.get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        if status == 200 {
            let answer = json!({"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"});
            return ResponseTemplate::new(200).set_body_json(answer);
        }
        let words = format!("{shown} the key {key} is wrong");
        ResponseTemplate::new(status).set_body_json(json!({"error": {"message": words}}))
    };
    Mock::given(matchers::any()).respond_with(echo).mount(&server).await;
    let engine = NativeEngine::new(EngineSelection {
        domain_tools: Some(Arc::new(|_| vec![answering("look", "x").0])),
        host: HostEnv::fixed([
            ("ANTHROPIC_API_KEY", HOST_KEY),
            ("OPENAI_API_KEY", HOST_KEY),
            ("RUNNER_PROVIDER_MAX_RETRIES", "0"),
        ]),
        ..EngineSelection::default()
    });
    let spec = spec(&server, through_gateway);
    let lines = Arc::new(Mutex::new(String::new()));
    let kept = lines.clone();
    let log = Log::new(move |line| locked(&kept).push_str(line));
    let (sink, events) = record_run_events();
    let context = EngineContext { log, sink: Some(sink), ..EngineContext::default() };
    let mut said = format!("{spec:?} {engine:?} {context:?} ");
    match engine.run(&spec, context).await {
        Ok(result) => said.push_str(&format!("{result:?}")),
        Err(error) => said.push_str(&all_words(&error)),
    }
    let events = serde_json::to_string(&events.all()).unwrap_or_default();
    said.push_str(&format!("{events} {}", locked(&lines)));
    let requests = server.received_requests().await.unwrap_or_default();
    let sent = requests
        .iter()
        .map(|request| {
            let headers: String = request
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())))
                .collect();
            format!("{headers}{}", String::from_utf8_lossy(&request.body))
        })
        .collect();
    (said, sent)
}

#[tokio::test]
async fn secrets_are_in_no_event_log_or_error_and_reach_only_who_is_to_see_them() {
    for status in [200, 401, 500] {
        for (through_gateway, may_be_sent) in [(false, OWN_KEY), (true, RUN_TOKEN)] {
            let (said, sent) = everything_said(status, through_gateway).await;
            assert!(said.contains("run.finished"), "{said}");
            for canary in ALL {
                assert!(!said.contains(canary), "{canary} was told ({status}): {said}");
            }
            assert_eq!(sent.len(), 1);
            for canary in ALL {
                assert_eq!(sent[0].contains(canary), canary == may_be_sent, "{canary}: {}", sent[0]);
            }
            let (_, body) = sent[0].split_once("\n{").expect("a body");
            assert!(!body.contains("canary"), "no key is in a prompt: {body}");
        }
    }
}
