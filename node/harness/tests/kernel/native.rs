//! The engine in this process, and choosing an engine by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mesh_harness::agent::{
    AgentEngine as _, EngineContext, EngineError, EngineSelection, NativeEngine, OpenTools, RunSpec,
    ToolSource, select_engine,
};
use mesh_harness::agent_loop::{Loop, LoopContext, LoopRequest, LoopResult, Looping, RunError};
use mesh_harness::connector::ConnectorConfig;
use mesh_harness::context::{ContextFragment, ContextProvider};
use mesh_harness::environment::{Instructions, RunEnvironment};
use mesh_harness::event::record_run_events;
use mesh_harness::host::HostEnv;
use mesh_harness::message::AgentMessage;
use mesh_harness::model::BoxError;
use mesh_harness::outcome::Outcome;
use mesh_harness::provider::ProviderSelection;
use mesh_harness::stop::Stop;
use mesh_harness::tool::SharedTool;
use serde_json::json;
use tokio::time::Instant;

use crate::stand_ins::{answering, locked, no_host};

/// Tells what it was handed.
#[derive(Default)]
struct Shows(std::sync::Mutex<Option<(LoopRequest, Option<String>)>>);

impl Loop for Shows {
    fn name(&self) -> &'static str {
        "shows"
    }

    fn run<'a>(&'a self, request: LoopRequest, context: &'a LoopContext) -> Looping<'a> {
        *locked(&self.0) = Some((request, context.run_id.clone()));
        Box::pin(async { Ok(LoopResult::completed("shown", 0)) })
    }
}

impl Shows {
    fn tools(&self) -> Vec<String> {
        let shown = locked(&self.0);
        let tools = shown.iter().flat_map(|(request, _)| &request.tools);
        tools.map(|tool| tool.spec().name.clone()).collect()
    }
}

/// Brings a tool, and counts how often it is opened and closed.
#[derive(Default)]
struct Brings {
    name: &'static str,
    opened: AtomicUsize,
    closed: Arc<AtomicUsize>,
    /// How long opening takes.
    takes: Duration,
    fails: bool,
}

impl ToolSource for Brings {
    fn name(&self) -> &str {
        self.name
    }

    fn open<'a>(&'a self, _: &'a RunSpec, _: &'a Stop) -> BoxFuture<'a, Result<OpenTools, BoxError>> {
        Box::pin(async {
            tokio::time::sleep(self.takes).await;
            if self.fails {
                return Err("no such server".into());
            }
            self.opened.fetch_add(1, Ordering::SeqCst);
            let closed = self.closed.clone();
            let closing = async move {
                closed.fetch_add(1, Ordering::SeqCst);
            };
            Ok(OpenTools::closed_by(vec![answering(self.name, "x").0], closing))
        })
    }
}

fn brings(name: &'static str) -> Arc<Brings> {
    Arc::new(Brings { name, ..Brings::default() })
}

fn spec() -> RunSpec {
    let mut spec = RunSpec { provider: ProviderSelection::of("mock"), ..RunSpec::default() };
    spec.workflow.prompt = "Tidy up.".into();
    spec.connectors = vec![ConnectorConfig { name: "docs".into(), ..ConnectorConfig::default() }];
    spec
}

fn parts(control: Arc<dyn Loop>, primitives: &Arc<Brings>, connectors: &Arc<Brings>) -> EngineSelection {
    EngineSelection {
        control: Some(control),
        primitives: Some(primitives.clone()),
        connectors: Some(connectors.clone()),
        host: no_host(),
        ..EngineSelection::default()
    }
}

#[tokio::test]
async fn an_engine_is_chosen_by_name_and_the_native_one_else() -> anyhow::Result<()> {
    for name in [None, Some("native"), Some("no-such-engine"), Some("")] {
        let selection = EngineSelection { host: no_host(), ..EngineSelection::default() };
        let engine = select_engine(name, selection);
        assert_eq!(engine.name(), "native");
        let only_mock = RunSpec { connectors: Vec::new(), ..spec() };
        engine.supports(&only_mock)?;
        let result = engine.run(&only_mock, EngineContext::default()).await?;
        assert_eq!(result.outcome, Some(Outcome::Completed));
        assert!(result.text.contains("mock provider") && result.emissions.is_none());
    }
    Ok(())
}

