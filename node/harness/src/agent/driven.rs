//! What every engine that drives a program does alike, around the one thing it does differently.
//!
//! ```text
//!   refused ──> stopped before ──> surface served, context ──> driven ──> was it contacted? ──> emissions ──> result
//! ```
//!
//! Invariants: nothing is set up for a run that is refused or stopped before; the program and all it started are gone
//! when the run ends; an answer of a program that never asked for its capabilities is not believed.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::surface::{self, Plan, Surface};
use super::{
    AgentEngine, EngineContext, EngineError, EngineResult, EngineRun, EngineSelection, Refusal, RunSpec,
    prompt, rules, servers,
};
use crate::agent_loop::resolve_loop_limits;
use crate::connector::ConnectorAuth;
use crate::context::assemble_context;
use crate::environment::{Harness, compile_environment};
use crate::event::{Bookend, OpenRun, RunEvents};
use crate::log::Log;
use crate::outcome::Outcome;
use crate::secret::Secret;
use crate::stop::{Stop, StopReason};
use servers::Server;

/// What is known of an engine that drives a program.
pub(super) struct About<'a> {
    /// The engine's name.
    pub(super) name: &'a str,
    /// The variable of the host that switches it on.
    pub(super) enable: &'a str,
    /// The variable of the host that it may take a key from.
    pub(super) host_key: Option<&'a str>,
    /// What the application brought.
    pub(super) parts: &'a EngineSelection,
}

/// An engine that drives a program.
pub(super) trait Driver: Send + Sync {
    /// What is known of it.
    fn about(&self) -> About<'_>;

    /// What only this engine refuses. Nothing, unless it says so.
    fn check(&self, _: &RunSpec) -> Result<(), Refusal> {
        Ok(())
    }

    /// Runs the program to its end, or until the stop fires. Nothing of it is left running.
    fn drive<'a>(&'a self, drive: Drive<'a>) -> BoxFuture<'a, Result<Finished, EngineError>>;
}

/// A run, as a program gets it.
pub(super) struct Drive<'a> {
    pub(super) spec: &'a RunSpec,
    /// The task in words.
    pub(super) task: String,
    /// The surface if there is one, then the connectors.
    pub(super) servers: Vec<Server>,
    /// The names of the surface's tools, as far as they are known.
    pub(super) capabilities: Vec<String>,
    pub(super) log: &'a Log,
    pub(super) stop: &'a Stop,
}

impl Drive<'_> {
    /// The task, below what the environment has such an agent told first.
    pub(super) fn prompt(&self, harness: Harness) -> String {
        let compiled = compile_environment(self.spec.environment.as_ref(), harness);
        compiled.instructions.into_iter().chain([self.task.clone()]).collect::<Vec<_>>().join("\n\n")
    }

    /// Whether the run has capabilities.
    pub(super) fn has_surface(&self) -> bool {
        self.servers.iter().any(|server| server.name == servers::SURFACE)
    }
}

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) text: String,
    pub(super) outcome: Outcome,
}

impl Finished {
    /// A run that was stopped, with what the program had said until then.
    pub(super) fn stopped(reason: &StopReason, text: String) -> Self {
        let outcome = match reason {
            StopReason::Canceled(_) => Outcome::Canceled,
            StopReason::Deadline(_) => Outcome::TimedOut,
        };
        Self { text, outcome }
    }
}

impl<D: Driver> AgentEngine for D {
    fn name(&self) -> &str {
        self.about().name
    }

    fn supports(&self, spec: &RunSpec) -> Result<(), Refusal> {
        supports(self, spec)
    }

    fn run<'a>(&'a self, spec: &'a RunSpec, context: EngineContext) -> EngineRun<'a> {
        Box::pin(run(self, spec, context))
    }
}

/// Whether a run is one for this engine, on this host.
fn supports(driver: &impl Driver, spec: &RunSpec) -> Result<(), Refusal> {
    let About { enable, parts, .. } = driver.about();
    rules::check_isolation(spec, &parts.host, enable)?;
    let host_key = host_key(driver, spec).map(|(variable, _)| variable);
    rules::check_credentials(spec, &parts.host, host_key.as_slice())?;
    surface::check(parts)?;
    servers::connectors(spec)?;
    driver.check(spec)
}

/// The key of the host that this run may use, with the name of its variable.
pub(super) fn host_key<'a>(driver: &'a impl Driver, spec: &RunSpec) -> Option<(&'a str, Secret)> {
    let About { host_key, parts, .. } = driver.about();
    let variable = host_key.filter(|_| rules::may_use_host_key(spec))?;
    Some((variable, parts.host.get(variable)?.into()))
}

