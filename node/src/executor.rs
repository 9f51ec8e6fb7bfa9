//! Runs jobs, as the core decides, and attests how each of them ended.
//!
//! ```text
//!  start ──> jobs ──a thread for each slot──> sandbox ──> ending ──signed──> Event::JobEnded
//!                                                │ └ output ──> pump ──one thread──> Event::JobEvents
//!                                                │ READY
//!  close, attest ──> errands <───────────────────┘
//!                      └──one thread──> ending ──signed──> Event::JobEnded, JobAttested, or JobStarted
//!
//!  what cannot be signed ──> Event::JobUnsigned, before the end itself
//! ```
//!
//! The core says which jobs run and how many at once; here nothing is chosen, placed, retried or stored. Calls that
//! carry out its actions only touch the queue, so the writer's thread may make them.
//!
//! Invariants: every job handed over is reported as ended exactly once, with the proof if it could be made; what a
//! requester gets to read holds no path or error text of this machine, only words; what is said to have been observed
//! was reported by the sandbox.

mod attempt;
mod files;
mod output;
mod preparation;
mod proof;
mod pump;
mod queue;
mod receipt;
mod record;
mod recording;
mod translation;
mod trial;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mesh_node_core::event::{CloseReason, Event, JobTicket};
use mesh_protocol::api::node::{Check, ExecutorView};
use mesh_protocol::evidence::receipt::ExecutorOutput;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{JobResult, JobSpec};
use mesh_sandbox::Sandbox;

use crate::identity::NodeKey;
use attempt::Attempts;
pub use preparation::SWITCHED_OFF;
use proof::{Prove, Signer};
use pump::Pump;
use queue::{Errand, Queue};
pub use trial::check_machine;

/// How long [`Executor::shutdown`] waits: a killed sandbox is given ten seconds, signing and committing take less.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(15);

/// Takes in what becomes of jobs: a way to the writer.
pub trait Report: Send + Sync {
    /// Hands an event over. Called on an executor's own thread, which it may block but must not end by a panic; never
    /// called from within [`Executor::start`], [`Executor::stop`] or [`Executor::close`].
    fn report(&self, event: Event);
}

/// Where and how jobs run on this node.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// Directory for running jobs, of this node alone. Created when missing.
    pub dir: PathBuf,
    /// Directory for root file systems, which nodes of one machine may share; `dir/rootfs` when `None`.
    pub rootfs: Option<PathBuf>,
    /// Tells this node's control groups from those of other nodes on this machine: letters, digits, `-` and `_`.
    pub instance: String,
    /// Whether jobs run here at all. Ends are attested either way.
    pub enabled: bool,
    /// Jobs at once; the number of processors when `None`, at least one.
    pub slots: Option<u16>,
    /// Sandboxes of each language that wait for jobs; the sandbox's own default when `None`.
    pub ready: Option<u16>,
    /// The `runsc` to use instead of the one on PATH.
    pub runsc: Option<PathBuf>,
    /// Whether jobs may run on this machine's own kernel where gVisor does not work.
    pub shared_kernel: bool,
    /// Root file systems that jobs may ask for, by name.
    pub packs: BTreeMap<String, PathBuf>,
    /// The key that signs evidence.
    pub key: NodeKey,
    /// This node's mesh certificate in DER, to go with the evidence.
    pub certificate: Option<Vec<u8>>,
}

/// What a preparation found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorReport {
    /// What this node offers. It is told to other members, so it holds no path of this machine.
    pub view: ExecutorView,
    /// Everything tried, in order, for this node's operator.
    pub checks: Vec<Check>,
}

/// Runs and closes jobs. Dropping it ends the jobs that run, without waiting for their reports.
pub struct Executor {
    queue: Arc<Queue>,
    pump: Arc<Pump>,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("running", &self.running()).finish_non_exhaustive()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.queue.close();
        self.pump.close();
    }
}

