//! The `claude-code` engine.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mesh_harness::agent::{ClaudeCodeEngine, EngineContext, EngineError, Gateway, RunSpec, SharedEngine};
use mesh_harness::connector::{ConnectorAuth, ConnectorConfig};
use mesh_harness::context::{ContextFragment, ContextProvider};
use mesh_harness::environment::{EnvironmentFile, Instructions, RunEnvironment, Skill};
use mesh_harness::log::Log;
use mesh_harness::model::BoxError;
use mesh_harness::outcome::Outcome;
use serde_json::Value;

use crate::stage::{Stage, private_folders_of};

/// Tells what it was given, asks the surface for its tools, and answers.
const GOOD: &str = r#"
printf '%s\n' "$@" > "$TOLD/args"; env > "$TOLD/env"; cat > "$TOLD/task"; pwd > "$TOLD/cwd"
while [ $# -gt 0 ]; do case $1 in
  --mcp-config) cp "$2" "$TOLD/servers"; stat -c '%a' "$2" > "$TOLD/mode" ;;
  --append-system-prompt-file) cp "$2" "$TOLD/instructions" ;;
  --plugin-dir) cp -r "$2" "$TOLD/plugin" ;;
esac; shift; done
python3 - "$TOLD/servers" <<'PY'
import json, sys, urllib.request
server = json.load(open(sys.argv[1]))["mcpServers"].get("runcaps")
if server:
    headers = dict(server["headers"], Accept="application/json, text/event-stream")
    headers["Content-Type"] = "application/json"
    def send(message):
        request = urllib.request.Request(server["url"], json.dumps(message).encode(), headers)
        answer = urllib.request.urlopen(request)
        answer.read(1)
        return answer.headers.get("mcp-session-id")
    session = send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "fake", "version": "1"}}})
    headers["mcp-session-id"] = session
    send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    send({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
PY
echo 'not json'
echo '{"type":"system","subtype":"init","mcp_servers":[{"name":"runcaps","status":"connected"}]}'
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"first I think"},{"type":"tool_use","name":"Bash"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"the answer"}'
"#;

fn engine(stage: &Stage, more: &[(&str, &str)]) -> SharedEngine {
    Arc::new(ClaudeCodeEngine::new(stage.parts_with_note(more)))
}

#[tokio::test]
async fn claude_code_gets_its_task_its_servers_and_its_key_and_nothing_else() {
    let stage = Stage::new();
    stage.program("claude", GOOD);
    let mut spec = stage.spec();
    spec.provider.credentials.anthropic = Some("own-key".into());
    spec.provider.model = Some("model-7".into());
    spec.limits.max_steps = Some(9);
    spec.permissions.tools = Some(vec!["Read".into()]);
    spec.connectors = vec![ConnectorConfig {
        name: "docs".into(),
        transport: "streamable_http".into(),
        endpoint: Some("http://127.0.0.1:1/mcp".into()),
        auth: ConnectorAuth::Bearer("connector-token".into()),
        ..ConnectorConfig::default()
    }];
    let host = [
        ("ANTHROPIC_API_KEY", "host-canary"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "host-canary"),
        ("ANTHROPIC_MODEL", "m"),
    ];
    let result = stage.run(&engine(&stage, &host), &spec).await.unwrap();
    assert_eq!((result.text.as_str(), result.outcome), ("the answer", Some(Outcome::Completed)));
    assert!(result.emissions.is_none());

    let task = stage.told("task");
    assert!(task.contains("Do the thing.") && task.contains("417"), "{task}");
    assert_eq!(stage.told("cwd").trim(), stage.path("work").canonicalize().unwrap().to_str().unwrap());
    let (args, env) = (stage.told("args"), stage.told("env"));
    for pair in
        ["--model\nmodel-7\n", "--max-turns\n9\n", "--allowedTools\nRead,mcp__runcaps__note,mcp__docs\n"]
    {
        assert!(args.contains(pair), "{args}");
    }
    assert!(
        !args.contains("--setting-sources") && !args.contains("connector-token") && !args.contains("own-key")
    );
    assert!(env.contains("ANTHROPIC_API_KEY=own-key\n") && env.contains("ANTHROPIC_MODEL=m\n"), "{env}");
    assert!(env.contains("MCP_CONNECTION_NONBLOCKING=0\n") && !env.contains("canary"), "{env}");

    let servers: Value = serde_json::from_str(&stage.told("servers")).unwrap();
    assert_eq!(servers["mcpServers"]["docs"]["headers"]["Authorization"], "Bearer connector-token");
    assert!(servers["mcpServers"]["runcaps"]["url"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    assert!(servers["mcpServers"].get("workspace").is_none());
    assert_eq!(stage.told("mode").trim(), "600");
    let bearer = servers["mcpServers"]["runcaps"]["headers"]["Authorization"].as_str().unwrap().to_owned();
    assert!(private_folders_of(&bearer).is_empty(), "the folder with the tokens is gone");
    assert!(!args.contains(bearer.trim_start_matches("Bearer ")));
    assert!(stage.lines().iter().any(|line| line == "claude-code uses Bash"));
    assert_eq!(stage.events.names(), ["run.started", "run.finished"]);
}

#[tokio::test]
async fn claude_code_is_given_an_environment_in_its_own_form() {
    let stage = Stage::new();
    stage.program("claude", GOOD);
    let mut spec = stage.spec();
    spec.environment = Some(RunEnvironment {
        instructions: Instructions { system: Some("Be brief.".into()), agents_md: Some("Use tabs.".into()) },
        skills: vec![Skill {
            name: "count".into(),
            files: vec![EnvironmentFile::text("SKILL.md", "---\nname: count\n---\n")],
        }],
        ..RunEnvironment::default()
    });
    stage.run(&engine(&stage, &[]), &spec).await.unwrap();
    assert_eq!(stage.told("instructions"), "Be brief.\n\nUse tabs.");
    assert!(stage.told("args").contains("--setting-sources\nproject\n"));
    assert!(stage.told("plugin/.claude-plugin/plugin.json").contains("name"));
    assert!(stage.told("plugin/skills/count/SKILL.md").contains("name: count"));
}

#[tokio::test]
async fn through_a_gateway_claude_code_shows_the_runs_token_alone() {
    let stage = Stage::new();
    stage.program("claude", GOOD);
    let mut spec = stage.spec();
    spec.provider.credentials.anthropic = Some("own-canary".into());
    spec.gateway = Some(Gateway {
        base_url: "http://gate/".into(),
        run_token: "run-token".into(),
        routes: Default::default(),
    });
    let host = [
        ("ANTHROPIC_API_KEY", "host-canary"),
        ("ANTHROPIC_BASE_URL", "http://host-canary"),
        ("OPENAI_ORG_ID", "host-canary"),
    ];
    stage.run(&engine(&stage, &host), &spec).await.unwrap();
    let env = stage.told("env");
    assert!(
        env.contains("ANTHROPIC_BASE_URL=http://gate/p/anthropic\n")
            && env.contains("ANTHROPIC_API_KEY=run-token\n")
    );
    assert!(!env.contains("canary"), "{env}");
}

#[tokio::test]
async fn a_host_s_key_is_used_only_where_a_run_allows_it() {
    for (env_fallback, expected) in [(true, true), (false, false)] {
        let stage = Stage::new();
        stage.program("claude", GOOD);
        let mut spec = stage.spec();
        spec.provider.env_fallback = env_fallback;
        stage.run(&engine(&stage, &[("ANTHROPIC_API_KEY", "host-key")]), &spec).await.unwrap();
        assert_eq!(stage.told("env").contains("ANTHROPIC_API_KEY=host-key\n"), expected);
    }
}

#[tokio::test]
async fn claude_code_that_is_not_connected_to_its_capabilities_is_ended_and_fails() {
    for status in
        [r#"[{"name":"runcaps","status":"pending"}]"#, r#"[{"name":"runcaps","status":"failed"}]"#, "[]"]
    {
        let stage = Stage::new();
        let script = format!(
            "echo $$ > $TOLD/pid; echo '{{\"type\":\"system\",\"subtype\":\"init\",\"mcp_servers\":{status}}}'; sleep 600"
        );
        stage.program("claude", &script);
        let error = stage.run(&engine(&stage, &[]), &stage.spec()).await.unwrap_err();
        assert!(error.to_string().contains("not connected to its capabilities"), "{error}");
        stage.is_gone("pid").await;
        assert_eq!(stage.events.names(), ["run.started", "run.finished"]);
    }
}

#[tokio::test]
async fn claude_code_that_only_says_it_is_connected_is_not_believed() {
    let stage = Stage::new();
    stage.program(
        "claude",
        r#"cat >/dev/null
        echo '{"type":"system","subtype":"init","mcp_servers":[{"name":"runcaps","status":"connected"}]}'
        echo '{"type":"result","subtype":"success","is_error":false,"result":"the answer"}'"#,
    );
    let error = stage.run(&engine(&stage, &[]), &stage.spec()).await.unwrap_err();
    assert!(error.to_string().contains("never asked for its capabilities"), "{error}");
}

#[tokio::test]
async fn endings_of_claude_code_are_told_apart() {
    let cases = [
        (
            r#"echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 401"}'; exit 1"#,
            Outcome::Failed,
            "API Error: 401",
        ),
        (
            r#"echo '{"type":"assistant","message":{"content":[{"type":"text","text":"so far"}]}}'
            echo '{"type":"result","subtype":"error_max_turns","is_error":true}'; exit 1"#,
            Outcome::StepsExhausted,
            "so far",
        ),
        (
            r#"echo '{"type":"result","subtype":"success","is_error":false,"result":""}'"#,
            Outcome::Completed,
            "(no answer)",
        ),
    ];
    for (script, outcome, text) in cases {
        let stage = Stage::new();
        stage.program("claude", script);
        let engine: SharedEngine = Arc::new(ClaudeCodeEngine::new(stage.parts(&[])));
        let result = stage.run(&engine, &stage.spec()).await.unwrap();
        assert_eq!((result.outcome, result.text.as_str()), (Some(outcome), text));
    }
    let stage = Stage::new();
    stage.program("claude", "echo 'it broke, key own-canary' >&2; exit 7");
    let mut spec = stage.spec();
    spec.provider.credentials.anthropic = Some("own-canary".into());
    let error = stage.run(&engine(&stage, &[]), &spec).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Agent { message } if message.contains("exit status: 7")),
        "{error:?}"
    );
    assert!(
        stage.lines().iter().any(|line| line.contains("it broke, key [redacted]")),
        "{:?}",
        stage.lines()
    );
}

#[tokio::test]
async fn somebody_who_left_its_group_cannot_hold_up_the_end_of_claude_code() {
    let stage = Stage::new();
    stage.program(
        "claude",
        r#"setsid sh -c 'echo $$ > "$0/left"; exec sleep 600' "$TOLD" &
        while [ ! -s "$TOLD/left" ]; do sleep 0.05; done; echo 'last words' >&2; exit 7"#,
    );
    let engine: SharedEngine = Arc::new(ClaudeCodeEngine::new(stage.parts(&[])));
    let error = stage.run(&engine, &stage.spec()).await.unwrap_err();
    assert!(error.to_string().contains("exit status: 7"), "{error}");
    assert!(stage.lines().join("\n").contains("last words"), "{:?}", stage.lines());
    std::process::Command::new("kill").arg(stage.told("left").trim()).status().unwrap();
}

#[tokio::test]
async fn a_stop_ends_claude_code_and_all_it_started() {
    let stage = Stage::new();
    let script = r#"trap '' TERM
        echo '{"type":"assistant","message":{"content":[{"type":"text","text":"so far"}]}}'
        echo '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]}}'
        sleep 600 & echo $! > "$TOLD/child"; echo $$ >> "$TOLD/child"; echo > "$TOLD/ready"; wait; sleep 600"#;
    stage.program("claude", script);
    let stopping = async {
        stage.tells("ready").await;
        stage.logs("uses Bash").await;
        stage.stop.cancel("enough");
    };
    let (engine, spec) = (engine(&stage, &[]), stage.spec());
    let (result, ()) = tokio::join!(stage.run(&engine, &spec), stopping);
    let result = result.unwrap();
    assert_eq!((result.outcome, result.text.as_str()), (Some(Outcome::Canceled), "so far"));
    stage.is_gone("child").await;

    let stage = Stage::new();
    stage.program("claude", script);
    let mut spec = stage.spec();
    // Enough for a shell to tell of its child, on a machine that does much else.
    spec.limits.max_duration_ms = Some(4_000);
    let engine: SharedEngine = Arc::new(ClaudeCodeEngine::new(stage.parts(&[])));
    assert_eq!(stage.run(&engine, &spec).await.unwrap().outcome, Some(Outcome::TimedOut));
    stage.is_gone("child").await;
}

#[tokio::test]
async fn a_finish_that_a_stop_merely_follows_keeps_its_outcome() {
    let stage = Stage::new();
    // Both lines arrive at once, so the result is read by whoever hears of the tool.
    stage.program(
        "claude",
        r#"cat >/dev/null
        printf '%s\n%s\n' '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]}}' \
            '{"type":"result","subtype":"success","is_error":false,"result":"the answer"}'
        echo $$ > "$TOLD/pid"; sleep 600"#,
    );
    let stop = stage.stop.clone();
    let log = Log::new(move |line| {
        if line.contains("uses Bash") {
            stop.cancel("too late");
        }
    });
    let engine: SharedEngine = Arc::new(ClaudeCodeEngine::new(stage.parts(&[])));
    let result = engine.run(&stage.spec(), EngineContext { log, ..stage.context() }).await.unwrap();
    assert!(stage.stop.is_fired());
    assert_eq!((result.text.as_str(), result.outcome), ("the answer", Some(Outcome::Completed)));
    stage.is_gone("pid").await;
}

/// Says that it was asked, and never answers.
struct Ponders(Arc<tokio::sync::Notify>);

impl ContextProvider for Ponders {
    fn name(&self) -> &'static str {
        "ponders"
    }

    fn assemble<'a>(&'a self, _: &'a RunSpec) -> BoxFuture<'a, Result<Vec<ContextFragment>, BoxError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_context_that_stalls_is_stopped_before_any_program_starts() {
    let stage = Stage::new();
    stage.program("claude", "touch $TOLD/started");
    let asked = Arc::new(tokio::sync::Notify::new());
    let mut parts = stage.parts_with_note(&[]);
    parts.context_providers = vec![Arc::new(Ponders(asked.clone()))];
    let engine: SharedEngine = Arc::new(ClaudeCodeEngine::new(parts));
    let stopping = async {
        asked.notified().await;
        stage.stop.cancel("enough");
    };
    let spec = stage.spec();
    let (result, ()) = tokio::join!(stage.run(&engine, &spec), stopping);
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled));
    assert!(!stage.path("told/started").exists());
    assert_eq!(stage.events.names(), ["run.started", "run.finished"]);
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_no_program_and_an_end_of_its_events() {
    let stage = Stage::new();
    stage.program(
        "claude",
        "sleep 600 & echo $! > \"$TOLD/child\"; echo $$ >> \"$TOLD/child\"; echo > \"$TOLD/ready\"; wait",
    );
    let (engine, spec) = (engine(&stage, &[]), stage.spec());
    tokio::select! {
        _ = engine.run(&spec, stage.context()) => panic!("nobody answers"),
        _ = stage.tells("ready") => {}
    }
    stage.is_gone("child").await;
    assert_eq!(stage.events.names(), ["run.started", "run.finished"]);
}

#[tokio::test]
async fn what_a_program_says_of_its_secrets_is_in_no_log_event_or_error() {
    let stage = Stage::new();
    let script = r#"
        while [ $# -gt 0 ]; do [ "$1" = --mcp-config ] && servers=$(tr -d '"' < "$2"); shift; done
        printf '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"%s"}]}}\n' "$ANTHROPIC_API_KEY $DATABASE $servers"
        env >&2; echo "$servers" >&2; exit 1"#;
    stage.program("claude", script);
    let mut spec = stage.spec();
    spec.provider.credentials.anthropic = Some("key-canary".into());
    spec.secrets.insert("DATABASE".into(), "secret-canary".into());
    spec.connectors = vec![ConnectorConfig {
        name: "docs".into(),
        transport: "sse".into(),
        endpoint: Some("http://127.0.0.1:1/".into()),
        headers: [("X-Own".to_owned(), "header-canary".into())].into(),
        auth: ConnectorAuth::Bearer("connector-canary".into()),
        ..ConnectorConfig::default()
    }];
    let engine: SharedEngine =
        Arc::new(ClaudeCodeEngine::new(stage.parts_with_note(&[("ANTHROPIC_API_KEY", "host-canary")])));
    let error = stage.run(&engine, &spec).await.unwrap_err();
    let log = stage.lines().join("\n");
    assert!(
        log.contains("claude-code uses [redacted] [redacted] {mcpServers")
            && log.contains("DATABASE=[redacted]"),
        "{log}"
    );
    assert!(log.contains("headers:{Authorization:Bearer [redacted]}},docs"), "{log}");
    let all = format!("{log} {error:?} {:?} {spec:?}", stage.events.all());
    assert!(!all.contains("canary"), "{all}");
}
