//! Model kinds: registry, middleware, declared capabilities, streaming.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use mesh_harness::log::Log;
use mesh_harness::message::{AgentMessage, Part};
use mesh_harness::model::{
    Call, Correlation, ErrorMapping, Health, HealthTracking, InvokeContext, Invoked, Logging, Middleware,
    ModelCaps, ModelError, ModelInvocation, ModelRef, ModelRegistry, ModelResult, Next, RegistryError,
    SharedModel, Status, StreamSink, chat_model, chat_model_with, emit_whole_call, invoke_streaming,
    with_middleware,
};
use mesh_harness::provider::{ConverseRequest, ScriptedProvider, ScriptedTurn};
use mesh_harness::stop::Stop;
use serde_json::json;

use crate::stand_ins::{Heard, locked, script, spec};

/// A kind that the kernel has never heard of.
struct Doubler {
    calls: Arc<AtomicUsize>,
    caps: ModelCaps,
    seen: SeenIds,
}

type SeenIds = Arc<Mutex<Vec<Option<String>>>>;

struct Half(u32);

#[derive(Debug, PartialEq)]
struct Whole(u32);

fn doubler(streaming: bool) -> (SharedModel<Half, Whole>, Arc<AtomicUsize>, SeenIds) {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::default();
    let caps = ModelCaps { streaming, ..ModelCaps::default() };
    (Arc::new(Doubler { calls: calls.clone(), caps, seen: Arc::clone(&seen) }), calls, seen)
}

impl ModelInvocation<Half, Whole> for Doubler {
    fn id(&self) -> &'static str {
        "doubler"
    }

    fn kind(&self) -> &'static str {
        "x.y"
    }

    fn caps(&self) -> ModelCaps {
        self.caps
    }

    fn invoke<'a>(&'a self, request: Half, context: &'a InvokeContext) -> Invoked<'a, Whole> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        locked(&self.seen).push(context.correlation_id.clone());
        Box::pin(async move {
            match request.0 {
                0 => Err(ModelError::other("nothing to double, said the canary")),
                half => Ok(ModelResult::of(Whole(half * 2))),
            }
        })
    }

    fn probe(&self) -> BoxFuture<'_, Health> {
        Box::pin(std::future::ready(Health { status: Status::Up, detail: None, meta: None }))
    }
}

fn name() -> ModelRef {
    ModelRef::new("x.y", "doubler")
}

#[tokio::test]
async fn a_made_up_kind_resolves_and_keeps_its_types() -> anyhow::Result<()> {
    let mut registry = ModelRegistry::new();
    registry.register_instance(doubler(false).0)?;
    registry.register_instance(chat_model(script([ScriptedTurn::text("hi")])))?;

    let model = registry.resolve::<Half, Whole>(&name())?;
    assert_eq!(model.invoke(Half(21), &InvokeContext::default()).await?.value, Whole(42));
    assert_eq!(registry.kinds(), ["x.y", "chat"]);
    assert_eq!(registry.ids("chat"), ["scripted"]);
    assert_eq!(registry.registered().len(), 2);
    Ok(())
}

#[test]
fn a_name_that_is_not_registered_is_an_error_that_lists_what_is() -> anyhow::Result<()> {
    let mut registry = ModelRegistry::new();
    let error = registry.resolve::<Half, Whole>(&name()).err().expect("nothing is registered").to_string();
    assert!(error.contains("x.y:doubler") && error.contains("none is registered"), "{error}");

    registry.register_instance(doubler(false).0)?;
    let other = ModelRef::new("x.y", "tripler");
    let error = registry.resolve::<Half, Whole>(&other).err().expect("another is registered").to_string();
    assert!(error.contains("x.y:tripler") && error.contains("x.y:doubler"), "{error}");
    assert_eq!(registry.supports(&other).expect_err("it is not there").to_string(), error);
    assert!(registry.supports(&name()).is_ok() && registry.has(&name()));
    Ok(())
}

#[test]
fn a_name_is_registered_once() -> anyhow::Result<()> {
    let mut registry = ModelRegistry::new();
    registry.register_instance(doubler(false).0)?;
    let again = registry.register_instance(doubler(false).0).map(|_| ());
    assert!(matches!(again, Err(RegistryError::Duplicate { name: taken }) if taken == name()));
    Ok(())
}

