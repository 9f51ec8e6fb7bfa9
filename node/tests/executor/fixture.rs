//! An executor of its own for each test, its reports, and what an asking node makes of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_node::executor::{Executor, ExecutorOptions, ExecutorReport, Report};
use mesh_node::identity::NodeKey;
use mesh_node_core::event::{CloseReason, Event, JobTicket};
use mesh_node_core::evidence::{Attested, judge};
use mesh_node_core::jobs::outline::Outline;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::event::{Event as JobEvent, EventKind};
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::evidence::verify::Verified;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{JobResult, JobSpec, Language, OutputFile};

/// Longest wait for a report: a busy machine takes its time to start a sandbox.
const REPORT_WAIT: Duration = Duration::from_secs(120);

/// On whose behalf every job here runs.
pub(crate) const TENANT: &str = "nova/claude";

/// Stands for a certificate: evidence carries it without looking at it.
pub(crate) const CERTIFICATE: &[u8] = b"certificate";

struct Reports(Mutex<Sender<Event>>);

impl Report for Reports {
    fn report(&self, event: Event) {
        let _ = self.0.lock().unwrap().send(event);
    }
}

/// An executor and what it reports.
pub(crate) struct Node {
    pub(crate) executor: Executor,
    pub(crate) found: ExecutorReport,
    pub(crate) dir: tempfile::TempDir,
    node: NodeId,
    reports: Receiver<Event>,
}

/// Waits for the sandbox to go, so that a test leaves no control group behind.
impl Drop for Node {
    fn drop(&mut self) {
        let executor = &self.executor;
        let shut_down = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(executor.shutdown())
        };
        // On a thread of its own: the test's may not block.
        let _ = std::thread::scope(|scope| scope.spawn(shut_down).join());
    }
}

/// How an attempt was reported.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) job: JobId,
    pub(crate) attempt: u32,
    pub(crate) result: JobResult,
    pub(crate) evidence: Vec<u8>,
    pub(crate) outputs: Vec<OutputFile>,
    /// What it did, told while it ran and with its end.
    pub(crate) events: Vec<JobEvent>,
}

impl Ended {
    pub(crate) fn into_core(self) -> mesh_node_core::jobs::ended::Ended {
        let Self { result, evidence, outputs, .. } = self;
        mesh_node_core::jobs::ended::Ended { result, evidence, outputs }
    }
}

/// Options for an executor below `dir`, named after it.
pub(crate) fn options(dir: &tempfile::TempDir) -> ExecutorOptions {
    let name = dir.path().file_name().unwrap().to_str().unwrap();
    ExecutorOptions {
        dir: dir.path().to_owned(),
        rootfs: Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("executor-rootfs")),
        instance: name.trim_start_matches('.').to_owned(),
        enabled: true,
        slots: Some(1),
        ready: Some(0),
        runsc: None,
        shared_kernel: false,
        packs: BTreeMap::new(),
        key: NodeKey::from_seed(&[7; 32]),
        certificate: Some(CERTIFICATE.to_vec()),
    }
}

/// Prepares an executor with options changed by `change`, whatever it comes to offer.
pub(crate) async fn prepare(change: impl FnOnce(&mut ExecutorOptions)) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir);
    change(&mut options);
    let node = options.key.node();
    let (sender, reports) = mpsc::channel();
    let report = Arc::new(Reports(Mutex::new(sender)));
    let (executor, found) = Executor::prepare(options, report).await.unwrap();
    Node { executor, found, dir, node, reports }
}

/// Prepares an executor that runs one job at a time, or says why the test is skipped.
pub(crate) async fn open() -> Option<Node> {
    open_with(1).await
}

/// The same with this many slots.
pub(crate) async fn open_with(slots: u16) -> Option<Node> {
    open_changed(|options| options.slots = Some(slots)).await
}

/// The same with other options.
pub(crate) async fn open_changed(change: impl FnOnce(&mut ExecutorOptions)) -> Option<Node> {
    let node = prepare(change).await;
    match &node.found.view.unavailable {
        None => Some(node),
        Some(why) if why.contains("not installed") && std::env::var_os("MESH_REQUIRE_SANDBOX").is_none() => {
            eprintln!("SKIPPED: {why}");
            None
        }
        Some(why) => panic!("{why}: {:#?}", node.found.checks),
    }
}

/// A job and its ticket.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) ticket: JobTicket,
    pub(crate) spec: JobSpec,
}

impl std::ops::Deref for Asked {
    type Target = JobTicket;

