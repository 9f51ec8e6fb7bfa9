//! The `pi` engine.

use std::sync::Arc;

use mesh_harness::agent::{PiEngine, SharedEngine, Thinking};
use mesh_harness::connector::ConnectorConfig;
use mesh_harness::outcome::Outcome;

use crate::stage::Stage;

/// Answers `get_state`; what it does with a prompt follows.
const READY: &str = r#"
printf '%s\n' "$@" > "$TOLD/args"; env > "$TOLD/env"
read -r line; printf '%s\n' "$line" > "$TOLD/state"
echo '{"type":"extension_ui_request","id":"1","method":"notify","message":"hello"}'
echo '{"type":"response","command":"get_state","success":true,"data":{"sessionId":"s","model":{"id":"m","provider":"p"},"thinkingLevel":"off"}}'
read -r line; printf '%s\n' "$line" > "$TOLD/prompt"
"#;

/// Two turns, the first of which asks for a tool.
const GOOD: &str = r#"
echo '{"type":"response","command":"prompt","success":true}'
echo '{"type":"agent_start"}'; echo 'noise'; echo '{"type":"turn_start"}'
echo '{"type":"tool_execution_start","toolName":"bash"}'
echo '{"type":"turn_end","message":{"role":"assistant","content":[{"type":"text","text":"let me look"}],"stopReason":"toolUse"}}'
echo '{"type":"turn_start"}'
echo '{"type":"turn_end","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"the answer"}],"stopReason":"stop"}}'
echo '{"type":"agent_end","messages":[]}'
sleep 600
"#;

fn engine(stage: &Stage) -> PiEngine {
    PiEngine::new(stage.parts(&[("PI_CODING_AGENT_DIR", "/pi"), ("PI_API_KEY", "host-canary")]))
}

#[tokio::test]
async fn pi_answers_with_the_words_of_its_last_turn() {
    let stage = Stage::new();
    stage.program("pi", &format!("{READY}{GOOD}"));
    let mut spec = stage.spec();
    spec.provider.model = Some("p/m".into());
    spec.provider.credentials.anthropic = Some("own-key".into());
    let engine: SharedEngine = Arc::new(engine(&stage).with_thinking(Thinking::Off));
    let result = stage.run(&engine, &spec).await.unwrap();
    assert_eq!((result.text.as_str(), result.outcome), ("the answer", Some(Outcome::Completed)));
    assert_eq!(stage.told("args"), "--mode\nrpc\n--model\np/m\n--thinking\noff\n");
    let prompt: serde_json::Value = serde_json::from_str(&stage.told("prompt")).unwrap();
    assert_eq!(prompt["type"], "prompt");
    assert!(prompt["message"].as_str().unwrap().contains("Do the thing."));
    let env = stage.told("env");
    assert!(
        env.contains("PI_CODING_AGENT_DIR=/pi\n") && env.contains("ANTHROPIC_API_KEY=own-key\n"),
        "{env}"
    );
    assert!(!env.contains("canary"), "{env}");
    let log = stage.lines();
    assert!(
        log.contains(&"pi runs p/m, thinking off".to_owned()) && log.contains(&"pi uses bash".to_owned()),
        "{log:?}"
    );
}

#[tokio::test]
async fn pi_that_wants_a_person_s_answer_fails_and_says_what_to_do() {
    let asks = r#"echo $$ > "$TOLD/pid"; echo '{"type":"extension_ui_request","id":"1","method":"select","options":["a"]}'; sleep 600"#;
    for script in [asks.to_owned(), format!("{READY}{asks}")] {
        let stage = Stage::new();
        stage.program("pi", &script);
        let engine: SharedEngine = Arc::new(engine(&stage));
        let error = stage.run(&engine, &stage.spec()).await.unwrap_err().to_string();
        assert!(error.contains("run pi in this project"), "{error}");
        stage.is_gone("pid").await;
    }
}

