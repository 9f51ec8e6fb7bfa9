//! Capabilities that a program of the application's own serves: what it is told, that it is really asked, and that what
//! it emits comes back.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mesh_harness::agent::{
    AcpAgentSpec, AcpEngine, ClaudeCodeEngine, CodexEngine, EngineError, EngineResult, EngineSelection,
    PiEngine, SharedEngine,
};
use mesh_harness::capability::{
    AfterCall, CapabilityContract, CapabilityError, CapabilityHandler, CapabilityProgram, CapabilityScope,
    CapabilityTool, serve_capabilities, write_file,
};
use mesh_harness::host::HostEnv;
use mesh_harness::message::ToolSpec;
use mesh_harness::outcome::Outcome;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use crate::stage::Stage;

/// The test that is the program, too: the harness of tests writes to standard output, so the two outputs change places.
const PROGRAM: &str = r#"exec "$0" --exact "$1" --nocapture 3>&1 1>&2 2>&3"#;
const ITSELF: &str = "program::a_program_is_told_of_its_run_and_what_it_emits_comes_back";

/// Claude Code in a few lines: starts the server it is told about, asks it what the test wants, and says what it heard.
const CLAUDE: &str = r#"
while [ $# -gt 0 ]; do [ "$1" = --mcp-config ] && cp "$2" "$TOLD/servers"; shift; done
cat >/dev/null
echo '{"type":"system","subtype":"init","mcp_servers":[{"name":"runcaps","status":"connected"}]}'
python3 - "$TOLD/servers" "$TOLD" <<'PY'
import json, os, subprocess, sys
server = json.load(open(sys.argv[1]))["mcpServers"]["runcaps"]
ASKS
program = subprocess.Popen([server["command"], *server["args"]], env={**os.environ, **server["env"]},
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def send(**message):
    program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"); program.stdin.flush()
def ask(id, method, **params):
    send(id=id, method=method, params=params)
    while True:
        answer = json.loads(program.stdout.readline())
        if answer.get("id") == id: return answer
ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "fake", "version": "1"})
send(method="notifications/initialized")
answers = [ask(2, "tools/list")]
for name, arguments in calls:
    answers.append(ask(len(answers) + 2, "tools/call", name=name, arguments=arguments))
program.stdin.close(); program.wait()
json.dump(answers, open(sys.argv[2] + "/answers", "w"))
PY
echo '{"type":"result","subtype":"success","is_error":false,"result":"the answer"}'
"#;

fn itself() -> CapabilityProgram {
    let file = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    CapabilityProgram {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), PROGRAM.into(), file, ITSELF.into()],
    }
}

fn parts(stage: &Stage, program: CapabilityProgram) -> EngineSelection {
    EngineSelection { capability_program: Some(program), ..stage.parts(&[]) }
}

/// Runs the few lines, which make these calls.
async fn run(stage: &Stage, asks: &str) -> Result<EngineResult, EngineError> {
    stage.program("claude", &CLAUDE.replace("ASKS", asks));
    let engine: SharedEngine = Arc::new(ClaudeCodeEngine::new(parts(stage, itself())));
    stage.run(&engine, &stage.spec()).await
}

/// Is the program: notes what it is given, and emits how often it was called and its notes.
async fn serve(contract: CapabilityContract) {
    // What a panic says would be in the middle of the conversation.
    std::panic::set_hook(Box::new(|_| {}));
    let noted: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = noted.clone();
    let handler: CapabilityHandler = Arc::new(move |input| {
        if input.contains_key("panic") {
            panic!("a broken capability");
        }
        let refused = input.contains_key("refuse");
        kept.lock().unwrap().push(Value::Object(input));
        Box::pin(
            async move { if refused { Err(CapabilityError("no".into())) } else { Ok(json!({"ok": true})) } },
        )
    });
    let note =
        CapabilityTool { spec: ToolSpec::new("note", "Records a note.", json!({"type": "object"})), handler };
    let calls = Mutex::new(0);
    let after_call: AfterCall = Arc::new(move || {
        let mut calls = calls.lock().unwrap();
        *calls += 1;
        Some(json!({"calls": *calls, "notes": *noted.lock().unwrap()}))
    });
    let (input, output) = (tokio::io::stdin(), tokio::io::stderr());
    let tools = vec![note, write_file(&contract.scope)];
    serve_capabilities(&contract, tools, Some(after_call), input, output).await.unwrap();
}