    fn deref(&self) -> &JobTicket {
        &self.ticket
    }
}

impl Asked {
    /// The ticket that the core would write for the job as it is now.
    pub(crate) fn ticket(&self) -> JobTicket {
        JobTicket { asked: Outline::of(&self.spec), ..self.ticket.clone() }
    }
}

/// A job of some code; `number` tells jobs apart.
pub(crate) fn job(number: u8, language: Language, code: &str) -> Asked {
    let spec = JobSpec::new(language, code);
    let ticket = JobTicket {
        origin: NodeId::from_bytes([1; 32]),
        job: JobId::from_bytes([number; 16]),
        attempt: 1,
        tenant: TENANT.to_owned(),
        asked: Outline::of(&spec),
        created_wall_ms: 1_700_000_000_000,
        events: Vec::new(),
    };
    Asked { ticket, spec }
}

impl Node {
    /// The next report.
    pub(crate) fn next(&self) -> Event {
        self.reports.recv_timeout(REPORT_WAIT).unwrap()
    }

    /// A report that is here already.
    pub(crate) fn try_next(&self) -> Option<Event> {
        self.reports.try_recv().ok()
    }

    /// The next report that a job has started.
    pub(crate) fn next_started(&self) -> JobId {
        match self.next() {
            Event::JobStarted { job, .. } => job,
            Event::JobEvents { .. } => self.next_started(),
            // Without the evidence, which drowns everything else.
            Event::JobEnded { job, result, .. } => panic!("{job} ended: {result:?}"),
            other => panic!("{other:?}"),
        }
    }

    /// The next report that an attempt has ended; news of starts is passed over, and what it did is put together.
    pub(crate) fn next_ended(&self) -> Ended {
        let mut told: BTreeMap<JobId, Vec<JobEvent>> = BTreeMap::new();
        loop {
            match self.next() {
                Event::JobStarted { .. } => {}
                Event::JobEvents { job, events, .. } => {
                    assert!(events.len() <= 64);
                    told.entry(job).or_default().extend(events);
                }
                Event::JobEnded { job, attempt, result, evidence, outputs, events, .. } => {
                    let events = told.remove(&job).unwrap_or_default().into_iter().chain(events).collect();
                    return Ended { job, attempt, result, evidence, outputs, events };
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next attestation of an end that was decided before. That a job had started may be told late.
    pub(crate) fn next_attested(&self) -> Vec<u8> {
        match self.next() {
            Event::JobStarted { .. } => self.next_attested(),
            Event::JobAttested { evidence, .. } => evidence,
            other => panic!("{other:?}"),
        }
    }

    /// This node.
    pub(crate) const fn id(&self) -> NodeId {
        self.node
    }

    /// A job that was closed before it began.
    pub(crate) fn closed(&self, number: u8) -> Ended {
        self.executor.close(job(number, Language::Bash, "true").ticket(), CloseReason::DeadlinePassed);
        self.next_ended()
    }

    /// Has a job begun.
    pub(crate) fn start(&self, asked: &Asked) {
        self.executor.start(asked.ticket(), Box::new(asked.spec.clone()));
    }

    /// Runs a job to its end.
    pub(crate) fn run(&self, asked: &Asked) -> Ended {
        self.start(asked);
        self.next_ended()
    }

    /// Whether the events were complete, for the node that asked, which must find the proof good.
    pub(crate) fn judged_complete(&self, ended: &Ended) -> bool {
        match judge(self.node, ended.job, &ended.clone().into_core()).attested {
            Attested::Verified { signer, event_chain_complete, .. } => {
                assert_eq!(signer, self.node);
                event_chain_complete
            }
            other => panic!("{other:?}"),
        }
    }

    /// What the proof says, to someone who trusts this node, with the kinds of its events.
    pub(crate) fn verify(&self, ended: &Ended) -> (Verified, Vec<EventKind>) {
        let bundle = Bundle::parse(&ended.evidence).unwrap();
        assert_eq!(bundle.certificate.as_deref(), Some(CERTIFICATE));
        let trust = TrustSet::node(&self.node).unwrap();
        let verified = bundle.verify(&trust, Some(&ended.job.to_string()), Some(TENANT)).unwrap();
        assert!(verified.events_checked);
        let events = bundle.events.unwrap();
        // What was told as it happened is what was signed.
        assert_eq!(events, ended.events);
        let kinds = events.iter().map(|event| event.kind).collect();
        (verified, kinds)
    }
}
