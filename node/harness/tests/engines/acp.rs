//! Engines behind ACP, with a small agent that misbehaves on request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_harness::agent::{AcpAgentSpec, AcpEngine, EngineError, Gateway, SharedEngine};
use mesh_harness::connector::ConnectorConfig;
use mesh_harness::environment::{EnvironmentFile, Instructions, RunEnvironment};
use mesh_harness::outcome::Outcome;
use serde_json::Value;

use crate::stage::Stage;

/// An agent in a few lines: `prompt(id, params)` is what a test has it do, `say` sends words, `end` ends the turn.
const AGENT: &str = r#"
import json, os, sys, time
TOLD = os.environ["TOLD"]
def out(message): sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def tell(name, text): open(TOLD + "/" + name, "a").write(text + "\n")
def update(**update): out({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
def say(text): update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})
def end(id, reason): out({"jsonrpc": "2.0", "id": id, "result": {"stopReason": reason}})
def read():
    line = sys.stdin.readline()
    if not line: sys.exit(0)
    return json.loads(line)
CAPS = {"http": True, "sse": False}
def new(id, params): out({"jsonrpc": "2.0", "id": id, "result": {"sessionId": "s"}})
exec(os.environ["BEHAVIOUR"])
tell("pid", str(os.getpid()))
while True:
    message = read(); method = message.get("method"); id = message.get("id"); params = message.get("params")
    tell("heard", json.dumps(message))
    if method == "initialize":
        out({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": CAPS}}})
    elif method == "session/new": new(id, params)
    elif method == "session/prompt": prompt(id, params)
"#;

/// Installs the agent under a name, with a behaviour in Python.
fn install(stage: &Stage, name: &str, behaviour: &str) {
    let script = stage.path("agent.py");
    std::fs::write(&script, AGENT).unwrap();
    std::fs::write(stage.path("behaviour.py"), behaviour).unwrap();
    let start = format!(
        "env > $TOLD/env; printf '%s\\n' \"$@\" > $TOLD/args; pwd > $TOLD/cwd
        export TOLD BEHAVIOUR=\"$(cat '{}')\"; exec python3 '{}'",
        stage.path("behaviour.py").display(),
        script.display()
    );
    stage.program(name, &start);
}

/// An agent of one's own that behaves like this.
fn own(stage: &Stage, behaviour: &str) -> SharedEngine {
    install(stage, "own", behaviour);
    Arc::new(AcpEngine::new(
        AcpAgentSpec::new("own", "RUNNER_ENABLE_OWN", "own", ["serve"]),
        stage.parts(&[]),
    ))
}

fn heard(stage: &Stage, method: &str) -> Option<Value> {
    let told = stage.told("heard");
    let messages = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    messages.into_iter().find(|message| message["method"] == method)
}

#[tokio::test]
async fn words_are_the_answer_and_thoughts_and_tools_are_for_the_log() {
    let stage = Stage::new();
    let behaviour = r#"
def prompt(id, params):
    update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})
    say("the "); update(sessionUpdate="tool_call", toolCallId="1", title="Read a file")
    update(sessionUpdate="a_kind_nobody_knows", whatever=[1]); update(sessionUpdate=7); update()
    say("answer é"); end(id, "end_turn")
"#;
    let engine = own(&stage, behaviour);
    let result = stage.run(&engine, &stage.spec()).await.unwrap();
    assert_eq!((result.text.as_str(), result.outcome), ("the answer é", Some(Outcome::Completed)));
    assert!(
        stage.lines().contains(&"own thinks: hm".to_owned())
            && stage.lines().contains(&"own uses Read a file".to_owned())
    );
    assert_eq!(stage.told("args"), "serve\n");
    let hello = heard(&stage, "initialize").unwrap();
    let capabilities = &hello["params"]["clientCapabilities"];
    assert_ne!(capabilities["fs"]["readTextFile"], true, "{hello}");
    assert_ne!(capabilities["terminal"], true, "{hello}");
    let session = heard(&stage, "session/new").unwrap();
    assert_eq!(session["params"]["cwd"], stage.path("work").to_str().unwrap());
    stage.is_gone("pid").await;
}

#[tokio::test]
async fn reasons_why_a_turn_ends_become_outcomes() {
    let cases = [
        ("end_turn", Outcome::Completed),
        ("max_tokens", Outcome::Completed),
        ("max_turn_requests", Outcome::StepsExhausted),
        ("refusal", Outcome::Failed),
        ("cancelled", Outcome::Canceled),
    ];
    for (reason, outcome) in cases {
        let stage = Stage::new();
        let engine = own(&stage, &format!("def prompt(id, params): end(id, {reason:?})"));
        assert_eq!(stage.run(&engine, &stage.spec()).await.unwrap().outcome, Some(outcome), "{reason}");
    }
}

