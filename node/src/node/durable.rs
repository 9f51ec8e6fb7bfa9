//! The durable side of a node: the writer with its machine, and everybody who does what the machine decides.
//!
//! It knows nothing of the network but the streams that delivery is given. It stops last, since every other part may
//! still have something to report.

use std::sync::Arc;

use mesh_node_core::event::Event;
use mesh_node_core::machine::Machine;
use mesh_node_core::site::{JobPolicy, Site};
use mesh_node_core::view::View;
use mesh_protocol::address::Name;
use mesh_protocol::api::node::{Check, ExecutorView};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::NodeError;
use super::parts::{Look, Looked};
use super::start::Start;
use crate::agents::Agents;
use crate::clock::{Clock, NodeClock};
use crate::delivery::Delivery;
use crate::identity::Admission;
use crate::randomness::Randomness;
use crate::sight::{self, Sources};
use crate::surroundings::{Jobs, Surroundings};
use crate::timer::{self, Timer};
use crate::writer::{self, Pace, Writer, WriterCore, WriterError, WriterHandle};

/// What the durable side is made of, beside what was read at the start.
pub(super) struct Given {
    pub(super) name: Name,
    pub(super) clock: Arc<NodeClock>,
    pub(super) randomness: Randomness,
    pub(super) agents: Arc<Agents>,
    pub(super) named_executors: Vec<String>,
    pub(super) job_policy: JobPolicy,
    pub(super) look: Look,
    pub(super) pace: Option<Pace>,
}

/// The running durable side.
pub(super) struct Durable {
    pub(super) writer: WriterHandle<Machine>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) delivery: Arc<Delivery>,
    pub(super) agents: Arc<Agents>,
    pub(super) jobs: Arc<Jobs>,
    pub(super) admission: Arc<Admission>,
    /// What was seen before the first link: this node alone.
    pub(super) view: Arc<View>,
    /// What the sandbox offers, once it was observed.
    pub(super) executor: watch::Receiver<ExecutorView>,
    /// How that went.
    pub(super) probes: watch::Receiver<Vec<Check>>,
    /// Raised when a flight or a job changed.
    pub(super) changes: watch::Receiver<u64>,
    writing: Writer<Machine>,
    preparing: JoinHandle<()>,
    ticking: [JoinHandle<()>; 2],
}

impl Durable {
    /// Starts the writer, has it end what a crash interrupted, and begins to look at the sandbox.
    pub(super) async fn start(start: &Start, parts: Given) -> Result<Self, NodeError> {
        let Given { name, clock, randomness, agents, named_executors, job_policy, look, pace } = parts;
        let admission = Arc::new(Admission::default());
        start.revocations.iter().for_each(|list| admission.apply(list));
        start.roster.blocked.iter().for_each(|node| admission.block(*node));
        let unknown = look.before();
        let view = alone(start, &name, &agents, &admission, &unknown);

        let (observe, executor) = watch::channel(unknown.clone());
        let (changed, changes) = watch::channel(0);
        let (found, probes) = watch::channel(Vec::new());
        let delivery = Delivery::new(Arc::clone(&start.database), randomness);
        let jobs = Arc::new(Jobs::default());
        let surroundings = Surroundings {
            delivery: Arc::clone(&delivery),
            agents: Arc::clone(&agents),
            jobs: Arc::clone(&jobs),
            timer: Timer::default(),
            changes: changed,
        };
        let timer = surroundings.timer.clone();
        let site = Site {
            me: start.credentials.key.node(),
            agents: agents.settings(),
            executor: unknown,
            named_executors,
            jobs: job_policy,
            view: Arc::clone(&view),
        };
        let clock: Arc<dyn Clock> = clock;
        let core = WriterCore::new(
            Arc::clone(&start.database),
            Machine::new(site).awaiting_executor(),
            Arc::clone(&clock),
            Box::new(randomness.stream("writer")),
            Box::new(surroundings),
        );
        let (writer, writing) = match pace {
            None => writer::start(core).map_err(NodeError::System)?,
            Some(pace) => writer::start_here(core, pace),
        };
        delivery.attach(writer.clone());
        agents.attach(writer.clone());
        // First of all events: what a crash interrupted is ended before anything new begins. Waited for, since a command
        // has a queue of its own and could pass it, and would then be ended as interrupted itself. It has no reply; when
        // the writer has ended, `ended` says so.
        let _ = writer.submit(Event::Started, 0).await;
        let ticking = [
            tokio::spawn(timer.run(writer.clone(), Arc::clone(&clock))),
            tokio::spawn(timer::tidy(writer.clone())),
        ];
        let looking = look.begin(start.credentials.clone(), writer.clone());
        let preparing = tokio::spawn(prepare(looking, Arc::clone(&jobs), observe, found, writer.clone()));
        Ok(Self {
            writer,
            clock,
            delivery,
            agents,
            jobs,
            admission,
            view,
            executor,
            probes,
            changes,
            writing,
            preparing,
            ticking,
        })
    }

    /// Waits until the writer ends by itself, and says why.
    pub(super) async fn ended(&mut self) -> Result<(), WriterError> {
        self.writing.ended().await
    }

    /// What waits begins after the next start, not in the place of what is ended now.
    pub(super) async fn begin_nothing_more(&self) {
        self.preparing.abort();
        // Refused only when the writer has ended, and then nothing begins.
        let _ = self.writer.post(Event::Stopping, 0).await;
    }

    /// Ends the runs and jobs at work, and takes in how they ended.
    pub(super) async fn end_work(&self) {
        self.agents.shut_down().await;
        if let Some(executor) = self.jobs.executor()
            && !executor.shutdown().await
        {
            tracing::warn!("a job did not end in time; the next start closes it");
        }
        self.ticking.iter().for_each(JoinHandle::abort);
    }

    /// Ends all of it at once, as a crash does.
    pub(super) fn kill(&self) {
        self.preparing.abort();
        self.ticking.iter().for_each(JoinHandle::abort);
        self.writing.kill();
    }

    /// Stops the writer after it has kept what is queued. `outcome` is what ended the node; an error of the writer's
    /// own is not asked for twice.
    pub(super) async fn stop(mut self, outcome: Result<(), WriterError>) -> Result<(), WriterError> {
        self.writer.stop();
        match outcome {
            Ok(()) => self.writing.ended().await,
            Err(error) => Err(error),
        }
    }
}

/// The view of a node that has met nobody yet.
fn alone(
    start: &Start,
    name: &Name,
    agents: &Agents,
    admission: &Admission,
    executor: &ExecutorView,
) -> Arc<View> {
    let me = start.credentials.key.node();
    sight::look(&Sources {
        me,
        name,
        agents: &agents.settings(),
        executor,
        admission,
        peers: &[],
        records: &[],
    })
}

/// Looks at the sandbox; when that is done, jobs can begin.
async fn prepare(
    looking: impl Future<Output = Looked>,
    jobs: Arc<Jobs>,
    observe: watch::Sender<ExecutorView>,
    probes: watch::Sender<Vec<Check>>,
    writer: WriterHandle<Machine>,
) {
    let Looked { runs, view, checks } = looking.await;
    if let Some(runs) = runs {
        jobs.attach(runs);
    }
    probes.send_replace(checks);
    observe.send_replace(view.clone());
    // Refused only when the node is stopping.
    let _ = writer.post(Event::Executor(view), 0).await;
}
