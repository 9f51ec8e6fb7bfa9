//! The engine in this process: a provider, the tools of the run, and a loop.
//!
//! ```text
//!   refused ──> stopped before ──> provider, context, tools ──> loop ──> tools closed ──> result
//! ```
//!
//! Invariants: a stop that has fired before the start sets nothing up and emits nothing; tools that were opened are
//! closed however the run ends; a private run is asked of a local server or not at all.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::{
    AgentEngine, EngineContext, EngineError, EngineResult, EngineRun, EngineSelection, OpenTools, Refusal,
    RunSpec, prompt, rules,
};
use crate::agent_loop::{
    LoopLimits, LoopRequest, LoopResult, NativeLoop, RunContext, RunError, SharedLoop, resolve_loop_limits,
    run_with_events,
};
use crate::connector::{ConnectorOptions, Connectors};
use crate::context::assemble_context;
use crate::event::RunEvents;
use crate::limits::STOP_GRACE;
use crate::log::Log;
use crate::message::AgentMessage;
use crate::model::{chat_model, is_stop};
use crate::outcome::Outcome;
use crate::primitive::Primitives;
use crate::private::{PrivatePhase, PrivateRunError};
use crate::provider::{
    Credentials, Provider, ProviderOptions, ProviderSelection, provider_availability, select_provider,
};
use crate::stop::{Stop, StopReason};
use crate::tool::{SharedTool, ToolScope, select_tools};

const NAME: &str = "native";

/// The provider that keeps a run on this host.
const LOCAL: &str = "local";

/// Runs agents in this process.
#[derive(Debug)]
pub struct NativeEngine {
    parts: EngineSelection,
}

/// What was set up for a run.
struct Ready {
    provider: Arc<dyn Provider>,
    context: String,
    /// Before permissions: what they do not touch.
    connected: Vec<SharedTool>,
    /// What they select from.
    permitted: Vec<SharedTool>,
}

/// Why a run did not get to its loop.
enum NotReady {
    Stopped(StopReason),
    Failed(EngineError),
}

impl NativeEngine {
    /// An engine with these parts. Where they bring no source of tools, it has the kernel's own: the primitives, and
    /// clients of the run's connectors.
    #[must_use]
    pub fn new(mut parts: EngineSelection) -> Self {
        let host = &parts.host;
        parts.primitives.get_or_insert_with(|| Arc::new(Primitives { host: host.clone(), code: None }));
        parts.connectors.get_or_insert_with(|| {
            Arc::new(Connectors {
                options: ConnectorOptions { host: host.clone(), ..ConnectorOptions::default() },
            })
        });
        Self { parts }
    }

    /// Whether the run is one for this engine, on this host.
    fn check(&self, spec: &RunSpec) -> Result<(), Refusal> {
        if spec.private {
            self.check_private(spec)?;
        }
        rules::check_credentials(spec, &self.parts.host, &host_keys(spec))?;
        let selection = through_gateway(spec);
        provider_availability(&selection, &self.parts.host)
            .map_err(|error| Refusal::because(error.to_string()))
    }

    fn check_private(&self, spec: &RunSpec) -> Result<(), Refusal> {
        if spec.provider.preferred.as_deref() != Some(LOCAL) {
            return Err(Refusal::because("a private run names the provider local"));
        }
        if self.parts.host.get("LOCAL_MODEL_BASE_URL").is_none() {
            return Err(Refusal::because("a private run needs LOCAL_MODEL_BASE_URL"));
        }
        Ok(())
    }

    async fn execute(&self, spec: &RunSpec, context: EngineContext) -> Result<EngineResult, EngineError> {
        self.check(spec).map_err(|refusal| EngineError::Refused { engine: NAME.into(), refusal })?;
        if let Some(reason) = context.stop.reason() {
            return Ok(not_started(reason));
        }
        let mut open = Vec::new();
        let ended = AssertUnwindSafe(self.set_up_and_loop(spec, context, &mut open)).catch_unwind().await;
        for tools in open {
            // A server that does not let itself be closed does not keep the result.
            let _too_late = tokio::time::timeout(STOP_GRACE, tools.close()).await;
        }
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    }

    async fn set_up_and_loop(
        &self,
        spec: &RunSpec,
        context: EngineContext,
        open: &mut Vec<OpenTools>,
    ) -> Result<EngineResult, EngineError> {
        let limits = resolve_loop_limits(spec.limits, &self.parts.host);
        let stop = context.stop.child();
        let context = EngineContext { stop: stop.clone(), ..context };
        // One limit for all of it; the loop's own begins later, and ends later.
        stop.within(limits.max_duration, self.within_limits(spec, context, limits, open)).await
    }

    async fn within_limits(
        &self,
        spec: &RunSpec,
        context: EngineContext,
        limits: LoopLimits,
        open: &mut Vec<OpenTools>,
    ) -> Result<EngineResult, EngineError> {
        let log = if spec.private { Log::silent() } else { context.log.clone() };
        let ready = match self.set_up(spec, &context.stop, &log, open).await {
            Ok(ready) => ready,
            Err(NotReady::Stopped(reason)) => return Ok(not_started(&reason)),
            Err(NotReady::Failed(_)) if spec.private => return Err(withheld(PrivatePhase::Setup)),
            Err(NotReady::Failed(error)) => return Err(error),
        };
        let allowed = spec.permissions.tools.as_deref();
        let mut tools = select_tools(&ready.permitted, &ToolScope { allowed, ..ToolScope::default() });
        tools.extend(ready.connected);
        let request = LoopRequest {
            model: chat_model(ready.provider),
            system: prompt::system(spec).into(),
            messages: vec![AgentMessage::user(prompt::task(spec, &ready.context))],
            tools,
            limits,
            options: Arc::new(ProviderOptions::default()),
        };
        match self.run_loop(spec, context, request).await {
            Ok(result) => {
                Ok(EngineResult { text: result.text, emissions: None, outcome: Some(result.outcome) })
            }
            Err(_) if spec.private => Err(withheld(PrivatePhase::Loop)),
            Err(error) => Err(error.into()),
        }
    }

