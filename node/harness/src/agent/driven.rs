//! What every engine that drives a program does alike, around the one thing it does differently.
//!
//! ```text
//!   refused ──> stopped before ──> surface served, context ──> driven ──> surface closed ──> was it contacted? ──> result
//! ```
//!
//! Invariants: nothing is set up for a run that is refused or stopped before; the program and all it started are gone
//! when the run ends; an answer of a program that never asked for its capabilities is not believed.

use futures_util::future::BoxFuture;

use super::{
    AgentEngine, EngineContext, EngineError, EngineResult, EngineRun, EngineSelection, Refusal, RunSpec,
    prompt, rules, servers,
};
use crate::agent_loop::resolve_loop_limits;
use crate::capability::{CapabilityScope, CapabilityServer};
use crate::connector::ConnectorAuth;
use crate::context::assemble_context;
use crate::event::{Bookend, OpenRun, RunEvents};
use crate::log::Log;
use crate::outcome::Outcome;
use crate::secret::Secret;
use crate::stop::{Stop, StopReason};
use servers::Server;

/// An engine that drives a program.
pub(super) trait Driver: Send + Sync {
    /// The engine's name.
    fn name(&self) -> &str;

    /// The variable of the host that switches it on.
    fn enable(&self) -> &str;

    /// What the application brought.
    fn parts(&self) -> &EngineSelection;

    /// The variable of the host that it may take a key from.
    fn host_key(&self) -> Option<&str>;

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
    /// The surface, to see whether it was contacted.
    pub(super) surface: Option<&'a CapabilityServer>,
    /// The names of the surface's tools.
    pub(super) capabilities: Vec<String>,
    pub(super) log: &'a Log,
    pub(super) stop: &'a Stop,
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
        Driver::name(self)
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
    let host = &driver.parts().host;
    rules::check_isolation(spec, host, driver.enable())?;
    rules::check_credentials(spec, host, host_key(driver, spec).as_slice())?;
    servers::connectors(spec)?;
    driver.check(spec)
}

/// The variable of the host that this run would take a key from.
pub(super) fn host_key<'a>(driver: &'a impl Driver, spec: &RunSpec) -> Option<&'a str> {
    driver.host_key().filter(|_| rules::may_use_host_key(spec))
}

/// Does a run.
async fn run(
    driver: &impl Driver,
    spec: &RunSpec,
    context: EngineContext,
) -> Result<EngineResult, EngineError> {
    let refused = |refusal| EngineError::Refused { engine: driver.name().to_owned(), refusal };
    supports(driver, spec).map_err(refused)?;
    if let Some(reason) = context.stop.reason() {
        return Ok(result(Finished::stopped(reason, String::new())));
    }
    let limits = resolve_loop_limits(spec.limits, &driver.parts().host);
    let scope = CapabilityScope { workspace_id: spec.workspace_id.clone(), workdir: spec.workdir.clone() };
    let tools = driver.parts().capability_tools.as_ref().map(|tools| tools(&scope));
    let capabilities: Vec<String> = tools.iter().flatten().map(|tool| tool.spec.name.clone()).collect();

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
        let failed = |source: std::io::Error| EngineError::Setup {
            what: "the capability surface".into(),
            source: source.into(),
        };
        let surface = match tools {
            Some(tools) => Some(CapabilityServer::start(tools).await.map_err(failed)?),
            None => None,
        };
        let token = surface.iter().map(|surface| surface.token().clone());
        let log = without(secrets_of(driver, spec).into_iter().chain(token).collect(), &context.log);
        let known = assemble_context(&driver.parts().context_providers, spec, &log);
        let known = match stop.or_drop(known).await {
            Ok(known) => known,
            Err(reason) => return Ok(Finished::stopped(&reason, String::new())),
        };
        let connectors = servers::connectors(spec).map_err(refused)?;
        let finished = driver.drive(Drive {
            spec,
            task: prompt::task(spec, &known),
            servers: surface.iter().map(servers::surface).chain(connectors).collect(),
            surface: surface.as_ref(),
            capabilities,
            log: &log,
            stop: &stop,
        });
        let finished = finished.await?;
        if finished.outcome == Outcome::Completed && surface.is_some_and(|surface| !surface.was_contacted()) {
            let message = "it never asked for its capabilities, so it has run without them".into();
            return Err(EngineError::Agent { message });
        }
        Ok(finished)
    });
    let finished = stop.within(limits.max_duration, driving).await;
    open.close(last(&finished));
    finished.map(result)
}

/// Everything a run holds that must not be shown.
fn secrets_of(driver: &impl Driver, spec: &RunSpec) -> Vec<Secret> {
    let keys = &spec.provider.credentials;
    let own = [&keys.anthropic, &keys.openai, &keys.openrouter].into_iter().flatten().cloned();
    let host = host_key(driver, spec).and_then(|name| driver.parts().host.get(name)).map(Secret::from);
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

fn result(finished: Finished) -> EngineResult {
    EngineResult { text: finished.text, emissions: None, outcome: Some(finished.outcome) }
}

/// The last event. How many steps a program took is not known.
fn last(finished: &Result<Finished, EngineError>) -> Bookend {
    match finished {
        Ok(finished) => Bookend::Finished {
            outcome: finished.outcome,
            steps: None,
            text: Some(finished.text.clone()),
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