#[tokio::test]
async fn a_permission_is_given_once_and_only_for_always_if_there_is_no_other() {
    for (options, chosen) in [
        (r#"[["always", "allow_always"], ["no", "reject_once"], ["once", "allow_once"]]"#, "once"),
        (r#"[["no", "reject_once"], ["always", "allow_always"]]"#, "always"),
        (r#"[["no", "reject_once"]]"#, "cancelled"),
    ] {
        let stage = Stage::new();
        let behaviour = format!(
            r#"
def prompt(id, params):
    options = [{{"optionId": o, "name": o, "kind": k}} for o, k in {options}]
    out({{"jsonrpc": "2.0", "id": 77, "method": "session/request_permission", "params": {{"sessionId": "s",
        "toolCall": {{"toolCallId": "1"}}, "options": options}}}})
    outcome = read()["result"]["outcome"]
    out({{"jsonrpc": "2.0", "id": 78, "method": "fs/read_text_file", "params": {{}}}})
    say(outcome.get("optionId", outcome["outcome"]) + " " + str(read()["error"]["code"])); end(id, "end_turn")
"#
        );
        let engine = own(&stage, &behaviour);
        let result = stage.run(&engine, &stage.spec()).await.unwrap();
        assert_eq!(result.text, format!("{chosen} -32601"));
    }
}

#[tokio::test]
async fn noise_and_lines_without_end_are_passed_over() {
    let stage = Stage::new();
    let behaviour = r#"
def prompt(id, params):
    sys.stdout.write("garbage\n{}\n[]\nnull\n\n\x00\n{\"jsonrpc\": \"2.0\"}\n"); say("a")
    sys.stdout.write("x" * (17 * 1024 * 1024) + "\n"); say("b"); end(id, "end_turn")
"#;
    let engine = own(&stage, behaviour);
    let result = stage.run(&engine, &stage.spec()).await.unwrap();
    assert_eq!((result.text.as_str(), result.outcome), ("ab", Some(Outcome::Completed)));
}

#[tokio::test]
async fn what_an_agent_does_wrong_is_a_failure_and_not_its_words() {
    let refuses = r#"
def new(id, params): out({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "log in first"}})
"#;
    let dies = "def prompt(id, params): say('so far'); sys.stderr.write('last words'); sys.exit(3)";
    for (behaviour, expected, logged) in
        [(refuses, "session/new", "log in first"), (dies, "ended in the middle", "last words")]
    {
        let stage = Stage::new();
        let engine = own(&stage, behaviour);
        let error = stage.run(&engine, &stage.spec()).await.unwrap_err();
        assert!(matches!(&error, EngineError::Agent { message } if message.contains(expected)), "{error:?}");
        assert!(
            !error.to_string().contains(logged) && stage.lines().join("\n").contains(logged),
            "{:?}",
            stage.lines()
        );
        stage.is_gone("pid").await;
    }
    let stage = Stage::new();
    let spec = AcpAgentSpec::new("own", "RUNNER_ENABLE_OWN", "no-such-program", [""; 0]);
    let engine: SharedEngine = Arc::new(AcpEngine::new(spec, stage.parts(&[])));
    assert!(matches!(stage.run(&engine, &stage.spec()).await, Err(EngineError::Setup { .. })));
}

#[tokio::test]
async fn a_stop_is_told_to_the_agent_and_its_last_words_are_kept() {
    let stage = Stage::new();
    let behaviour = r#"
def prompt(id, params):
    say("so far"); tell("ready", ""); message = read(); tell("cancel", message["method"]); say(", and now"); end(id, "cancelled")
"#;
    let (engine, spec) = (own(&stage, behaviour), stage.spec());
    let stopping = async {
        stage.tells("ready").await;
        stage.stop.cancel("enough");
    };
    let (result, ()) = tokio::join!(stage.run(&engine, &spec), stopping);
    let result = result.unwrap();
    assert_eq!(result.outcome, Some(Outcome::Canceled));
    assert!(result.text.starts_with("so far"));
    assert_eq!(stage.told("cancel").trim(), "session/cancel");
    stage.is_gone("pid").await;
}

#[tokio::test]
async fn an_agent_that_ignores_a_stop_is_killed_with_all_it_started() {
    let stage = Stage::new();
    let behaviour = r#"
import signal, subprocess
def prompt(id, params):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"]); tell("pid", str(child.pid)); tell("ready", ""); time.sleep(600)
"#;
    let (engine, spec) = (own(&stage, behaviour), stage.spec());
    let stopping = async {
        stage.tells("ready").await;
        stage.stop.cancel("enough");
        Instant::now()
    };
    let (result, stopped) = tokio::join!(stage.run(&engine, &spec), stopping);
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled));
    assert!(stopped.elapsed() < Duration::from_secs(30), "{:?}", stopped.elapsed());
    stage.is_gone("pid").await;
}