impl Executor {
    /// Clears away what an earlier process left, finds out by doing what can run here, and starts the workers. Takes
    /// a few seconds. A machine without gVisor, or a node with jobs switched off, gets an executor too: it offers
    /// nothing, says why, and attests the ends of jobs that an earlier process began.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub async fn prepare(
        options: ExecutorOptions,
        report: Arc<dyn Report>,
    ) -> io::Result<(Self, ExecutorReport)> {
        let prepared = tokio::task::spawn_blocking(move || {
            let (sandbox, found) = preparation::prepare(&options);
            let signer = Box::new(Signer::new(options.key, options.certificate));
            let executor = Self::spawn(sandbox, found.view.slots, signer, report)?;
            Ok((executor, found))
        });
        prepared.await.map_err(io::Error::other)?
    }

    /// Starts a thread for each slot, one at least to answer for jobs that cannot run, the one for errands and
    /// the one for events.
    fn spawn(
        sandbox: Option<Sandbox>,
        slots: u32,
        signer: Box<dyn Prove>,
        report: Arc<dyn Report>,
    ) -> io::Result<Self> {
        let executor = Self { queue: Arc::default(), pump: Arc::default() };
        let waiting = (Arc::clone(&executor.queue), Arc::clone(&executor.pump));
        let attempts = Attempts::new(sandbox, signer, report, waiting);
        let attempts = Arc::new(attempts);
        for number in 1..=slots.max(1) {
            executor.spawn_one(format!("job-{number}"), &attempts, Attempts::run_jobs)?;
        }
        executor.spawn_one("job-errands".to_owned(), &attempts, Attempts::run_errands)?;
        executor.spawn_one("job-events".to_owned(), &attempts, Attempts::run_pump)?;
        Ok(executor)
    }

    fn spawn_one(&self, name: String, attempts: &Arc<Attempts>, work: fn(&Attempts)) -> io::Result<()> {
        let (attempts, presence) = (Arc::clone(attempts), self.queue.enter());
        Builder::new().name(name).spawn(move || {
            work(&attempts);
            // The sandbox goes with the last of them, before anyone is told that they have left.
            drop(attempts);
            drop(presence);
        })?;
        Ok(())
    }

    /// Runs a job. [`Event::JobStarted`], [`Event::JobEvents`] and [`Event::JobEnded`] follow.
    pub fn start(&self, ticket: JobTicket, spec: Box<JobSpec>) {
        self.queue.start(ticket, spec);
    }

    /// Stops a job, whether it runs or still waits for its worker; has no effect on one that has ended.
    pub fn stop(&self, origin: NodeId, job: JobId) {
        self.queue.stop(origin, job);
    }

    /// Attests the end of a job that is not running. [`Event::JobEnded`] follows.
    pub fn close(&self, ticket: JobTicket, reason: CloseReason) {
        self.queue.send(Errand::Close(ticket, reason));
    }

    /// Attests an end that was decided here, or could not be signed when it came, with what is known to have been seen of
    /// the job's streams. [`Event::JobAttested`] follows, or [`Event::JobUnsigned`].
    pub fn attest(&self, ticket: JobTicket, result: JobResult, seen: Option<Box<ExecutorOutput>>) {
        self.queue.send(Errand::Attest(ticket, result, seen));
    }

    /// How many jobs have been started here and have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.queue.running()
    }

    /// Ends every job, as jobs that a restart interrupts, and waits until their ends are reported: call it while the
    /// reports are still taken in. Returns whether all were, within [`SHUTDOWN_WAIT`].
    pub async fn shutdown(&self) -> bool {
        let (queue, pump) = (Arc::clone(&self.queue), Arc::clone(&self.pump));
        let drained = tokio::task::spawn_blocking(move || {
            queue.close();
            pump.close();
            queue.wait_until_left(SHUTDOWN_WAIT)
        });
        drained.await.unwrap_or(false)
    }
}

/// Unix time in milliseconds, for people.
fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