#[tokio::test]
async fn permissions_choose_among_primitives_and_own_tools_and_not_among_connectors() -> anyhow::Result<()> {
    let all = ["write_note", "read_file", "docs__search"];
    for (allowed, expected) in [
        (None, &all[..]),
        (Some(vec!["read_file"]), &["read_file", "docs__search"][..]),
        (Some(vec![]), &["docs__search"][..]),
    ] {
        let shows = Arc::new(Shows::default());
        let mut parts = parts(shows.clone(), &brings("read_file"), &brings("docs__search"));
        parts.domain_tools = Some(Arc::new(|_| vec![answering("write_note", "x").0 as SharedTool]));
        let mut spec = spec();
        spec.run_id = "run-7".into();
        spec.permissions.tools = allowed.map(|names| names.into_iter().map(str::to_owned).collect());
        let result = NativeEngine::new(parts).run(&spec, EngineContext::default()).await?;
        assert_eq!(result.text, "shown");
        assert_eq!(shows.tools(), expected);
        assert_eq!(locked(&shows.0).as_ref().and_then(|(_, id)| id.clone()).as_deref(), Some("run-7"));
    }
    Ok(())
}

struct Knows;

impl ContextProvider for Knows {
    fn name(&self) -> &'static str {
        "calendar"
    }

    fn assemble<'a>(&'a self, _: &'a RunSpec) -> BoxFuture<'a, Result<Vec<ContextFragment>, BoxError>> {
        let fragment =
            ContextFragment { source: "Calendar".into(), text: "It is Monday.".into(), ..Default::default() };
        Box::pin(async { Ok(vec![fragment]) })
    }
}

#[tokio::test]
async fn a_run_begins_with_its_task_its_inputs_its_context_and_its_environment() -> anyhow::Result<()> {
    let shows = Arc::new(Shows::default());
    let mut parts = parts(shows.clone(), &brings("a"), &brings("b"));
    parts.context_providers = vec![Arc::new(Knows)];
    let engine = NativeEngine::new(parts);
    let mut spec = spec();
    spec.inputs.insert("room".into(), json!("kitchen"));
    spec.context = "The house is old.".into();
    let begun = async |spec: &RunSpec| -> anyhow::Result<(String, Vec<AgentMessage>)> {
        engine.run(spec, EngineContext::default()).await?;
        let shown = locked(&shows.0).take();
        let (request, _) = shown.ok_or_else(|| anyhow::anyhow!("not run"))?;
        Ok((request.system.to_string(), request.messages))
    };

    let (plain, messages) = begun(&spec).await?;
    let task = "Tidy up.\n\n# Inputs\n\n```json\n{\n  \"room\": \"kitchen\"\n}\n```\n\n# Context\n\nThe house is old.\n\n## Calendar\n\nIt is Monday.";
    assert_eq!(messages, [AgentMessage::user(task)]);

    spec.environment = Some(RunEnvironment::default());
    assert_eq!(begun(&spec).await?.0, plain, "an empty environment changes no byte");
    let instructions = Instructions { system: Some("Be brief.".into()), agents_md: Some("Lint.".into()) };
    spec.environment = Some(RunEnvironment { instructions, ..RunEnvironment::default() });
    assert_eq!(begun(&spec).await?.0, format!("{plain}\n\nBe brief.\n\nLint."));
    Ok(())
}

