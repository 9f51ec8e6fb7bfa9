//! Secrets planted in every input of a run by a program: they are in no log, event, error, argument or file that should
//! not hold them, and each reaches only who is to see it.

use std::path::Path;

use mesh_harness::agent::{Gateway, RunSpec, SharedEngine, select_engine};
use mesh_harness::connector::{ConnectorAuth, ConnectorConfig};

use crate::stage::{Stage, private_folders_of};

/// Tells everything it has: its environment, its arguments, its input, the files it was given, and itself in every
/// channel that a program has. Then it does what `END` says.
const TELLTALE: &str = r#"
env > "$TOLD/env"; printf '%s\n' "$@" > "$TOLD/args"
for it in "$@" ${CODEX_HOME:+"$CODEX_HOME"/*}; do [ -f "$it" ] && cat "$it"; done > "$TOLD/files"
env >&2; cat "$TOLD/files" >&2
END
"#;

/// Says all it knows as a tool's name, and fails.
const CLAUDE: &str = r#"cat > "$TOLD/task"
python3 -c 'import json, sys; print(json.dumps({"type": "assistant", "message": {"content": [{"type": "tool_use", "name": sys.stdin.read()}]}}))' < "$TOLD/env"
exit 1"#;
const CODEX: &str = r#"cat > "$TOLD/task"
python3 -c 'import json, sys; print(json.dumps({"type": "turn.failed", "error": {"message": sys.stdin.read()}}))' < "$TOLD/env"
exit 1"#;
const ACP: &str = r#"exec python3 -c '
import json, os, sys
def out(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
everything = open(os.environ["TOLD"] + "/env").read()
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        out(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": True}}})
    elif message["method"] == "session/new":
        open(os.environ["TOLD"] + "/session", "w").write(line)
        everything += line
        out(id=message["id"], result={"sessionId": "s"})
    elif message["method"] == "session/prompt":
        open(os.environ["TOLD"] + "/task", "w").write(line)
        update = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": everything}}
        out(method="session/update", params={"sessionId": "s", "update": update})
        out(id=message["id"], error={"code": -32000, "message": everything})
'"#;
const PI: &str = r#"read -r line
python3 -c 'import json, sys; print(json.dumps({"type": "response", "command": "get_state", "success": False, "error": sys.stdin.read()}))' < "$TOLD/env"
sleep 1"#;

const OWN_KEY: &str = "canary-own-key";
const HOST_KEY: &str = "canary-host-key";
const OTHER: &str = "canary-of-the-host";
const SECRET: &str = "canary-secret";
const TOKEN: &str = "canary-connector-token";
const HEADER: &str = "canary-header";
const VARIABLE: &str = "canary-variable";
const RUN_TOKEN: &str = "canary-run-token";
const PROMPT: &str = "canary-prompt";
const INPUT: &str = "canary-input";

/// What must be in no channel but where the program itself was told it.
const ALL: [&str; 10] = [OWN_KEY, HOST_KEY, OTHER, SECRET, TOKEN, HEADER, VARIABLE, RUN_TOKEN, PROMPT, INPUT];

fn engine(stage: &Stage, name: &str, with_servers: bool) -> SharedEngine {
    let host = [
        ("ANTHROPIC_API_KEY", HOST_KEY),
        ("OPENAI_API_KEY", HOST_KEY),
        ("GEMINI_API_KEY", HOST_KEY),
        ("ANTHROPIC_AUTH_TOKEN", OTHER),
        ("CLAUDE_CODE_OAUTH_TOKEN", OTHER),
        ("OPENROUTER_API_KEY", OTHER),
        ("CODEX_SECRET", OTHER),
        ("DATABASE_URL", OTHER),
        ("SSH_AUTH_SOCK", OTHER),
    ];
    let parts = if with_servers { stage.parts_with_note(&host) } else { stage.parts(&host) };
    select_engine(Some(name), parts)
}

fn spec(stage: &Stage, name: &str, through_gateway: bool) -> RunSpec {
    let mut spec = stage.spec();
    spec.workflow.prompt = PROMPT.into();
    spec.inputs.insert("input".into(), INPUT.into());
    let keys = &mut spec.provider.credentials;
    // Gemini knows the host's key only, which is then what must not be told.
    if name != "gemini" {
        (keys.anthropic, keys.openai) = (Some(OWN_KEY.into()), Some(OWN_KEY.into()));
    }
    spec.secrets.insert("DATABASE".into(), SECRET.into());
    if name != "pi" && name != "eve" {
        let docs = ConnectorConfig {
            name: "docs".into(),
            transport: "streamable_http".into(),
            // Tells this run's configuration from that of any other.
            endpoint: Some(format!("http://127.0.0.1:1{}", stage.path("work").display())),
            headers: [("X-Own".to_owned(), HEADER.into())].into(),
            auth: ConnectorAuth::Bearer(TOKEN.into()),
            ..ConnectorConfig::default()
        };
        let files = ConnectorConfig {
            name: "files".into(),
            transport: "stdio".into(),
            command: Some("server".into()),
            env: [("VARIABLE".to_owned(), VARIABLE.into())].into(),
            ..ConnectorConfig::default()
        };
        spec.connectors = vec![docs, files];
    }
    spec.gateway = through_gateway.then(|| Gateway {
        base_url: "http://127.0.0.1:1".into(),
        run_token: RUN_TOKEN.into(),
        routes: Default::default(),
    });
    spec
}

/// All that Claude Code finds in its environment, but for what the shell adds.
const CLAUDE_NAMES: [&str; 13] = [
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_MAX_RETRIES",
    "DATABASE",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "ENABLE_TOOL_SEARCH",
    "HOME",
    "IS_SANDBOX",
    "MCP_CONNECTION_NONBLOCKING",
    "MCP_CONNECT_TIMEOUT_MS",
    "PATH",
];

/// The names in what `env` wrote.
fn names(env: &str) -> Vec<&str> {
    let names = env.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let mut names: Vec<&str> =
        names.filter(|name| !["PWD", "OLDPWD", "SHLVL", "TOLD", "_"].contains(name)).collect();
    names.sort_unstable();
    names
}

/// Every file below, in one text.
fn everything_below(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&everything_below(&path));
        } else {
            text.push_str(&format!(
                "{}\n{}\n",
                path.display(),
                String::from_utf8_lossy(&std::fs::read(&path).unwrap())
            ));
        }
    }
    text
}

#[tokio::test]
async fn a_programs_secrets_reach_it_and_nobody_else_whatever_it_tells() {
    for (name, end, gateway) in [
        ("claude-code", CLAUDE, false),
        ("claude-code", CLAUDE, true),
        ("codex", CODEX, false),
        ("codex", CODEX, true),
        ("opencode", ACP, false),
        ("gemini", ACP, false),
        ("eve", ACP, true),
        ("pi", PI, false),
    ] {
        let stage = Stage::new();
        let file = if name == "claude-code" { "claude" } else { name };
        stage.program(file, &format!("export TOLD\n{}", TELLTALE.replace("END", end)));
        let has_servers = name != "pi" && name != "eve";
        let (engine, spec) = (engine(&stage, name, has_servers), spec(&stage, name, gateway));
        let ended = stage.run(&engine, &spec).await;
        assert!(ended.as_ref().is_err() || name == "codex", "it fails: {ended:?}");
        let ended = ended.map_or_else(|error| format!("{error} {error:?}"), |result| format!("{result:?}"));
        let log = stage.lines().join("\n");
        assert!(log.contains("DATABASE=[redacted]"), "{name} did tell its environment: {log}");

        let said = format!("{log} {ended} {:?}", stage.events.all());
        for canary in ALL {
            assert!(!said.contains(canary), "{name} {gateway}: {canary} was told: {said}");
        }
        let shown = format!("{spec:?}").replace(PROMPT, "").replace(INPUT, "");
        assert!(!shown.contains("canary"), "only what is no secret is shown: {shown}");
        let (env, args) = (stage.told("env"), stage.told("args"));
        for canary in ALL {
            assert!(!args.contains(canary), "{name}: {canary} is an argument: {args}");
        }
        let key = match (gateway, name) {
            (true, _) => RUN_TOKEN,
            (false, "gemini") => HOST_KEY,
            (false, _) => OWN_KEY,
        };
        for canary in ALL {
            let may_hold = [SECRET, key].contains(&canary);
            assert_eq!(env.contains(canary), may_hold, "{name} {gateway}: {canary}: {env}");
        }
        if name == "claude-code" && !gateway {
            assert_eq!(names(&env), CLAUDE_NAMES, "exactly what is listed");
        }
        // Where its configuration is a file, it holds what is for servers, and no key of the model.
        let files = stage.told("files");
        for canary in [OWN_KEY, HOST_KEY, OTHER, SECRET, RUN_TOKEN, PROMPT, INPUT] {
            assert!(!files.contains(canary), "{name}: {canary} is in a file: {files}");
        }
        let told = if name == "claude-code" || name == "codex" { files } else { stage.told("session") };
        for canary in [TOKEN, HEADER, VARIABLE] {
            assert_eq!(told.contains(canary), has_servers, "{name}: {canary} for the server: {told}");
        }
        let task = stage.told("task");
        for canary in ALL {
            let is_prompt = [PROMPT, INPUT].contains(&canary) && name != "pi";
            assert_eq!(task.contains(canary), is_prompt, "{name}: {canary} in the task: {task}");
        }
        for folder in ["work", "home"] {
            let left = everything_below(&stage.path(folder));
            assert!(!left.contains("canary"), "{name}: left in {folder}: {left}");
        }
        let ours = stage.path("work");
        assert_eq!(private_folders_of(ours.to_str().unwrap()), Vec::<std::path::PathBuf>::new(), "{name}");
    }
}
