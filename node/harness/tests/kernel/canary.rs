//! Secrets planted in every input of a run are in no log, event or error, and reach only who is to see them.

use std::sync::{Arc, Mutex};

use mesh_harness::agent::{AgentEngine as _, EngineContext, EngineSelection, Gateway, NativeEngine, RunSpec};
use mesh_harness::connector::{ConnectorAuth, ConnectorConfig};
use mesh_harness::event::record_run_events;
use mesh_harness::host::HostEnv;
use mesh_harness::log::Log;
use mesh_harness::provider::ProviderSelection;
use serde_json::json;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::stand_ins::{all_words, answering, failing, locked};

const OWN_KEY: &str = "canary-own-key";
const HOST_KEY: &str = "canary-host-key";
const SECRET: &str = "canary-secret";
const RUN_TOKEN: &str = "canary-run-token";

const ALL: [&str; 4] = [OWN_KEY, HOST_KEY, SECRET, RUN_TOKEN];

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

const PROMPT: &str = "canary-prompt";
const CONTEXT: &str = "canary-context";
const RESULT: &str = "canary-tool-result";
const FAILURE: &str = "canary-tool-error";
const VARIABLE: &str = "canary-connector-variable";
const CONNECTOR: &str = "canary-connector-token";

/// A server of tools in a few lines of shell, which tells its environment and answers with a secret.
const SERVER: &str = r#"
env > connector; echo "started with $MCP_AUTH_TOKEN" >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"canary-tool-result"}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A model that calls everything once, and then breaks down with what it was told or answers.
async fn calls_everything(breaks: bool) -> MockServer {
    let call = |id: &str, name: &str, input: serde_json::Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let code = "env > code; tr '\\0' '\\n' < /proc/$PPID/cmdline > parent; tr '\\0' '\\n' < /proc/self/cmdline > own";
    let content = [
        call("1", "run_code", json!({"command": code})),
        call("2", "docs__look", json!({})),
        call("3", "fails", json!({})),
    ];
    let server = MockServer::start().await;
    let first =
        ResponseTemplate::new(200).set_body_json(json!({"content": content, "stop_reason": "tool_use"}));
    Mock::given(matchers::any()).respond_with(first).up_to_n_times(1).with_priority(1).mount(&server).await;
    let last = move |request: &wiremock::Request| {
        let said = String::from_utf8_lossy(&request.body).into_owned();
        if breaks {
            // Its own words are the server's, but the key that it was shown must not be among them.
            let key = request.headers.get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
            return ResponseTemplate::new(400)
                .set_body_json(json!({"error": {"message": format!("bad {key}")}}));
        }
        assert!(said.contains(RESULT) && said.contains(FAILURE), "the model is told: {said}");
        let answer = json!({"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"});
        ResponseTemplate::new(200).set_body_json(answer)
    };
    Mock::given(matchers::any()).respond_with(last).with_priority(2).mount(&server).await;
    server
}

#[tokio::test]
async fn secrets_of_every_input_of_a_run_reach_only_who_is_to_see_them() -> anyhow::Result<()> {
    for breaks in [false, true] {
        let workdir = tempfile::tempdir()?;
        let server = calls_everything(breaks).await;
        let engine = NativeEngine::new(EngineSelection {
            domain_tools: Some(Arc::new(|_| vec![failing("fails", FAILURE)])),
            host: HostEnv::fixed([
                ("PATH", std::env::var("PATH")?),
                ("ANTHROPIC_API_KEY", HOST_KEY.into()),
                ("GITHUB_TOKEN", HOST_KEY.into()),
                ("RUNNER_PROVIDER_MAX_RETRIES", "0".into()),
            ]),
            ..EngineSelection::default()
        });
        let mut spec = RunSpec { workdir: workdir.path().to_owned(), ..spec(&server, false) };
        spec.workflow.prompt = PROMPT.into();
        spec.context = CONTEXT.into();
        spec.connectors = vec![ConnectorConfig {
            name: "docs".into(),
            transport: "stdio".into(),
            command: Some("/bin/sh".into()),
            args: vec!["-c".into(), format!("cd '{}'; {SERVER}", workdir.path().display())],
            env: [("VARIABLE".to_owned(), VARIABLE.into())].into(),
            auth: ConnectorAuth::Bearer(CONNECTOR.into()),
            ..ConnectorConfig::default()
        }];
        let lines = Arc::new(Mutex::new(String::new()));
        let kept = lines.clone();
        let log = Log::new(move |line| locked(&kept).push_str(line));
        let (sink, events) = record_run_events();
        let ended =
            engine.run(&spec, EngineContext { log, sink: Some(sink), ..EngineContext::default() }).await;
        let ended = match &ended {
            Ok(result) => format!("{result:?}"),
            Err(error) => all_words(error),
        };
        assert_eq!(ended.contains("bad [redacted]"), breaks, "{ended}");

        // What a tool says of its failure is in the events, and what the model is told is not.
        let events = serde_json::to_string(&events.all())?;
        assert!(events.contains("tool.succeeded") && events.contains(FAILURE), "{events}");
        let told = format!("{ended} {} {}", locked(&lines), events.replace(FAILURE, ""));
        assert!(!told.contains("canary"), "{told}");

        let file = |name: &str| std::fs::read_to_string(workdir.path().join(name)).unwrap_or_default();
        let holds = |text: &str| -> Vec<&str> {
            let all = [OWN_KEY, HOST_KEY, SECRET, PROMPT, CONTEXT, RESULT, FAILURE, VARIABLE, CONNECTOR];
            all.into_iter().filter(|canary| text.contains(canary)).collect()
        };
        assert_eq!(holds(&file("code")), [SECRET], "the run's own secrets are for its code");
        assert_eq!(holds(&file("connector")), [VARIABLE, CONNECTOR], "a server's are for the server");
        assert!(!file("own").is_empty() && holds(&format!("{}{}", file("own"), file("parent"))).is_empty());
        let mut names: Vec<_> =
            std::fs::read_dir(workdir.path())?.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["code", "connector", "own", "parent"], "nothing else was written");

        let requests = server.received_requests().await.unwrap_or_default();
        let bodies: Vec<String> =
            requests.iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
        assert_eq!(holds(&bodies[0]), [PROMPT, CONTEXT]);
        assert_eq!(holds(&bodies[1]), [PROMPT, CONTEXT, RESULT, FAILURE]);
    }
    Ok(())
}