/// Asks and does not read, until it cannot write any more or has been listened to for much too long.
const FLOODS: &str = r#"
import select
def flood():
    for sent in range(50000):
        if not select.select([], [1], [], 2)[1]: return sent
        os.write(1, b'{"jsonrpc":"2.0","id":%d,"method":"x/y","params":{}}\n' % sent)
    return -1
"#;

#[tokio::test]
async fn an_agent_that_does_not_read_its_answers_is_listened_to_again_when_it_does() {
    let stage = Stage::new();
    let reads = r#"
def prompt(id, params):
    sent = flood(); tell("sent", str(sent))
    for number in range(sent): assert read()["id"] == number
    say("all of them"); end(id, "end_turn")
"#;
    let result = stage.run(&own(&stage, &format!("{FLOODS}{reads}")), &stage.spec()).await.unwrap();
    assert_eq!((result.text.as_str(), result.outcome), ("all of them", Some(Outcome::Completed)));
    let sent: i32 = stage.told("sent").trim().parse().unwrap();
    assert!(sent > 0, "it was listened to without end");
}

#[tokio::test]
async fn an_agent_that_does_not_read_its_answers_can_be_stopped() {
    let stage = Stage::new();
    let (engine, spec) = (
        own(
            &stage,
            &format!("{FLOODS}\ndef prompt(id, params): flood(); tell('ready', ''); time.sleep(600)"),
        ),
        stage.spec(),
    );
    let stopping = async {
        stage.tells("ready").await;
        stage.stop.cancel("enough");
    };
    let (result, ()) = tokio::join!(stage.run(&engine, &spec), stopping);
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled));
    stage.is_gone("pid").await;
}

#[tokio::test]
async fn an_agent_that_does_not_read_its_task_can_be_stopped() {
    let stage = Stage::new();
    let engine = own(
        &stage,
        "def new(id, params):\n out({'jsonrpc': '2.0', 'id': id, 'result': {'sessionId': 's'}}); tell('ready', ''); time.sleep(600)",
    );
    let mut spec = stage.spec();
    spec.workflow.prompt = "more than a pipe holds ".repeat(50_000);
    let stopping = async {
        stage.tells("ready").await;
        stage.stop.cancel("enough");
    };
    let (result, ()) = tokio::join!(stage.run(&engine, &spec), stopping);
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled));
}

#[tokio::test]
async fn an_agent_that_takes_too_long_has_timed_out() {
    let stage = Stage::new();
    let engine = own(&stage, "def prompt(id, params): time.sleep(600)");
    let mut spec = stage.spec();
    spec.limits.max_duration_ms = Some(500);
    assert_eq!(stage.run(&engine, &spec).await.unwrap().outcome, Some(Outcome::TimedOut));
}

#[tokio::test]
async fn an_agent_is_handed_servers_it_can_take_and_fails_without() {
    let stage = Stage::new();
    let engine = own(&stage, "def prompt(id, params): end(id, 'end_turn')");
    let connector = |transport: &str| ConnectorConfig {
        name: "docs".into(),
        transport: transport.into(),
        endpoint: Some("http://127.0.0.1:1/".into()),
        command: Some("server".into()),
        ..ConnectorConfig::default()
    };
    let mut spec = stage.spec();
    spec.connectors =
        vec![connector("streamable_http"), ConnectorConfig { name: "files".into(), ..connector("stdio") }];
    stage.run(&engine, &spec).await.unwrap();
    let servers = heard(&stage, "session/new").unwrap()["params"]["mcpServers"].clone();
    assert_eq!(servers[0]["type"], "http");
    assert_eq!(
        (servers[1]["name"].as_str(), servers[1]["command"].as_str()),
        (Some("files"), Some("server"))
    );
    spec.connectors = vec![connector("sse")];
    let error = stage.run(&engine, &spec).await.unwrap_err();
    assert!(error.to_string().contains("takes no server of the kind"), "{error}");
}