#[tokio::test]
async fn a_program_is_told_of_its_run_and_what_it_emits_comes_back() {
    if let Ok(contract) = CapabilityContract::of_process(&HostEnv::process()) {
        return serve(contract).await;
    }
    let stage = Stage::new();
    let asks = r#"calls = [("note", {"text": "é"}), ("write_file", {"path": "a/b", "content": "x"}),
        ("write_file", {"path": "../b", "content": "x", "workspace_id": "workspace-1"})]"#;
    let result = run(&stage, asks).await.unwrap_or_else(|error| panic!("{error:?} {:?}", stage.lines()));
    assert_eq!((result.text.as_str(), result.outcome), ("the answer", Some(Outcome::Completed)));
    let emitted = json!({"calls": 3, "notes": [{"text": "é"}]});
    assert_eq!(result.emissions, Some(emitted.clone()));
    let bytes = emitted.to_string().len();
    assert!(stage.lines().contains(&format!("emissions: present ({bytes} bytes)")), "{:?}", stage.lines());
    assert_eq!(std::fs::read_to_string(stage.path("work/a/b")).unwrap(), "x");
    assert!(!stage.path("b").exists());

    let answers: Value = serde_json::from_str(&stage.told("answers")).unwrap();
    let names: Vec<&Value> =
        answers[0]["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["note", "write_file"]);
    assert_eq!(answers[3]["result"]["isError"], true);

    let servers: Value = serde_json::from_str(&stage.told("servers")).unwrap();
    let told = &servers["mcpServers"]["runcaps"]["env"];
    assert_eq!(told["HARNESS_WORKSPACE_ID"], "workspace-1");
    assert_eq!(told["HARNESS_WORKDIR"], stage.path("work").to_str().unwrap());
    for file in ["HARNESS_EMISSIONS_FILE", "HARNESS_CONTACT_FILE"] {
        let file = std::path::Path::new(told[file].as_str().unwrap());
        assert!(!file.starts_with(stage.path("work")) && !file.exists(), "outside the tree, and gone");
    }
}

#[tokio::test]
async fn what_there_is_to_emit_is_asked_for_after_every_call_however_it_ends() {
    let stage = Stage::new();
    let asks = r#"calls = [("note", {"refuse": 1}), ("note", {"panic": 1}), ("nobody", {}), ("note", {})]"#;
    let result = run(&stage, asks).await.unwrap();
    assert_eq!(result.emissions, Some(json!({"calls": 4, "notes": [{"refuse": 1}, {}]})));
    let answers: Value = serde_json::from_str(&stage.told("answers")).unwrap();
    let said = |at: usize| answers[at]["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let words = ["\"no\"", "broke down", "there is no tool", "\"ok\":true"];
    for (at, words) in words.iter().enumerate() {
        assert!(said(at + 1).contains(words), "{}", said(at + 1));
    }
}

/// A program served over a pipe in memory, whose client has called its one tool so often, at once. The answers.
async fn called_at_once(contract: &CapabilityContract, calls: usize, after_call: AfterCall) -> Vec<Value> {
    let handler: CapabilityHandler = Arc::new(|_| Box::pin(async { Ok(json!({"ok": true})) }));
    let note =
        CapabilityTool { spec: ToolSpec::new("note", "Records a note.", json!({"type": "object"})), handler };
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(theirs);
    let contract = contract.clone();
    let serving = tokio::spawn(async move {
        serve_capabilities(&contract, vec![note], Some(after_call), input, output).await
    });
    let (answers, mut asks) = tokio::io::split(ours);
    let us = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "f", "version": "1"}});
    let mut lines = vec![
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": us}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let call = |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "note"}});
    lines.extend((1..=calls).map(call));
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    asks.write_all(lines.as_bytes()).await.unwrap();
    let mut answers = tokio::io::BufReader::new(answers).lines();
    let mut heard = Vec::new();
    while heard.len() <= calls {
        let line = tokio::time::timeout(Duration::from_secs(40), answers.next_line()).await;
        let line = line.expect("every call is answered").unwrap().unwrap();
        heard.push(serde_json::from_str(&line).unwrap());
    }
    drop((asks, answers));
    serving.await.unwrap().unwrap();
    heard.split_off(1)
}