#[test]
fn a_kind_is_named_once_and_a_factory_cannot_take_a_name_either() -> anyhow::Result<()> {
    let mut registry = ModelRegistry::new();
    registry.register_instance(doubler(false).0)?;
    let again = registry.register::<Half, Whole>(name(), || Ok(doubler(false).0)).map(|_| ());
    assert!(matches!(again, Err(RegistryError::Duplicate { .. })));
    registry.register::<Half, Whole>(ModelRef::new("x.y", "other"), || Ok(doubler(false).0))?;
    assert_eq!(registry.kinds(), ["x.y"]);
    assert_eq!(registry.ids("x.y"), ["doubler", "other"]);
    assert!(registry.ids("chat").is_empty());
    Ok(())
}

#[tokio::test]
async fn a_run_takes_a_provider_or_a_model_as_it_is() -> anyhow::Result<()> {
    use mesh_harness::agent_loop::{AgentRun, run_agent};
    let provider = script([ScriptedTurn::text("one"), ScriptedTurn::text("two")]);
    assert_eq!(run_agent(AgentRun::new(provider.clone()), "go").await?, "one");
    assert_eq!(run_agent(AgentRun::new(chat_model(provider)), "go").await?, "two");
    Ok(())
}

#[test]
fn a_factory_runs_when_its_model_is_asked_for_and_once() -> anyhow::Result<()> {
    let made = Arc::new(AtomicUsize::new(0));
    let mut registry = ModelRegistry::new();
    let counter = made.clone();
    registry.register::<Half, Whole>(name(), move || {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(doubler(false).0)
    })?;
    assert_eq!(made.load(Ordering::SeqCst), 0);
    registry.resolve::<Half, Whole>(&name())?;
    registry.resolve::<Half, Whole>(&name())?;
    assert_eq!(made.load(Ordering::SeqCst), 1);
    Ok(())
}

#[test]
fn other_types_than_the_registered_ones_are_an_error() -> anyhow::Result<()> {
    let mut registry = ModelRegistry::new();
    registry.register_instance(doubler(false).0)?;
    let wrong = registry.resolve::<String, Whole>(&name()).map(|_| ());
    assert!(matches!(wrong, Err(RegistryError::TypeMismatch { .. })), "{wrong:?}");
    Ok(())
}

/// Writes down when it is passed.
struct Tracer(&'static str, Arc<Mutex<Vec<String>>>);

impl Middleware for Tracer {
    fn around<'a>(&'a self, call: Call<'a>, next: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let note = |when| locked(&self.1).push(format!("{when} {}", self.0));
            note("before");
            let ended = next.run(call.context).await;
            note("after");
            ended
        })
    }
}

#[tokio::test]
async fn the_first_middleware_is_outermost_also_when_it_comes_after_the_model() -> anyhow::Result<()> {
    let trace = Arc::default();
    let tracer = |name| Arc::new(Tracer(name, Arc::clone(&trace))) as Arc<dyn Middleware>;
    let mut registry = ModelRegistry::new();
    registry.register_instance(doubler(false).0)?;
    registry.wrap_all([tracer("a"), tracer("b")]);

    registry.resolve::<Half, Whole>(&name())?.invoke(Half(1), &InvokeContext::default()).await?;
    let trace = locked(&trace).clone();
    assert_eq!(trace, ["before a", "before b", "after b", "after a"]);
    Ok(())
}

#[tokio::test]
async fn one_middleware_serves_every_kind() -> anyhow::Result<()> {
    let health = Arc::new(HealthTracking::default());
    let chat = chat_model(script([ScriptedTurn::text("hi")]));
    let chat = with_middleware(chat, vec![health.clone()]);
    let other = with_middleware(doubler(false).0, vec![health.clone()]);
    assert_eq!(health.of(&name()).status, Status::Unknown);

    chat.invoke(ConverseRequest::default(), &InvokeContext::default()).await?;
    assert!(other.invoke(Half(0), &InvokeContext::default()).await.is_err());
    let seen = health.snapshot();
    assert_eq!(seen.get("chat:scripted").map(|health| health.status), Some(Status::Up));
    let down = seen.get("x.y:doubler").expect("it was called");
    assert_eq!(down.status, Status::Down);
    assert!(down.detail.as_deref().is_some_and(|detail| detail.contains("nothing to double")));
    Ok(())
}

