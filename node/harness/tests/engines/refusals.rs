//! Runs that are refused before anything is set up.

use std::sync::Arc;

use mesh_harness::agent::{
    AcpAgentSpec, AcpEngine, EngineError, EngineSelection, Gateway, Isolation, RunSpec, SharedEngine,
    select_engine,
};
use mesh_harness::connector::ConnectorConfig;
use mesh_harness::host::HostEnv;

use crate::stage::Stage;

const EXTERNAL: [&str; 6] = ["claude-code", "codex", "eve", "opencode", "gemini", "pi"];

fn reason(engine: &SharedEngine, spec: &RunSpec) -> String {
    engine.supports(spec).expect_err("the run is refused").to_string()
}

fn gateway() -> Option<Gateway> {
    Some(Gateway { base_url: "http://gate".into(), run_token: "token".into(), routes: Default::default() })
}

#[test]
fn engines_have_the_names_they_are_chosen_by() {
    for name in EXTERNAL {
        assert_eq!(select_engine(Some(name), EngineSelection::default()).name(), name);
    }
}

#[test]
fn every_engine_that_drives_a_program_wants_a_box_around_it() {
    let stage = Stage::new();
    for name in EXTERNAL {
        let engine = select_engine(Some(name), stage.parts(&[]));
        let good = stage.spec();
        engine.supports(&good).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        let variable = format!("RUNNER_ENABLE_{}", name.to_ascii_uppercase().replace('-', "_"));
        let off = select_engine(Some(name), stage.parts(&[(&variable, "0")]));
        assert!(reason(&off, &good).contains(&variable), "{name}");
        let bare = select_engine(Some(name), stage.parts(&[("RUNNER_ISOLATION", "none")]));
        assert!(reason(&bare, &good).contains("RUNNER_ISOLATION"), "{name}");
        assert!(
            reason(&engine, &RunSpec { isolation: None, ..good.clone() }).contains("container"),
            "{name}"
        );
        assert!(reason(&engine, &RunSpec { private: true, ..good.clone() }).contains("private"), "{name}");
        let mut lasting = good.clone();
        lasting.workflow.profile = None;
        assert!(reason(&engine, &lasting).contains("ephemeral"), "{name}");
    }
}

#[test]
fn the_reserved_name_of_a_server_is_refused() {
    let stage = Stage::new();
    for name in ["workspace", "runcaps"] {
        let mut spec = stage.spec();
        spec.connectors = vec![ConnectorConfig {
            name: name.into(),
            transport: "sse".into(),
            endpoint: Some("http://s".into()),
            ..ConnectorConfig::default()
        }];
        assert!(reason(&select_engine(Some("claude-code"), stage.parts(&[])), &spec).contains("reserved"));
    }
}

#[test]
fn opencode_gemini_and_pi_refuse_a_gateway_and_gemini_a_run_without_the_host_s_key() {
    let stage = Stage::new();
    for name in EXTERNAL {
        let engine = select_engine(Some(name), stage.parts(&[]));
        let spec = RunSpec { gateway: gateway(), ..stage.spec() };
        assert_eq!(engine.supports(&spec).is_err(), ["opencode", "gemini", "pi"].contains(&name), "{name}");
        let broken = Gateway { base_url: "nonsense".into(), ..gateway().unwrap() };
        assert!(engine.supports(&RunSpec { gateway: Some(broken), ..stage.spec() }).is_err(), "{name}");
        let mut own = stage.spec();
        own.provider.env_fallback = false;
        assert_eq!(engine.supports(&own).is_err(), name == "gemini", "{name}");
    }
}

#[test]
fn opencode_refuses_a_model_without_a_provider_and_a_configuration_that_is_none() {
    let stage = Stage::new();
    let mut spec = stage.spec();
    spec.provider.model = Some("model".into());
    assert!(reason(&select_engine(Some("opencode"), stage.parts(&[])), &spec).contains("provider"));
    spec.provider.preferred = Some("anthropic".into());
    let broken = stage.parts(&[("OPENCODE_CONFIG_CONTENT", "{")]);
    assert!(reason(&select_engine(Some("opencode"), broken), &spec).contains("OPENCODE_CONFIG_CONTENT"));
}

#[test]
fn in_a_virtual_machine_no_engine_takes_a_raw_key() {
    let stage = Stage::new();
    let keys =
        [("claude-code", "ANTHROPIC_API_KEY"), ("codex", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")];
    for (name, variable) in keys {
        let engine = select_engine(Some(name), stage.parts(&[(variable, "key"), ("RUNNER_ISOLATION", "vm")]));
        let spec = RunSpec { isolation: Some(Isolation::Vm), ..stage.spec() };
        assert!(reason(&engine, &spec).contains(variable), "{name}");
        assert_eq!(
            engine.supports(&RunSpec { gateway: gateway(), ..spec }).is_ok(),
            name != "gemini",
            "{name}"
        );
    }
    let own = AcpAgentSpec::new("own", "RUNNER_ENABLE_OWN", "own", [""; 0]);
    let engine: SharedEngine = Arc::new(AcpEngine::new(own, stage.parts(&[("RUNNER_ISOLATION", "vm")])));
    let mut spec = RunSpec { isolation: Some(Isolation::Vm), ..stage.spec() };
    spec.provider.credentials.anthropic = Some("key".into());
    assert!(reason(&engine, &spec).contains("credentials.anthropic"));
}

#[tokio::test]
async fn what_is_refused_is_not_run_and_a_stop_before_the_start_sets_nothing_up() {
    for name in EXTERNAL {
        let stage = Stage::new();
        let program = if name == "claude-code" { "claude" } else { name };
        stage.program(program, "touch $TOLD/started");
        let refusing =
            EngineSelection { host: HostEnv::fixed([("PATH", "/bin")]), ..EngineSelection::default() };
        let ended = stage.run(&select_engine(Some(name), refusing), &stage.spec()).await;
        assert!(matches!(ended, Err(EngineError::Refused { .. })), "{name}");
        stage.stop.cancel("before");
        let engine = select_engine(Some(name), stage.parts(&[]));
        let result = stage.run(&engine, &stage.spec()).await.unwrap();
        assert_eq!(result.outcome, Some(mesh_harness::outcome::Outcome::Canceled), "{name}");
        assert!(stage.events.all().is_empty() && !stage.path("told/started").exists(), "{name}");
    }
}