fn contract(folder: &std::path::Path) -> CapabilityContract {
    CapabilityContract {
        scope: CapabilityScope { workspace_id: "w".into(), workdir: folder.join("work") },
        emissions: folder.join("emissions.json"),
        contact: folder.join("contact"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_calls_that_end_at_once_the_newest_value_stays() {
    const CALLS: usize = 8;
    for _ in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let (begun, all_begun) = (Mutex::new(0), Condvar::new());
        let after_call: AfterCall = Arc::new(move || {
            let mut begun = begun.lock().unwrap();
            let number = *begun;
            *begun += 1;
            all_begun.notify_all();
            if number == 0 {
                // If they took no turns, the oldest value would be written last. They do, so this is waited for in vain.
                drop(all_begun.wait_timeout_while(begun, Duration::from_millis(200), |begun| *begun < CALLS));
            }
            Some(json!(number))
        });
        let contract = contract(folder.path());
        called_at_once(&contract, CALLS, after_call).await;
        assert_eq!(std::fs::read_to_string(&contract.emissions).unwrap(), (CALLS - 1).to_string());
    }
}

#[tokio::test]
async fn a_call_is_answered_though_what_follows_it_panics() {
    let folder = tempfile::tempdir().unwrap();
    let after_call: AfterCall = Arc::new(|| panic!("nothing can be emitted"));
    let answers = called_at_once(&contract(folder.path()), 2, after_call).await;
    assert!(answers.iter().all(|answer| answer["result"]["isError"] == false), "{answers:?}");
}

#[tokio::test]
async fn a_run_without_a_call_has_emitted_nothing() {
    let stage = Stage::new();
    assert_eq!(run(&stage, "calls = []").await.unwrap().emissions, None);
    assert!(stage.lines().contains(&"emissions: absent".to_owned()), "{:?}", stage.lines());
}

#[tokio::test]
async fn what_is_emitted_and_cannot_be_read_is_not_handed_on() {
    let torn = r#"'{"torn":'"#;
    for (emits, expected) in [("'{}'", Some(json!({}))), (torn, None), ("''", None), ("'1' * 9000000", None)]
    {
        let stage = Stage::new();
        let asks = format!(
            "open(server['env']['HARNESS_CONTACT_FILE'], 'w')
open(server['env']['HARNESS_EMISSIONS_FILE'], 'w').write({emits})
calls = []"
        );
        assert_eq!(run(&stage, &asks).await.unwrap().emissions, expected, "empty is not absent");
        let says = stage.lines().into_iter().find(|line| line.starts_with("emissions: ")).unwrap();
        assert_eq!(says.contains("present"), expected.is_some(), "{says}");
        assert_eq!(says.contains("unreadable"), expected.is_none(), "{says}");
    }
}

#[tokio::test]
async fn a_program_that_nobody_starts_fails_its_run() {
    let stage = Stage::new();
    stage.program(
        "claude",
        r#"cat >/dev/null
        echo '{"type":"system","subtype":"init","mcp_servers":[{"name":"runcaps","status":"connected"}]}'
        echo '{"type":"result","subtype":"success","is_error":false,"result":"the answer"}'"#,
    );
    stage.program("codex", "while [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo done > \"$2\"; shift; done");
    let claude: SharedEngine = Arc::new(ClaudeCodeEngine::new(parts(&stage, itself())));
    let codex: SharedEngine = Arc::new(CodexEngine::new(parts(&stage, itself())));
    for engine in [claude, codex] {
        let error = stage.run(&engine, &stage.spec()).await.unwrap_err();
        assert!(error.to_string().contains("never asked for its capabilities"), "{error}");
    }
}

#[tokio::test]
async fn where_the_tools_of_a_program_are_not_known_all_of_them_are_allowed() {
    let stage = Stage::new();
    stage.program("claude", r#"printf '%s\n' "$@" > "$TOLD/args"; exit 1"#);
    let engine: SharedEngine = Arc::new(ClaudeCodeEngine::new(parts(&stage, itself())));
    let mut spec = stage.spec();
    spec.permissions.tools = Some(vec!["Read".into()]);
    assert!(stage.run(&engine, &spec).await.is_err());
    assert!(stage.told("args").contains("--allowedTools\nRead,mcp__runcaps\n"), "{}", stage.told("args"));
}

#[test]
fn capabilities_are_brought_in_one_way_and_to_who_takes_them() {
    let stage = Stage::new();
    let both = EngineSelection { capability_program: Some(itself()), ..stage.parts_with_note(&[]) };
    let engines: [SharedEngine; 3] = [
        Arc::new(ClaudeCodeEngine::new(both)),
        Arc::new(PiEngine::new(parts(&stage, itself()))),
        Arc::new(AcpEngine::new(AcpAgentSpec::eve(), parts(&stage, itself()))),
    ];
    for (engine, words) in engines.iter().zip(["not as both", "no MCP", "takes no servers"]) {
        let refusal = engine.supports(&stage.spec()).unwrap_err().to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
}
