//! Keeps the view: whenever somebody knows something new, the parts are put together again and handed to the durable
//! machine and to readers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::event::Event;
use mesh_node_core::machine::Machine;
use mesh_node_core::policy;
use mesh_node_core::view::View;
use mesh_protocol::address::Name;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::job::Language;
use mesh_protocol::policy::{Grant, Trust};
use mesh_protocol::record::{Advertisement, Capabilities, Load, ProtocolRange, SignedRecord};
use mesh_protocol::revocation::RevocationList;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;

use crate::agents::Agents;
use crate::clock::Clock;
use crate::executor::Report;
use crate::identity::Admission;
use crate::network::{Network, Observer};
use crate::sight::{self, Sources};
use crate::storage::Database;
use crate::writer::{SubmitError, WriterHandle};

/// Between two looks that news makes: a mesh that meets or heals has news by the hundred, each look is over all members,
/// and nobody reads faster. The first news after a quiet while is seen at once.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the lookout watches and tells.
pub(super) struct Parts {
    pub(super) me: NodeId,
    pub(super) name: Name,
    pub(super) agents: Arc<Agents>,
    pub(super) executor: watch::Receiver<ExecutorView>,
    pub(super) admission: Arc<Admission>,
    pub(super) database: Arc<Database>,
    pub(super) writer: WriterHandle<Machine>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) view: Arc<View>,
}

/// The keeper of one node's view.
pub(super) struct Lookout {
    parts: Parts,
    view: watch::Sender<Arc<View>>,
    news: Notify,
    /// Held for a whole look: of two at once the one that saw less could end last, and nobody would look again.
    looking: Mutex<()>,
}

impl Lookout {
    pub(super) fn new(parts: Parts) -> Arc<Self> {
        let view = watch::Sender::new(Arc::clone(&parts.view));
        Arc::new(Self { parts, view, news: Notify::new(), looking: Mutex::default() })
    }

    /// The view, as it changes.
    pub(super) fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.subscribe()
    }

    /// What this node says about itself now.
    pub(super) fn advertisement(&self) -> Advertisement {
        let executor = self.parts.executor.borrow().clone();
        let known = |text: &String| text.parse::<Language>().ok();
        Advertisement {
            name: self.parts.name.clone(),
            addresses: self.parts.addresses.clone(),
            protocol: ProtocolRange { min: 1, max: 1 },
            build: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Capabilities {
                isolation_classes: executor.classes,
                languages: executor.languages.iter().filter_map(known).collect(),
                slots: u16::try_from(executor.slots).unwrap_or(u16::MAX),
                memory_mb: 0,
            },
            load: Load::default(),
            agents: self.parts.agents.advertised(),
        }
    }

    /// Looks whenever there is news, and tells the mesh when this node's own sandbox was observed.
    pub(super) async fn run(self: Arc<Self>, network: Network) {
        let mut executor = self.parts.executor.clone();
        loop {
            let next = Instant::now() + LOOK_EVERY;
            self.look(&network).await;
            tokio::select! {
                biased;
                () = self.news.notified() => {}
                changed = executor.changed() => match changed {
                    Ok(()) => network.advertise(self.advertisement()).await,
                    // It was observed for the last time.
                    Err(_) => self.news.notified().await,
                },
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Puts the view together now, and waits until the machine has it.
    pub(super) async fn look(&self, network: &Network) {
        let _alone = self.looking.lock().await;
        let Parts { me, name, agents, executor, admission, .. } = &self.parts;
        let executor = executor.borrow().clone();
        let view = sight::look(&Sources {
            me: *me,
            name,
            agents: &agents.settings(),
            executor: &executor,
            admission,
            peers: &network.view().peers,
            records: &network.records(),
        });
        if **self.view.borrow() != *view {
            self.tell_machine(&view).await;
            self.view.send_replace(view);
        }
    }

    /// Waits until the machine has it: whoever reads that an agent is there may ask it in the next moment. A machine
    /// that takes nothing now (its storage fails) gets it when it does, and readers do not wait for that.
    async fn tell_machine(&self, view: &Arc<View>) {
        let event = || Event::View(Arc::clone(view));
        match self.parts.writer.submit(event(), 0).await {
            Ok(_) | Err(SubmitError::NoReply) => {}
            // Refused again only when the node is stopping.
            Err(_) => _ = self.parts.writer.post(event(), 0).await,
        }
    }

    /// Events of the network side must not wait for the disk: they are posted by a task.
    fn post(&self, event: Event, bytes: usize) {
        let writer = self.parts.writer.clone();
        tokio::spawn(async move { writer.post(event, bytes).await });
    }
}

impl Observer for Lookout {
    fn view_changed(&self) {
        self.news.notify_one();
    }

    fn records(&self, put: Vec<(NodeId, SignedRecord)>, forget: Vec<NodeId>) {
        let bytes = put.iter().map(|(_, record)| record.body.len()).sum();
        self.post(Event::Records(put, forget), bytes);
    }

    fn raise_epoch(&self, epoch: u64) {
        self.post(Event::RaiseEpoch(epoch), 0);
    }

    fn revoked(&self, list: RevocationList) {
        let bytes = list.as_bytes().len();
        self.post(Event::Command(mesh_node_core::event::Command::Revoke(list)), bytes);
        self.news.notify_one();
    }

    fn grant_of(&self, peer: NodeId) -> Grant {
        let grant = self.parts.database.snapshot().ok().and_then(|s| policy::grant_of(&s, peer).ok());
        let now = self.parts.clock.now().wall_ms;
        // What cannot be read is not granted; what has expired is not shown as granted.
        match grant {
            Some(grant) if grant.expires_wall_ms.is_none_or(|end| now < end) => grant,
            Some(_) | None => Trust::None.into(),
        }
    }
}

/// Hands the sandbox's reports to the writer. Called on the job's own thread, which may wait.
pub(super) fn report_to(writer: WriterHandle<Machine>) -> Arc<dyn Report> {
    struct ToWriter(WriterHandle<Machine>, tokio::runtime::Handle);

    impl Report for ToWriter {
        fn report(&self, event: Event) {
            let bytes = bytes(&event);
            // Refused only when the node is stopping; the next start closes the job as interrupted.
            let _ = self.1.block_on(self.0.post(event, bytes));
        }
    }

    Arc::new(ToWriter(writer, tokio::runtime::Handle::current()))
}

/// What an event of the sandbox weighs in the writer's queue.
fn bytes(event: &Event) -> usize {
    match event {
        Event::JobEnded { result, evidence, outputs, .. } => {
            let files = outputs.iter().map(|file| file.content.0.len());
            let texts = result.stdout.len().saturating_add(result.stderr.len());
            files.fold(texts.saturating_add(evidence.len()), usize::saturating_add)
        }
        Event::JobAttested { evidence, .. } => evidence.len(),
        // Records of output and little else.
        Event::JobEvents { events, .. } => events.len().saturating_mul(EVENT_BYTES),
        _ => 0,
    }
}

/// Bytes an event of a job has, about; no more than sixteen times as many.
const EVENT_BYTES: usize = 1024;
