//! The durable side of a node: the writer with its machine, and everybody who does what the machine decides.
//!
//! It knows nothing of the network but the streams that delivery is given. It stops last, since every other part may
//! still have something to report.

use std::sync::Arc;

use mesh_node_core::event::Event;
use mesh_node_core::machine::Machine;
use mesh_node_core::site::{STILL_LOOKING, Site};
use mesh_node_core::view::View;
use mesh_protocol::address::Name;
use mesh_protocol::api::node::{Check, ExecutorView};
use mesh_protocol::isolation::IsolationClass;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::start::Start;
use super::{NodeError, lookout};
use crate::agents::Agents;
use crate::api::tokens::Tokens;
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::executor::{Executor, ExecutorOptions};
use crate::home::Home;
use crate::identity::Admission;
use crate::sight::{self, Sources};
use crate::surroundings::{Jobs, Surroundings};
use crate::timer::{self, Timer};
use crate::writer::{self, Writer, WriterCore, WriterError, WriterHandle};

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
    pub(super) async fn start(
        home: &Home,
        start: &Start,
        name: &Name,
        tokens: &Arc<Tokens>,
    ) -> Result<Self, NodeError> {
        sweep_runs(home);
        let agents = Agents::new(home, &start.config.agents, Arc::clone(tokens));
        let admission = Arc::new(Admission::default());
        start.revocations.iter().for_each(|list| admission.apply(list));
        start.roster.blocked.iter().for_each(|node| admission.block(*node));
        let unknown = ExecutorView { unavailable: Some(STILL_LOOKING.to_owned()), ..ExecutorView::default() };
        let view = alone(start, name, &agents, &admission, &unknown);

        let (observe, executor) = watch::channel(unknown.clone());
        let (changed, changes) = watch::channel(0);
        let (found, probes) = watch::channel(Vec::new());
        let delivery = Delivery::new(Arc::clone(&start.database));
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
            named_executors: start.config.executor.named.clone(),
            view: Arc::clone(&view),
        };
        let clock: Arc<dyn Clock> = Arc::clone(&start.clock) as Arc<dyn Clock>;
        let core = WriterCore::new(
            Arc::clone(&start.database),
            Machine::new(site).awaiting_executor(),
            Arc::clone(&clock),
            Box::new(rand::make_rng::<rand::rngs::StdRng>()),
            Box::new(surroundings),
        );
        let (writer, writing) = writer::start(core).map_err(NodeError::System)?;
        delivery.attach(writer.clone());
        agents.attach(writer.clone());
        // First of all events: what a crash interrupted is ended before anything new begins. Refused only when the
        // writer has ended, which `ended` says.
        let _ = writer.post(Event::Started, 0).await;
        let ticking = [
            tokio::spawn(timer.run(writer.clone(), Arc::clone(&clock))),
            tokio::spawn(timer::tidy(writer.clone())),
        ];
        let preparing =
            tokio::spawn(prepare(options(home, start), Arc::clone(&jobs), observe, found, writer.clone()));
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

/// Ends what agents of an earlier process left running.
fn sweep_runs(home: &Home) {
    match mesh_harness::sweep(&home.run()) {
        Ok(report) if report.runs.is_empty() => {}
        Ok(report) => tracing::warn!(runs = report.runs.len(), "runs of an earlier process were ended"),
        Err(error) => tracing::error!(%error, "runs of an earlier process cannot be looked for"),
    }
}

fn options(home: &Home, start: &Start) -> ExecutorOptions {
    let section = &start.config.executor;
    ExecutorOptions {
        dir: home.root().to_owned(),
        rootfs: None,
        instance: start.credentials.key.node().short(),
        // gVisor is the one class there is: an operator who does not list it wants no jobs.
        enabled: section.enabled && section.allow_classes.contains(&IsolationClass::GvisorApplicationKernel),
        slots: section.slots,
        runsc: section.runsc.clone(),
        key: start.credentials.key.clone(),
        certificate: Some(start.credentials.leaf.as_der().to_vec()),
    }
}

/// Looks at the sandbox; when that is done, jobs can begin.
async fn prepare(
    options: ExecutorOptions,
    jobs: Arc<Jobs>,
    observe: watch::Sender<ExecutorView>,
    probes: watch::Sender<Vec<Check>>,
    writer: WriterHandle<Machine>,
) {
    let view = match Executor::prepare(options, lookout::report_to(writer.clone())).await {
        Ok((prepared, found)) => {
            jobs.attach(Arc::new(prepared));
            probes.send_replace(found.checks);
            found.view
        }
        Err(error) => {
            tracing::error!(%error, "the sandbox cannot be looked at");
            let unavailable = Some("the sandbox cannot be looked at".to_owned());
            ExecutorView { unavailable, ..ExecutorView::default() }
        }
    };
    observe.send_replace(view.clone());
    // Refused only when the node is stopping.
    let _ = writer.post(Event::Executor(view), 0).await;
}