#[tokio::test]
async fn a_wrapped_model_keeps_its_name_its_probe_and_what_it_cannot_do() {
    let (model, calls, _) = doubler(false);
    let same = with_middleware(model.clone(), Vec::new());
    assert!(Arc::ptr_eq(&model, &same), "without middleware it is the same model");

    let wrapped = with_middleware(model, vec![Arc::new(Logging)]);
    assert_eq!((wrapped.kind(), wrapped.id(), wrapped.caps()), ("x.y", "doubler", ModelCaps::default()));
    assert_eq!(wrapped.probe().await.status, Status::Up);
    let answer = invoke_streaming(&*wrapped, Half(1), &Silent, &InvokeContext::default()).await;
    assert!(matches!(answer, Err(ModelError::Capability(_))));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_correlation_id_is_minted_once_a_call_unless_the_caller_has_one() -> anyhow::Result<()> {
    let (model, _, seen) = doubler(false);
    let minted = Arc::new(AtomicUsize::new(0));
    let counter = minted.clone();
    let mint = move || format!("id-{}", counter.fetch_add(1, Ordering::SeqCst));
    let model =
        with_middleware(model, vec![Arc::new(Correlation::with(mint)), Arc::new(Correlation::default())]);

    model.invoke(Half(1), &InvokeContext::default()).await?;
    let mine = InvokeContext { correlation_id: Some("mine".into()), ..InvokeContext::default() };
    model.invoke(Half(1), &mine).await?;
    assert_eq!(*locked(&seen), [Some("id-0".to_owned()), Some("mine".to_owned())]);
    assert_eq!(minted.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn logging_says_how_a_call_ended_and_mapping_takes_out_what_must_not_be_shown() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let log = Log::new(move |line| locked(&sink).push(line.to_owned()));
    let mapping = ErrorMapping::new(|_| ModelError::other("withheld"));
    let model = with_middleware(doubler(false).0, vec![Arc::new(Logging), Arc::new(mapping)]);

    let context = InvokeContext { log, ..InvokeContext::default() };
    let error = model.invoke(Half(0), &context).await.expect_err("it fails");
    assert_eq!(error.to_string(), "withheld");
    let line = locked(&lines).join("\n");
    assert!(line.starts_with("x.y:doubler failed in ") && line.ends_with("withheld"), "{line}");
}

struct Silent;
impl StreamSink for Silent {}

#[tokio::test]
async fn a_model_that_does_not_declare_streaming_is_not_called() {
    let (model, calls, _) = doubler(false);
    let answer = invoke_streaming(&*model, Half(1), &Silent, &InvokeContext::default()).await;
    let Err(ModelError::Capability(error)) = answer else { panic!("it streamed") };
    assert_eq!((error.capability, error.id.as_str()), ("streaming", "doubler"));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn streaming_that_is_declared_and_not_there_is_an_error_and_not_imitated() {
    let (model, calls, _) = doubler(true);
    let answer = invoke_streaming(&*model, Half(1), &Silent, &InvokeContext::default()).await;
    assert!(matches!(answer, Err(ModelError::Capability(error)) if error.detail.is_some()));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[test]
fn a_call_that_came_whole_is_told_in_three_parts() {
    let heard = Heard::default();
    emit_whole_call(&heard, "c", "look", &json!({"q": 1}));
    let heard = heard.all();
    assert_eq!(heard, ["start c look", r#"delta {"q":1}"#, r#"complete {"q":1}"#]);
}

fn with_image() -> ConverseRequest {
    let parts = vec![Part { media_type: "image/png".into(), base64: "AAAA".into() }];
    let messages = vec![AgentMessage::User { text: "what is this?".into(), parts }];
    ConverseRequest { messages: Arc::new(messages), ..ConverseRequest::default() }
}

#[tokio::test]
async fn more_than_text_needs_a_model_that_declares_it() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("a cat")]);
    let blind = chat_model(provider.clone()).invoke(with_image(), &InvokeContext::default()).await;
    assert!(matches!(blind, Err(ModelError::Capability(error)) if error.capability == "multimodal_input"));
    assert_eq!(provider.requests().len(), 0);

    let caps = ModelCaps { multimodal_input: true, ..ModelCaps::default() };
    let seeing = chat_model_with(provider, caps);
    assert_eq!(seeing.invoke(with_image(), &InvokeContext::default()).await?.value.text, "a cat");
    Ok(())
}

#[tokio::test]
async fn tools_need_a_model_that_declares_them() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("hi")]);
    let model = chat_model_with(provider.clone(), ModelCaps::default());
    let tools = Arc::new(vec![spec("look")]);
    let request = ConverseRequest { tools, ..ConverseRequest::default() };
    let refused = model.invoke(request, &InvokeContext::default()).await;
    assert!(matches!(refused, Err(ModelError::Capability(error)) if error.capability == "tools"));
    assert_eq!(provider.requests().len(), 0);
    model.invoke(ConverseRequest::default(), &InvokeContext::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_chat_model_declares_what_its_provider_reports_and_makes_up_no_health() {
    let silent = chat_model(script([ScriptedTurn::text("")]));
    let caps = ModelCaps { tools: true, ..ModelCaps::default() };
    assert_eq!(silent.caps(), caps);
    let reporting = ScriptedProvider::new([ScriptedTurn::text("")]).reporting_usage();
    assert_eq!(chat_model(Arc::new(reporting)).caps(), ModelCaps { usage: true, ..caps });
    let health = silent.probe().await;
    assert!(health.status == Status::Unknown && health.detail.is_some());
}

#[tokio::test]
async fn a_call_that_is_stopped_before_it_starts_reaches_no_provider() {
    let provider = script([ScriptedTurn::text("hi")]);
    let stop = Stop::new();
    stop.cancel("enough");
    let context = InvokeContext { stop, ..InvokeContext::default() };
    let answer = chat_model(provider.clone()).invoke(ConverseRequest::default(), &context).await;
    assert!(answer.is_err_and(|error| error.is_stop()));
    assert_eq!((provider.requests().len(), provider.remaining()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_no_longer_than_its_caller_allows() {
    let provider = script([ScriptedTurn::text("hi")]);
    let slow = with_middleware(chat_model(provider), vec![Arc::new(Slow)]);
    let limit = std::time::Duration::from_secs(2);
    let context = InvokeContext { max_duration: Some(limit), ..InvokeContext::default() };
    assert!(
        slow.invoke(ConverseRequest::default(), &context).await.is_ok(),
        "a middleware's time is its own"
    );

    let never = chat_model(Arc::new(Never));
    let answer = never.invoke(ConverseRequest::default(), &context).await;
    assert!(matches!(answer, Err(ModelError::Overtime(over)) if over == limit));
}

/// Takes its time before every call.
struct Slow;

impl Middleware for Slow {
    fn around<'a>(&'a self, call: Call<'a>, next: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            tokio::time::sleep(std::time::Duration::from_secs(9)).await;
            next.run(call.context).await
        })
    }
}

/// Never answers.
struct Never;

impl mesh_harness::provider::Provider for Never {
    fn name(&self) -> &'static str {
        "never"
    }

    fn converse<'a>(
        &'a self,
        _: &'a ConverseRequest,
        _: &'a mesh_harness::provider::ConverseOptions,
    ) -> mesh_harness::provider::Conversing<'a> {
        Box::pin(std::future::pending())
    }
}

/// Answers nothing and asks nobody.
struct Swallows;

impl Middleware for Swallows {
    fn around<'a>(&'a self, _: Call<'a>, _: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn a_middleware_that_swallows_a_call_is_an_error() {
    let model = with_middleware(doubler(false).0, vec![Arc::new(Swallows)]);
    let answer = model.invoke(Half(1), &InvokeContext::default()).await;
    assert!(matches!(answer, Err(ModelError::NoAnswer)));
}

#[tokio::test]
async fn a_script_that_is_stopped_keeps_its_turn() {
    use mesh_harness::provider::{ConverseOptions, Provider as _, ProviderError};
    let provider = script([ScriptedTurn::text("hi")]);
    let options = ConverseOptions::default();
    options.stop.cancel("enough");
    let answer = provider.converse(&ConverseRequest::default(), &options).await;
    assert!(matches!(answer, Err(ProviderError::Stopped { .. })));
    assert_eq!((provider.remaining(), provider.requests().len()), (1, 0));
}

#[test]
fn the_kernel_knows_its_version() -> anyhow::Result<()> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let version = format!("version = \"{}\"", mesh_harness::kernel_version());
    assert!(std::fs::read_to_string(root)?.lines().any(|line| line == version));
    Ok(())
}