#[tokio::test]
async fn what_goes_wrong_with_pi_is_no_answer() {
    let refuses = r#"echo '{"type":"response","command":"prompt","success":false,"error":"no key"}'"#;
    let failing = r#"echo '{"type":"turn_end","message":{"content":[],"stopReason":"error","errorMessage":"x"}}'; echo '{"type":"agent_end"}'"#;
    let silent = r#"echo '{"type":"turn_end","message":{"content":[],"stopReason":"stop"}}'; echo '{"type":"agent_end"}'"#;
    for (script, expected) in [(refuses, "refuses prompt"), ("exit 3", "ended before"), (silent, "no words")]
    {
        let stage = Stage::new();
        stage.program("pi", &format!("{READY}{script}"));
        let engine: SharedEngine = Arc::new(engine(&stage));
        let error = stage.run(&engine, &stage.spec()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let stage = Stage::new();
    stage.program("pi", &format!("{READY}{failing}"));
    let engine: SharedEngine = Arc::new(engine(&stage));
    assert_eq!(stage.run(&engine, &stage.spec()).await.unwrap().outcome, Some(Outcome::Failed));
}

#[tokio::test]
async fn pi_that_asks_its_model_again_has_not_failed() {
    let failed = r#"echo '{"type":"turn_end","message":{"content":[],"stopReason":"error"}}'; echo '{"type":"agent_end"}'"#;
    let again = r#"echo '{"type":"auto_retry_start","attempt":1}'"#;
    let no_more = r#"echo '{"type":"auto_retry_end","success":false}'; sleep 600"#;
    for (script, outcome) in [
        (format!("{READY}{failed}\n{again}\n{failed}\n{again}\n{GOOD}"), Outcome::Completed),
        (format!("{READY}{failed}\n{again}\n{failed}\n{no_more}"), Outcome::Failed),
        (format!("{READY}{failed}\nsleep 600"), Outcome::Failed),
    ] {
        let stage = Stage::new();
        stage.program("pi", &script);
        let engine: SharedEngine = Arc::new(engine(&stage));
        assert_eq!(stage.run(&engine, &stage.spec()).await.unwrap().outcome, Some(outcome), "{script}");
    }
}

#[tokio::test]
async fn a_stop_is_told_to_pi_and_ends_it() {
    let stage = Stage::new();
    let script = r#"sleep 600 & echo $! > "$TOLD/child"; echo $$ >> "$TOLD/child"; echo > "$TOLD/ready"
        read -r line; printf '%s\n' "$line" > "$TOLD/abort"; wait"#;
    stage.program("pi", &format!("{READY}{script}"));
    let stopping = async {
        stage.tells("ready").await;
        stage.stop.cancel("enough");
    };
    let (engine, spec): (SharedEngine, _) = (Arc::new(engine(&stage)), stage.spec());
    let (result, ()) = tokio::join!(stage.run(&engine, &spec), stopping);
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled));
    stage.is_gone("child").await;
}

#[test]
fn pi_takes_no_servers_and_every_effort_but_ultra() {
    let stage = Stage::new();
    let mut spec = stage.spec();
    let engine: SharedEngine = Arc::new(engine(&stage));
    assert!(engine.supports(&spec).is_ok());
    let sse = ConnectorConfig {
        name: "a".into(),
        transport: "sse".into(),
        endpoint: Some("http://a".into()),
        ..ConnectorConfig::default()
    };
    spec.connectors = vec![sse];
    assert!(engine.supports(&spec).unwrap_err().to_string().contains("no MCP"));
    let with_note: SharedEngine = Arc::new(PiEngine::new(stage.parts_with_note(&[])));
    assert!(with_note.supports(&stage.spec()).is_err());
    assert_eq!(Thinking::of_effort("none"), Some(Thinking::Off));
    assert_eq!(Thinking::of_effort("max"), Some(Thinking::Max));
    assert_eq!(Thinking::of_effort("ultra"), None);
}