    async fn run_loop(
        &self,
        spec: &RunSpec,
        context: EngineContext,
        request: LoopRequest,
    ) -> Result<LoopResult, RunError> {
        let events = if spec.private {
            RunEvents::private(context.sink, context.log.clone())
        } else {
            RunEvents::new(context.sink, context.log.clone())
        };
        let control: SharedLoop = self.parts.control.clone().unwrap_or_else(|| Arc::new(NativeLoop));
        let run_id = (!spec.run_id.is_empty()).then(|| spec.run_id.clone());
        let context =
            RunContext { log: context.log, stop: context.stop, run_id, host: self.parts.host.clone() };
        run_with_events(&*control, request, &events, context).await
    }

    async fn set_up(
        &self,
        spec: &RunSpec,
        stop: &Stop,
        log: &Log,
        open: &mut Vec<OpenTools>,
    ) -> Result<Ready, NotReady> {
        let provider = select_provider(&through_gateway(spec), &self.parts.host)
            .map_err(|error| NotReady::Failed(error.into()))?;
        if spec.private && provider.name() != LOCAL {
            return Err(NotReady::Failed(withheld(PrivatePhase::Setup)));
        }
        let assembling = assemble_context(&self.parts.context_providers, spec, log);
        let context = stop.or_drop(assembling).await.map_err(NotReady::Stopped)?;
        let mut permitted = Vec::new();
        if let Some(domain) = &self.parts.domain_tools {
            permitted.extend(domain(spec.permissions.tools.as_deref()));
        }
        let mut connected = Vec::new();
        let primitives = self.parts.primitives.iter().map(|source| (source, true));
        let connectors = self.parts.connectors.iter().filter(|_| !spec.connectors.is_empty());
        for (source, is_gated) in primitives.chain(connectors.map(|source| (source, false))) {
            let opened = match stop.or_give_up(source.open(spec, stop)).await {
                Ok(Ok(opened)) => opened,
                Ok(Err(error)) if stop.is_fired() && is_stop(&*error) => {
                    return Err(NotReady::Stopped(stop.fired().await));
                }
                Ok(Err(error)) => {
                    let what = source.name().to_owned();
                    return Err(NotReady::Failed(EngineError::Setup { what, source: error }));
                }
                Err(reason) => return Err(NotReady::Stopped(reason)),
            };
            let tools = opened.tools.iter().cloned();
            if is_gated {
                permitted.extend(tools)
            } else {
                connected.extend(tools)
            }
            open.push(opened);
            stop.check().map_err(NotReady::Stopped)?;
        }
        Ok(Ready { provider, context, connected, permitted })
    }
}

impl AgentEngine for NativeEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, spec: &RunSpec) -> Result<(), Refusal> {
        self.check(spec)
    }

    fn run<'a>(&'a self, spec: &'a RunSpec, context: EngineContext) -> EngineRun<'a> {
        Box::pin(self.execute(spec, context))
    }
}

/// A run that was stopped before its loop: no events, no answer.
fn not_started(reason: &StopReason) -> EngineResult {
    let outcome = match reason {
        StopReason::Canceled(_) => Outcome::Canceled,
        StopReason::Deadline(_) => Outcome::TimedOut,
    };
    EngineResult { text: String::new(), emissions: None, outcome: Some(outcome) }
}

fn withheld(phase: PrivatePhase) -> EngineError {
    EngineError::Private(PrivateRunError { phase })
}

/// The selection of a run, with the gateway in place of every cloud provider if it has one: its address, and the run's
/// token as the only key.
fn through_gateway(spec: &RunSpec) -> ProviderSelection {
    let Some(gateway) = &spec.gateway else { return spec.provider.clone() };
    let token = || Some(gateway.run_token.clone());
    let mut selection = spec.provider.clone();
    if selection.preferred.is_none() {
        selection.preferred = selection.credentials.first().map(str::to_owned);
    }
    selection.credentials = Credentials { anthropic: token(), openai: token(), openrouter: token() };
    selection.env_fallback = false;
    selection.base_urls = super::gateway::ROUTED
        .iter()
        .map(|&name| (name.to_owned(), gateway.endpoint(name)))
        .collect::<BTreeMap<_, _>>();
    selection
}

/// The variables of the host that this run's model calls would take a key from.
fn host_keys(spec: &RunSpec) -> Vec<&'static str> {
    let all = [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ];
    let preferred = spec.provider.preferred.as_deref();
    if preferred == Some(LOCAL) {
        // It is used whatever the run says, also beside a gateway, which has no way to it.
        return vec!["LOCAL_MODEL_API_KEY"];
    }
    if !rules::may_use_host_key(spec) {
        return Vec::new();
    }
    let is_meant = |name: &str| preferred.is_none_or(|preferred| preferred == name);
    all.into_iter().filter(|(name, _)| is_meant(name)).map(|(_, variable)| variable).collect()
}