#[tokio::test]
async fn a_run_without_a_key_is_refused_before_anything_is_set_up() {
    let (primitives, connectors) = (brings("a"), brings("b"));
    let engine = NativeEngine::new(parts(Arc::new(Shows::default()), &primitives, &connectors));
    for preferred in [Some("openai"), None, Some("typo")] {
        let mut spec = spec();
        spec.provider.preferred = preferred.map(str::to_owned);
        let refusal = engine.supports(&spec).expect_err("no key");
        let error = engine.run(&spec, EngineContext::default()).await.expect_err("no key");
        assert!(matches!(error, EngineError::Refused { refusal: again, .. } if again == refusal));
    }
    assert_eq!(primitives.opened.load(Ordering::SeqCst) + connectors.opened.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn without_other_sources_the_native_engine_has_the_kernels_own_tools() -> anyhow::Result<()> {
    let shows = Arc::new(Shows::default());
    let own = EngineSelection { control: Some(shows.clone()), host: no_host(), ..EngineSelection::default() };
    let engine = NativeEngine::new(own);
    let mut spec = RunSpec { connectors: Vec::new(), ..spec() };
    engine.run(&spec, EngineContext::default()).await?;
    assert_eq!(shows.tools(), ["run_code", "read_file", "list_files", "http_fetch"]);
    spec.permissions.tools = Some(vec!["read_file".into()]);
    engine.run(&spec, EngineContext::default()).await?;
    assert_eq!(shows.tools(), ["read_file"]);
    spec.connectors = vec![ConnectorConfig { name: "docs".into(), ..ConnectorConfig::default() }];
    let failed = engine.run(&spec, EngineContext::default()).await;
    assert!(matches!(failed, Err(EngineError::Setup { .. })), "{failed:?}");
    Ok(())
}

#[tokio::test]
async fn a_runs_hosts_and_secrets_reach_its_tools() -> anyhow::Result<()> {
    use mesh_harness::message::JsonObject;
    use mesh_harness::primitive::Primitives;
    use mesh_harness::tool::ToolContext;
    let workdir = tempfile::tempdir()?;
    let mut spec = RunSpec { workdir: workdir.path().to_owned(), ..spec() };
    spec.permissions.hosts = Some(vec!["allowed.example".into()]);
    spec.secrets.insert("TOKEN".into(), "s3cret".into());
    let open = Primitives { host: HostEnv::process(), code: None }.open(&spec, &Stop::new()).await;
    let open = open.map_err(|error| anyhow::anyhow!(error))?;
    let call = async |name: &str, input: serde_json::Value| {
        let tool = open.tools.iter().find(|tool| tool.spec().name == name).expect("a primitive");
        let input: JsonObject = input.as_object().cloned().unwrap_or_default();
        tool.execute(input, &ToolContext::default()).await
    };
    let elsewhere = call("http_fetch", json!({"url": "https://other.example/"})).await.expect_err("refused");
    assert!(elsewhere.to_string().contains("not among the hosts"), "{elsewhere}");
    let code = call("run_code", json!({"command": "printf %s \"$TOKEN\""})).await?;
    assert!(code.content.contains("s3cret"), "{}", code.content);
    open.close().await;
    Ok(())
}

/// Never comes to an end.
struct Ponders;

impl ContextProvider for Ponders {
    fn name(&self) -> &'static str {
        "ponders"
    }

    fn assemble<'a>(&'a self, _: &'a RunSpec) -> BoxFuture<'a, Result<Vec<ContextFragment>, BoxError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_context_that_stalls_is_stopped_too() -> anyhow::Result<()> {
    let (primitives, connectors) = (brings("a"), brings("b"));
    let mut parts = parts(Arc::new(Shows::default()), &primitives, &connectors);
    parts.context_providers = vec![Arc::new(Ponders)];
    let engine = NativeEngine::new(parts);
    let context = EngineContext::default();
    let stop = context.stop.clone();
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel("enough");
    };
    let started = Instant::now();
    let spec = spec();
    let (result, ()) = tokio::join!(engine.run(&spec, context), stopping);
    assert_eq!(result?.outcome, Some(Outcome::Canceled));
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(primitives.opened.load(Ordering::SeqCst) + connectors.opened.load(Ordering::SeqCst), 0);
    Ok(())
}

/// Ends as it is told.
struct Ends(fn() -> Result<LoopResult, RunError>);

impl Loop for Ends {
    fn name(&self) -> &'static str {
        "ends"
    }

    fn run<'a>(&'a self, _: LoopRequest, _: &'a LoopContext) -> Looping<'a> {
        Box::pin(async { (self.0)() })
    }
}

/// Waits until it is stopped, and says why.
struct Waits;