#[tokio::test]
async fn an_agent_that_never_asks_for_its_capabilities_fails() {
    let stage = Stage::new();
    install(&stage, "own", "def prompt(id, params): say('done'); end(id, 'end_turn')");
    let spec = AcpAgentSpec::new("own", "RUNNER_ENABLE_OWN", "own", ["serve"]);
    let engine: SharedEngine = Arc::new(AcpEngine::new(spec, stage.parts_with_note(&[])));
    let error = stage.run(&engine, &stage.spec()).await.unwrap_err();
    assert!(error.to_string().contains("never asked"), "{error}");
    let servers = heard(&stage, "session/new").unwrap()["params"]["mcpServers"].clone();
    assert_eq!(servers[0]["name"], "runcaps");
}

#[tokio::test]
async fn an_agent_of_ones_own_is_started_as_it_is_declared() {
    let stage = Stage::new();
    install(&stage, "own", "def prompt(id, params): end(id, 'end_turn')");
    let mut spec = AcpAgentSpec::new("own", "RUNNER_ENABLE_OWN", "own", ["a", "b c"]);
    spec.inherit_env_prefixes = vec!["FOO_".into()];
    spec.env = Arc::new(|run, _| Ok([("OWN_RUN".to_owned(), run.run_id.clone().into())].into()));
    let host = [("FOO_MODE", "mode"), ("FOO_API_KEY", "host-canary"), ("ANTHROPIC_API_KEY", "host-canary")];
    let engine: SharedEngine = Arc::new(AcpEngine::new(spec, stage.parts(&host)));
    let mut run = stage.spec();
    run.provider.credentials.openrouter = Some("own-key".into());
    stage.run(&engine, &run).await.unwrap();
    assert_eq!(stage.told("args"), "a\nb c\n");
    let env = stage.told("env");
    for line in ["FOO_MODE=mode\n", "OWN_RUN=run-1\n", "OPENROUTER_API_KEY=own-key\n"] {
        assert!(env.contains(line), "{env}");
    }
    assert!(!env.contains("canary") && !env.contains("ANTHROPIC"), "{env}");
    assert_eq!(stage.told("cwd").trim(), stage.path("work").canonicalize().unwrap().to_str().unwrap());
}

#[tokio::test]
async fn eve_goes_through_a_gateway() {
    let stage = Stage::new();
    install(&stage, "eve", "def prompt(id, params): end(id, 'end_turn')");
    let engine: SharedEngine =
        Arc::new(AcpEngine::new(AcpAgentSpec::eve(), stage.parts(&[("OPENAI_API_KEY", "host-canary")])));
    let mut run = stage.spec();
    run.provider.credentials.openai = Some("own-canary".into());
    run.gateway = Some(Gateway {
        base_url: "http://gate".into(),
        run_token: "run-token".into(),
        routes: Default::default(),
    });
    stage.run(&engine, &run).await.unwrap();
    let env = stage.told("env");
    for provider in ["anthropic", "openai", "openrouter"] {
        let name = provider.to_ascii_uppercase();
        assert!(env.contains(&format!("{name}_BASE_URL=http://gate/p/{provider}\n")), "{env}");
        assert!(env.contains(&format!("{name}_API_KEY=run-token\n")), "{env}");
    }
    assert!(!env.contains("canary"), "{env}");
}

#[tokio::test]
async fn gemini_gets_the_host_s_key_and_what_agents_md_says() {
    let stage = Stage::new();
    install(
        &stage,
        "gemini",
        "def prompt(id, params): say(params['prompt'][0]['text']); end(id, 'end_turn')",
    );
    let host = [("GEMINI_API_KEY", "gemini-key"), ("OPENAI_API_KEY", "host-canary")];
    let engine: SharedEngine = Arc::new(AcpEngine::new(AcpAgentSpec::gemini(), stage.parts(&host)));
    let mut run = stage.spec();
    run.provider.model = Some("g-7".into());
    run.provider.credentials.anthropic = Some("own-canary".into());
    run.environment = Some(RunEnvironment {
        instructions: Instructions { system: Some("Be brief.".into()), agents_md: Some("Use tabs.".into()) },
        agent_files: vec![EnvironmentFile::text("sub/AGENTS.md", "Use spaces.")],
        ..RunEnvironment::default()
    });
    let text = stage.run(&engine, &run).await.unwrap().text;
    for words in ["Be brief.", "Use tabs.", "Use spaces.", "Do the thing."] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(stage.told("args"), "--acp\n--skip-trust\n--model\ng-7\n");
    let env = stage.told("env");
    assert!(env.contains("GEMINI_API_KEY=gemini-key\n") && !env.contains("canary"), "{env}");
}
