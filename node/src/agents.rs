//! The agents of this node: their engines, and the runs that are at work.
//!
//! It does what the core decided and reports how that ended; it queues nothing and chooses nobody. While a run lasts its
//! agent holds a session token, so that what the agent asks in turn is known as its own and continues the hop chain of
//! the work it is doing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mesh_harness::{
    Availability, CommandEngine, CommandSpec, Engine, Failure, FailureReason, Layer, RunName, RunOutcome,
    Secret, Task,
};
use mesh_node_core::event::Event;
use mesh_node_core::machine::Machine;
use mesh_node_core::site::AgentSetting;
use mesh_protocol::address::Name;
use mesh_protocol::flight::{FailureCode, FlightOutcome};
use mesh_protocol::id::{FlightId, NodeId};
use mesh_protocol::message::Hop;
use mesh_protocol::record::{AdvertisedAgent, AgentState, RECORD_TEXT_BYTES_MAX};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::tokens::Tokens;
use crate::home::{AgentSection, Home, Visibility};
use crate::writer::WriterHandle;

/// How long runs may take to end when the node stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Size a report counts as in the writer's queue, beside its text.
const REPORT_BYTES: usize = 128;

/// A run an agent is to begin.
#[derive(Debug)]
pub struct Start {
    /// Who asked.
    pub origin: NodeId,
    /// For which flight.
    pub flight: FlightId,
    /// Which attempt.
    pub attempt: u32,
    /// The agent.
    pub agent: Name,
    /// The task.
    pub task: String,
    /// Milliseconds until the answer is of no use.
    pub remaining_ms: u64,
    /// The agents the ask came through, this one last.
    pub hops: Vec<Hop>,
}

struct Running {
    cancel: CancellationToken,
    hops: Vec<Hop>,
}

/// One agent: what runs it, and what is known of it.
#[derive(Debug)]
pub struct Agent {
    /// Runs it.
    pub engine: Box<dyn Engine>,
    /// What the core is to know of it.
    pub setting: AgentSetting,
}

/// All agents of one node.
pub struct Agents {
    agents: BTreeMap<Name, Agent>,
    home: PathBuf,
    tokens: Arc<Tokens>,
    runtime: Handle,
    writer: OnceLock<WriterHandle<Machine>>,
    running: Mutex<BTreeMap<(NodeId, FlightId), Running>>,
    tasks: TaskTracker,
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.agents.keys()).finish()
    }
}

impl Agents {
    /// The agents of a configuration. Must be called within a Tokio runtime.
    #[must_use]
    pub fn configured(home: &Home, sections: &[AgentSection], tokens: Arc<Tokens>) -> Arc<Self> {
        let agents =
            sections.iter().filter_map(|section| Some((section.name.clone(), agent(home, section)?)));
        Self::new(agents.collect(), home.root().to_owned(), tokens)
    }