impl Loop for Waits {
    fn name(&self) -> &'static str {
        "waits"
    }

    fn run<'a>(&'a self, _: LoopRequest, context: &'a LoopContext) -> Looping<'a> {
        Box::pin(async { Ok(LoopResult::completed(context.stop.fired().await.to_string(), 0)) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_runs_time_is_that_of_its_setup_and_its_loop_together() -> anyhow::Result<()> {
    let slow = Arc::new(Brings { name: "b", takes: Duration::from_millis(1_500), ..Brings::default() });
    let engine = NativeEngine::new(parts(Arc::new(Waits), &brings("a"), &slow));
    let mut spec = spec();
    spec.limits.max_duration_ms = Some(2_000);
    let started = Instant::now();
    let result = engine.run(&spec, EngineContext::default()).await?;
    assert_eq!(result.text, "the time limit of 2s was reached");
    assert!(started.elapsed() < Duration::from_millis(2_100), "{:?}", started.elapsed());
    Ok(())
}

#[tokio::test]
async fn what_was_opened_is_closed_once_however_the_run_ends() {
    let (good, bad): (Arc<dyn Loop>, Arc<dyn Loop>) = (
        Arc::new(Ends(|| Ok(LoopResult::completed("", 0)))),
        Arc::new(Ends(|| Err(RunError::other("broken")))),
    );
    for (control, is_ok) in [(good, true), (bad, false)] {
        let (primitives, connectors) = (brings("a"), brings("b"));
        let engine = NativeEngine::new(parts(control, &primitives, &connectors));
        assert_eq!(engine.run(&spec(), EngineContext::default()).await.is_ok(), is_ok);
        assert_eq!(primitives.closed.load(Ordering::SeqCst), 1);
        assert_eq!(connectors.closed.load(Ordering::SeqCst), 1);
    }
    let primitives = brings("a");
    let connectors = Arc::new(Brings { name: "b", fails: true, ..Brings::default() });
    let engine = NativeEngine::new(parts(Arc::new(Shows::default()), &primitives, &connectors));
    let error = engine.run(&spec(), EngineContext::default()).await.expect_err("no server");
    assert!(matches!(error, EngineError::Setup { what, .. } if what == "b"));
    assert_eq!(primitives.closed.load(Ordering::SeqCst), 1, "the first is closed when the second fails");
}

#[tokio::test]
async fn what_was_opened_is_closed_when_the_loop_panics() {
    let (primitives, connectors) = (brings("a"), brings("b"));
    let broken: Arc<dyn Loop> = Arc::new(Ends(|| panic!("a broken loop")));
    let engine = NativeEngine::new(parts(broken, &primitives, &connectors));
    let run = tokio::spawn(async move { engine.run(&spec(), EngineContext::default()).await });
    assert!(run.await.is_err_and(|error| error.is_panic()), "the panic goes on");
    assert_eq!(primitives.closed.load(Ordering::SeqCst), 1);
    assert_eq!(connectors.closed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_log_that_panics_changes_nothing() -> anyhow::Result<()> {
    let mut parts = parts(Arc::new(Shows::default()), &brings("a"), &brings("b"));
    parts.context_providers = vec![Arc::new(Forgets)];
    let log = mesh_harness::log::Log::new(|_| panic!("a broken log"));
    let context = EngineContext { log, ..EngineContext::default() };
    assert_eq!(NativeEngine::new(parts).run(&spec(), context).await?.text, "shown");
    Ok(())
}

struct Forgets;

impl ContextProvider for Forgets {
    fn name(&self) -> &'static str {
        "forgets"
    }

    fn assemble<'a>(&'a self, _: &'a RunSpec) -> BoxFuture<'a, Result<Vec<ContextFragment>, BoxError>> {
        Box::pin(async { Err("what was it?".into()) })
    }
}

#[tokio::test]
async fn a_stop_before_the_start_sets_nothing_up_and_emits_nothing() -> anyhow::Result<()> {
    let (primitives, connectors) = (brings("a"), brings("b"));
    let engine = NativeEngine::new(parts(Arc::new(Shows::default()), &primitives, &connectors));
    let (sink, events) = record_run_events();
    let context = EngineContext { sink: Some(sink), ..EngineContext::default() };
    context.stop.cancel("never mind");
    let result = engine.run(&spec(), context).await?;
    assert_eq!(result.outcome, Some(Outcome::Canceled));
    assert!(events.all().is_empty());
    assert_eq!(primitives.opened.load(Ordering::SeqCst), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_setup_that_stalls_is_stopped_and_what_was_opened_is_closed() -> anyhow::Result<()> {
    for (by_caller, outcome) in [(true, Outcome::Canceled), (false, Outcome::TimedOut)] {
        let primitives = brings("a");
        let stalls = Arc::new(Brings { name: "b", takes: Duration::from_secs(3600), ..Brings::default() });
        let engine = NativeEngine::new(parts(Arc::new(Shows::default()), &primitives, &stalls));
        let mut spec = spec();
        spec.limits.max_duration_ms = (!by_caller).then_some(2_000);
        let context = EngineContext::default();
        let stop = context.stop.clone();
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if by_caller {
                stop.cancel("enough");
            }
        };
        let started = Instant::now();
        let (result, ()) = tokio::join!(engine.run(&spec, context), stopping);
        assert_eq!(result?.outcome, Some(outcome));
        assert!(started.elapsed() < Duration::from_secs(4));
        assert_eq!((primitives.closed.load(Ordering::SeqCst), stalls.opened.load(Ordering::SeqCst)), (1, 0));
    }
    Ok(())
}

#[test]
fn a_spec_is_shown_without_its_credentials() {
    let mut spec = spec();
    spec.secrets.insert("TOKEN".into(), "canary-1".into());
    spec.provider.credentials.openai = Some("canary-2".into());
    spec.connectors[0].headers.insert("authorization".into(), "canary-3".into());
    let selection =
        EngineSelection { host: HostEnv::fixed([("KEY", "canary-4")]), ..EngineSelection::default() };
    let shown = format!("{spec:?} {selection:?} {:?}", NativeEngine::new(selection.clone()));
    assert!(!shown.contains("canary"), "{shown}");
}
