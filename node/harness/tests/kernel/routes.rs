//! Routes, context, and what a run's secrets become.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mesh_harness::agent::RunSpec;
use mesh_harness::agent_loop::RequestedLimits;
use mesh_harness::context::{ContextFragment, ContextProvider, assemble_context};
use mesh_harness::log::Log;
use mesh_harness::model::{BoxError, ChatModel, ModelRef, ModelRegistry, RegistryError, chat_model};
use mesh_harness::provider::{ConverseRequest, ConverseResult, ScriptedTurn};
use mesh_harness::route::{ResolvedRoute, RouteContext, RouteError, RouteResolver as _, StaticRouteResolver};
use mesh_harness::secret::secrets_to_env;
use tokio::time::Instant;

use crate::stand_ins::{locked, script};

fn chat(id: &str) -> ModelRef {
    ModelRef::new("chat", id)
}

#[tokio::test]
async fn a_route_names_a_model_and_has_nothing_else_unless_it_says() -> anyhow::Result<()> {
    let first = ResolvedRoute::new("summarise", chat("old"));
    let again = ResolvedRoute::new("summarise", chat("scripted")).with_prompt("Summarise.");
    let resolver = StaticRouteResolver::new([first, again, ResolvedRoute::new("plain", chat("x"))]);

    let plain = resolver.resolve("plain", &RouteContext::default()).await?;
    assert_eq!((plain.prompt.as_str(), plain.tools.len()), ("", 0));
    assert_eq!((plain.limits, plain.meta), (RequestedLimits::default(), None));

    let route = resolver.resolve("summarise", &RouteContext::default()).await?;
    assert_eq!((route.model.id.as_str(), route.prompt.as_str()), ("scripted", "Summarise."));
    let mut registry = ModelRegistry::new();
    registry.register_instance(chat_model(script([ScriptedTurn::text("hi")])))?;
    let _model: ChatModel = registry.resolve(&route.model)?;
    let unbound = registry.resolve::<ConverseRequest, ConverseResult>(&plain.model).err();
    assert!(matches!(unbound, Some(RegistryError::Unknown { name, .. }) if name == chat("x")));
    Ok(())
}

#[tokio::test]
async fn a_capability_nobody_serves_is_an_error_that_lists_what_is_served() {
    let resolver = StaticRouteResolver::new([ResolvedRoute::new("a", chat("x"))]);
    let error = resolver.resolve("b", &RouteContext::default()).await.expect_err("nobody serves it");
    assert!(matches!(&error, RouteError::Unknown { known, .. } if *known == ["a"]));
    assert!(error.to_string().contains("\"b\"") && error.to_string().contains("\"a\""));
}

/// Texts with their priorities, or a failure.
type Knows = fn() -> Result<Vec<(&'static str, i32)>, BoxError>;

/// Knows some things after a while, or fails in its way.
struct Source {
    name: &'static str,
    knows: Knows,
    after: Duration,
}

impl ContextProvider for Source {
    fn name(&self) -> &str {
        self.name
    }

    fn assemble<'a>(&'a self, _: &'a RunSpec) -> BoxFuture<'a, Result<Vec<ContextFragment>, BoxError>> {
        Box::pin(async {
            tokio::time::sleep(self.after).await;
            let fragment = |(text, priority): (&str, i32)| ContextFragment {
                source: self.name.into(),
                text: text.into(),
                priority,
                meta: None,
            };
            Ok((self.knows)()?.into_iter().map(fragment).collect())
        })
    }
}

fn source(name: &'static str, after: u64, knows: Knows) -> Arc<dyn ContextProvider> {
    Arc::new(Source { name, knows, after: Duration::from_millis(after) })
}

#[tokio::test(start_paused = true)]
async fn sources_are_asked_at_once_and_sorted_by_priority() {
    let providers = [
        source("slow", 200, || Ok(vec![("one", 0), ("first", 5)])),
        source("quick", 200, || Ok(vec![("two", 0), ("last", -1)])),
    ];
    let spec = RunSpec { context: "known".into(), ..RunSpec::default() };
    let started = Instant::now();
    let context = assemble_context(&providers, &spec, &Log::silent()).await;
    assert!(started.elapsed() < Duration::from_millis(350));
    let expected = "known\n\n## slow\n\nfirst\n\n## slow\n\none\n\n## quick\n\ntwo\n\n## quick\n\nlast";
    assert_eq!(context, expected);
}

#[tokio::test]
async fn a_source_that_fails_or_panics_is_left_out_and_named() {
    let providers = [
        source("fails", 0, || Err("no route to host".into())),
        source("panics", 0, || panic!("a broken source")),
        source("works", 0, || Ok(vec![("fine", 0)])),
    ];
    let said = Arc::new(Mutex::new(Vec::new()));
    let kept = said.clone();
    let log = Log::new(move |line| locked(&kept).push(line.to_owned()));
    let context = assemble_context(&providers, &RunSpec::default(), &log).await;
    assert_eq!(context, "## works\n\nfine");
    assert_eq!(
        *locked(&said),
        ["no context from fails: no route to host", "no context from panics: it panicked"]
    );
}

#[tokio::test]
async fn without_sources_the_context_is_the_runs_own() {
    let spec = RunSpec { context: "as it is\n".into(), ..RunSpec::default() };
    assert_eq!(assemble_context(&[], &spec, &Log::silent()).await, "as it is\n");
}

#[test]
fn secrets_become_variables_as_they_are_and_are_not_shown() {
    let secrets = BTreeMap::from([("TOKEN".to_owned(), "canary-1".into()), ("EMPTY".to_owned(), "".into())]);
    let env = secrets_to_env(&secrets);
    assert_eq!(env, secrets);
    assert!(!format!("{env:?}").contains("canary"));
    assert!(secrets_to_env(&BTreeMap::new()).is_empty());
}