    /// These agents, which find their node at this home. Must be called within a Tokio runtime.
    #[must_use]
    pub fn new(agents: BTreeMap<Name, Agent>, home: PathBuf, tokens: Arc<Tokens>) -> Arc<Self> {
        Arc::new(Self {
            agents,
            home,
            tokens,
            runtime: Handle::current(),
            writer: OnceLock::new(),
            running: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Gives it the writer to report to. The first call counts.
    pub fn attach(&self, writer: WriterHandle<Machine>) {
        let _ = self.writer.set(writer);
    }

    /// What the core is to know of them.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<Name, AgentSetting> {
        self.agents.iter().map(|(name, agent)| (name.clone(), agent.setting.clone())).collect()
    }

    /// What other nodes are told of them.
    #[must_use]
    pub fn advertised(&self) -> Vec<AdvertisedAgent> {
        let visible = self.agents.iter().filter(|(_, agent)| agent.setting.advertised);
        visible
            .map(|(name, Agent { setting, .. })| AdvertisedAgent {
                name: name.clone(),
                harness: setting.harness.clone(),
                state: match &setting.offline {
                    None => AgentState::Online,
                    Some(reason) => AgentState::Offline(cut(reason, RECORD_TEXT_BYTES_MAX)),
                },
                description: setting.description.clone(),
            })
            .collect()
    }

    /// The agents a run's own asks came through, while the run lasts.
    #[must_use]
    pub fn hops(&self, flight: FlightId) -> Vec<Hop> {
        let running = self.running();
        let found = running.iter().find(|((_, running), _)| *running == flight);
        // The last hop is the agent itself, which the core adds.
        found
            .map(|(_, run)| run.hops.split_last().map_or_else(Vec::new, |(_, before)| before.to_vec()))
            .unwrap_or_default()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<(NodeId, FlightId), Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run. Returns at once.
    pub fn start(self: &Arc<Self>, start: Start) {
        let cancel = CancellationToken::new();
        let key = (start.origin, start.flight);
        self.running().insert(key, Running { cancel: cancel.clone(), hops: start.hops.clone() });
        let this = Arc::clone(self);
        let run = async move {
            let Start { origin, flight, attempt, .. } = start;
            let work = {
                let this = Arc::clone(&this);
                tokio::spawn(async move { this.run(&start, cancel).await })
            };
            let outcome = work.await.unwrap_or_else(|error| broken(&error));
            this.running().remove(&key);
            let bytes = REPORT_BYTES.saturating_add(match &outcome {
                FlightOutcome::Completed { reply } => reply.len(),
                FlightOutcome::Failed { detail, .. } => detail.len(),
                FlightOutcome::Cancelled { .. } => 0,
            });
            if let Some(writer) = this.writer.get() {
                // Refused only when the node stops; the next start ends the run as interrupted.
                let _ = writer.post(Event::RunEnded { origin, flight, attempt, outcome }, bytes).await;
            }
        };
        self.tasks.spawn_on(run, &self.runtime);
    }

    /// Stops a run. Nothing happens when it is over.
    pub fn stop(&self, origin: NodeId, flight: FlightId) {
        if let Some(run) = self.running().get(&(origin, flight)) {
            run.cancel.cancel();
        }
    }

    /// Stops all runs and waits for them, for a while.
    pub async fn shut_down(&self) {
        self.running().values().for_each(|run| run.cancel.cancel());
        self.tasks.close();
        let _ = tokio::time::timeout(STOP_WITHIN, self.tasks.wait()).await;
    }

    async fn run(&self, start: &Start, cancel: CancellationToken) -> FlightOutcome {
        let Some(agent) = self.agents.get(&start.agent) else {
            return FlightOutcome::not_begun(
                FailureCode::UnknownAgent,
                format!("there is no @{} here", start.agent),
            );
        };
        // Dropped with this run, and with it the token.
        let session = match self.tokens.mint(start.agent.clone(), Some(start.flight)) {
            Ok(session) => session,
            Err(error) => return FlightOutcome::not_begun(FailureCode::Busy, error.to_string()),
        };
        let task = match self.task(start, session.token().expose()) {
            Ok(task) => task,
            Err(error) => return FlightOutcome::not_begun(FailureCode::EngineFailed, error.to_string()),
        };
        match agent.engine.run(task, cancel).await {
            RunOutcome::Completed { reply } => FlightOutcome::Completed { reply },
            RunOutcome::Failed(failure) => failed(&failure),
            RunOutcome::Cancelled => FlightOutcome::Cancelled { may_have_run: true },
        }
    }

    fn task(&self, start: &Start, token: &str) -> Result<Task, mesh_harness::TaskError> {
        let run = RunName::new(format!("{}-{}", start.flight, start.origin.short()))?;
        let home = self.home.to_string_lossy().into_owned();
        let limit = Duration::from_millis(start.remaining_ms.max(1));
        let task = Task::new(run, start.task.clone())?;
        // Where the socket is when the home's path is too long: the agent looks in the same place as this node.
        let task = match std::env::var("XDG_RUNTIME_DIR") {
            Ok(directory) => task.with_variable("XDG_RUNTIME_DIR", Secret::new(directory))?,
            Err(_) => task,
        };
        Ok(task
            .with_variable("MESH_HOME", Secret::new(home))?
            .with_variable("MESH_TOKEN", Secret::new(token.to_owned()))?
            .with_variable("MESH_AGENT", Secret::new(start.agent.to_string()))?
            .with_variable("MESH_FLIGHT", Secret::new(start.flight.to_string()))?
            .with_time_limit(limit))
    }
}

/// An agent of the configuration; `None` for one without a program, which the configuration's own check refuses.
fn agent(home: &Home, section: &AgentSection) -> Option<Agent> {
    let (program, arguments) = section.command.split_first()?;
    let directory = section.working_directory.clone().unwrap_or_else(|| home.root().to_owned());
    let spec = CommandSpec::new(program, directory)
        .with_arguments(arguments)
        .with_passed_variables(section.env.iter().cloned())
        .with_time_limit(Duration::from_secs(section.time_limit_seconds.into()))
        .with_run_directory(home.run());
    let engine = match CommandEngine::new(spec) {
        Ok(engine) => engine,
        Err(error) => {
            tracing::error!(agent = %section.name, %error, "an agent of the configuration cannot be used");
            return None;
        }
    };
    let offline = match (section.enabled, engine.probe()) {
        (false, _) => Some("it is disabled in the configuration".to_owned()),
        (true, Availability::Online) => None,
        (true, Availability::Offline(failure)) => {
            Some(format!("{}; {}", failure.reason, failure.remediation()))
        }
    };
    let setting = AgentSetting {
        harness: engine.name().to_owned(),
        profile: section.permission,
        advertised: section.advertise == Visibility::Mesh,
        slots: 1,
        offline,
        description: section.description.clone(),
    };
    Some(Agent { engine: Box::new(engine), setting })
}

/// An engine that panicked: its run ends, and its place is free again. What it said is in the log, not here.
fn broken(error: &tokio::task::JoinError) -> FlightOutcome {
    tracing::error!(%error, "an engine broke");
    FlightOutcome::Failed {
        code: FailureCode::EngineFailed,
        detail: "the engine that ran the agent broke".to_owned(),
        remediation: Some("see the node's log".to_owned()),
        may_have_run: true,
    }
}

fn failed(failure: &Failure) -> FlightOutcome {
    let (code, may_have_run) = match (&failure.reason, failure.layer()) {
        (FailureReason::TimedOut { .. }, _) => (FailureCode::TimedOut, true),
        (FailureReason::EmptyReply, _) => (FailureCode::EmptyReply, true),
        (FailureReason::StatusUnknown(_), _) | (_, Layer::Agent) => (FailureCode::EngineFailed, true),
        (_, Layer::Engine) => (FailureCode::AgentOffline, false),
    };
    let detail = if failure.detail.is_empty() {
        failure.reason.to_string()
    } else {
        format!("{}: {}", failure.reason, failure.detail)
    };
    FlightOutcome::Failed { code, detail, remediation: Some(failure.remediation().to_owned()), may_have_run }
}

fn cut(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    text.get(..end).unwrap_or_default().to_owned()
}
