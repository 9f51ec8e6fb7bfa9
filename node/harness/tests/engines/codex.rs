//! The `codex` engine.

use std::sync::Arc;

use mesh_harness::agent::{CodexEngine, Gateway, SharedEngine};
use mesh_harness::environment::{Instructions, RunEnvironment};
use mesh_harness::outcome::Outcome;

use crate::stage::Stage;

/// Tells what it was given and answers through its file.
const GOOD: &str = r#"
printf '%s\n' "$@" > "$TOLD/args"; env > "$TOLD/env"; cat > "$TOLD/task"
cp "$CODEX_HOME/config.toml" "$TOLD/config"; stat -c '%a' "$CODEX_HOME/config.toml" > "$TOLD/mode"
[ -f "$CODEX_HOME/AGENTS.md" ] && cp "$CODEX_HOME/AGENTS.md" "$TOLD/agents"
echo "$CODEX_HOME" > "$TOLD/home"
while [ $# -gt 0 ]; do [ "$1" = -o ] && answer=$2; shift; done
echo '{"type":"item.completed","item":{"type":"agent_message","text":"from an event"}}'
printf 'the answer\n' > "$answer"
"#;

fn engine(stage: &Stage, more: &[(&str, &str)]) -> SharedEngine {
    Arc::new(CodexEngine::new(stage.parts(more)))
}

/// Its private folder is outside the working directory and gone.
fn is_private(stage: &Stage) {
    let home = std::path::PathBuf::from(stage.told("home").trim());
    assert!(
        home.is_absolute() && !home.starts_with(stage.path("work")) && !home.exists(),
        "{}",
        home.display()
    );
}

#[tokio::test]
async fn codex_gets_its_configuration_by_a_folder_of_its_own() {
    let stage = Stage::new();
    stage.program("codex", GOOD);
    let mut spec = stage.spec();
    spec.provider.model = Some("model-7".into());
    spec.provider.credentials.openai = Some("own-key".into());
    spec.environment = Some(RunEnvironment {
        instructions: Instructions { system: Some("Be brief.".into()), agents_md: Some("Use tabs.".into()) },
        ..RunEnvironment::default()
    });
    let host = [("OPENAI_API_KEY", "host-canary"), ("CODEX_HOME", "/host-canary"), ("OPENAI_ORG_ID", "org")];
    let result = stage.run(&engine(&stage, &host), &spec).await.unwrap();
    assert_eq!((result.text.as_str(), result.outcome), ("the answer", Some(Outcome::Completed)));
    let (args, env) = (stage.told("args"), stage.told("env"));
    assert!(args.contains("-m\nmodel-7\n") && !args.contains("own-key"), "{args}");
    assert!(
        env.contains("CODEX_API_KEY=own-key\n")
            && env.contains("OPENAI_ORG_ID=org\n")
            && !env.contains("canary"),
        "{env}"
    );
    assert_eq!((stage.told("agents"), stage.told("mode").trim()), ("Be brief.".to_owned(), "600"));
    assert!(!stage.told("config").contains("model_provider"));
    assert!(stage.told("task").contains("Do the thing."));
    is_private(&stage);
}

#[tokio::test]
async fn codex_is_sent_to_a_gateway_by_its_configuration() {
    let stage = Stage::new();
    stage.program("codex", GOOD);
    let mut spec = stage.spec();
    spec.provider.credentials.openai = Some("own-canary".into());
    let routes = [("openai".to_owned(), "http://route/v1".to_owned())].into();
    spec.gateway = Some(Gateway { base_url: "http://gate".into(), run_token: "run-token".into(), routes });
    let host = [("OPENAI_API_KEY", "host-canary"), ("OPENAI_BASE_URL", "http://host-canary")];
    stage.run(&engine(&stage, &host), &spec).await.unwrap();
    let config: toml::Table = toml::from_str(&stage.told("config")).unwrap();
    assert_eq!(config["model_providers"]["gw"]["base_url"].as_str(), Some("http://route/v1"));
    let env = stage.told("env");
    for line in
        ["CODEX_API_KEY=run-token\n", "OPENAI_API_KEY=run-token\n", "OPENAI_BASE_URL=http://route/v1\n"]
    {
        assert!(env.contains(line), "{env}");
    }
    assert!(!env.contains("canary") && !stage.told("config").contains("canary"), "{env}");
}

#[tokio::test]
async fn codex_is_told_of_its_capabilities_as_required() {
    let stage = Stage::new();
    stage.program("codex", GOOD);
    let engine: SharedEngine = Arc::new(CodexEngine::new(stage.parts_with_note(&[])));
    let error = stage.run(&engine, &stage.spec()).await.unwrap_err();
    assert!(error.to_string().contains("never asked for its capabilities"), "{error}");
    let config: toml::Table = toml::from_str(&stage.told("config")).unwrap();
    let surface = &config["mcp_servers"]["runcaps"];
    assert_eq!(surface["required"].as_bool(), Some(true));
    assert!(surface["http_headers"]["Authorization"].as_str().unwrap().starts_with("Bearer "));
    is_private(&stage);
}

#[tokio::test]
async fn codex_that_fails_says_why_in_the_log() {
    let stage = Stage::new();
    let failing = r#"echo "$CODEX_HOME" > "$TOLD/home"
        echo '{"type":"turn.failed","error":{"message":"no such model"}}'; echo 'stderr words' >&2; exit 1"#;
    stage.program("codex", failing);
    let result = stage.run(&engine(&stage, &[]), &stage.spec()).await.unwrap();
    assert_eq!(result.outcome, Some(Outcome::Failed));
    let log = stage.lines().join("\n");
    assert!(log.contains("no such model") && log.contains("stderr words"), "{log}");
    is_private(&stage);
}

#[tokio::test]
async fn a_stop_kills_codex_that_does_not_listen_with_all_it_started() {
    let stage = Stage::new();
    stage.program(
        "codex",
        r#"trap '' TERM; echo "$CODEX_HOME" > "$TOLD/home"
        echo "$$" > "$TOLD/child"; (trap '' TERM; sleep 600; sleep 600) & echo $! >> "$TOLD/child"; echo > "$TOLD/ready"
        wait; sleep 600"#,
    );
    let stopping = async {
        stage.tells("ready").await;
        stage.stop.cancel("enough");
    };
    let (engine, spec) = (engine(&stage, &[]), stage.spec());
    let (result, ()) = tokio::join!(stage.run(&engine, &spec), stopping);
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled));
    stage.is_gone("child").await;
    is_private(&stage);
}

#[tokio::test]
async fn what_stands_in_the_place_of_an_answer_is_neither_waited_for_nor_followed() {
    for place in [r#"mkfifo "$answer""#, r#"echo elsewhere > "$TOLD/else"; ln -s "$TOLD/else" "$answer""#] {
        let stage = Stage::new();
        stage.program("codex", &GOOD.replace(r#"printf 'the answer\n' > "$answer""#, place));
        let result = stage.run(&engine(&stage, &[]), &stage.spec()).await.unwrap();
        assert_eq!((result.text.as_str(), result.outcome), ("from an event", Some(Outcome::Completed)));
    }
}