/// The run's own key for a provider, else the host's.
pub(super) fn key(driver: &impl Driver, spec: &RunSpec, provider: &str) -> Option<Secret> {
    let own = spec.provider.credentials.of(provider).cloned();
    own.or_else(|| host_key(driver, spec).map(|(_, key)| key))
}

/// Does a run.
async fn run(
    driver: &impl Driver,
    spec: &RunSpec,
    context: EngineContext,
) -> Result<EngineResult, EngineError> {
    let About { name, parts, .. } = driver.about();
    let refused = |refusal| EngineError::Refused { engine: name.to_owned(), refusal };
    supports(driver, spec).map_err(refused)?;
    if let Some(reason) = context.stop.reason() {
        return Ok(result(Finished::stopped(reason, String::new()), None));
    }
    let limits = resolve_loop_limits(spec.limits, &parts.host);
    let plan = Plan::of(parts, spec);
    let capabilities = plan.names();

    let events = RunEvents::new(context.sink, context.log.clone());
    let open = OpenRun::begin(
        &events,
        Bookend::Started {
            max_steps: limits.max_steps,
            max_duration_ms: u64::try_from(limits.max_duration.as_millis()).unwrap_or(u64::MAX),
            tools: capabilities.clone(),
        },
    );
    let stop = context.stop.child();
    let driving = Box::pin(async {
        let surface = plan.serve(&spec.workdir).await?;
        let token = surface.as_ref().and_then(Surface::token);
        let log = without(secrets_of(driver, spec).into_iter().chain(token).collect(), &context.log);
        let known = assemble_context(&parts.context_providers, spec, &log);
        let known = match stop.or_drop(known).await {
            Ok(known) => known,
            Err(reason) => return Ok(result(Finished::stopped(&reason, String::new()), None)),
        };
        let connectors = servers::connectors(spec).map_err(refused)?;
        let finished = driver.drive(Drive {
            spec,
            task: prompt::task(spec, &known),
            servers: surface.iter().map(Surface::server).chain(connectors).collect(),
            capabilities,
            log: &log,
            stop: &stop,
        });
        let finished = finished.await?;
        let was_contacted = surface.as_ref().is_none_or(Surface::was_contacted);
        if finished.outcome == Outcome::Completed && !was_contacted {
            let message = "it never asked for its capabilities, so it has run without them".into();
            return Err(EngineError::Agent { message });
        }
        let emissions = surface.and_then(|surface| surface.emissions(&log));
        Ok(result(finished, emissions))
    });
    let ended = stop.within(limits.max_duration, driving).await;
    open.close(last(&ended));
    ended
}

/// Everything a run holds that must not be shown.
fn secrets_of(driver: &impl Driver, spec: &RunSpec) -> Vec<Secret> {
    let keys = &spec.provider.credentials;
    let own = [&keys.anthropic, &keys.openai, &keys.openrouter].into_iter().flatten().cloned();
    let host = host_key(driver, spec).map(|(_, key)| key);
    let connectors = spec.connectors.iter().flat_map(|connector| {
        let token = match &connector.auth {
            ConnectorAuth::Bearer(token) => Some(token.clone()),
            ConnectorAuth::None => None,
        };
        connector.env.values().chain(connector.headers.values()).cloned().chain(token)
    });
    let gateway = spec.gateway.iter().map(|gateway| gateway.run_token.clone());
    own.chain(host).chain(connectors).chain(gateway).chain(spec.secrets.values().cloned()).collect()
}

/// A log that shows none of these: what a program says goes into it, and the program was given them.
fn without(secrets: Vec<Secret>, log: &Log) -> Log {
    let log = log.clone();
    Log::new(move |line| {
        log.line(&secrets.iter().fold(line.to_owned(), |line, secret| secret.removed_from(&line)));
    })
}

fn result(finished: Finished, emissions: Option<Value>) -> EngineResult {
    EngineResult { text: finished.text, emissions, outcome: Some(finished.outcome) }
}

/// The last event. How many steps a program took is not known.
fn last(ended: &Result<EngineResult, EngineError>) -> Bookend {
    match ended {
        Ok(ended) => Bookend::Finished {
            outcome: ended.outcome.unwrap_or(Outcome::Failed),
            steps: None,
            text: Some(ended.text.clone()),
            error: None,
        },
        Err(error) => Bookend::failed(Outcome::Failed, error.to_string()),
    }
}

/// The beginning of an answer, as far as it is kept.
pub(super) fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(crate::limits::AGENT_ANSWER_BYTES));
    text
}
