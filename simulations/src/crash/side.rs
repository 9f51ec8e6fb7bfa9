//! One side: a disk, and while its machine runs what a node keeps in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use mesh_node::clock::{Clock as _, ClockRow, Reading};
use mesh_node::storage::{Database, DatabaseError};
use mesh_node::writer::{Perform, Queued, SubmitError, WriterCore};
use mesh_node_core::event::{Action, Command, Event, Reply};
use mesh_node_core::machine::Machine;
use mesh_node_core::outbox::OutboxView;
use mesh_node_core::policy::GrantChange;
use mesh_node_core::site::{AgentSetting, JobPolicy, Site};
use mesh_node_core::time::NodeTime;
use mesh_node_core::view::{Contact, KnownAgent, Member, View};
use mesh_protocol::address::Name;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::policy::{PermissionProfile, Trust};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use super::clock::SideClock;
use super::point::{SIDES, SideIndex};
use super::work::Work;
use super::writing::About;
use crate::disk::{Disk, Image};

/// The wall clock when a run begins: some day in 2023.
const WALL_MS: u64 = 1_700_000_000_000;

/// Bytes of a side's journal: short, so that one takes a few commits and begins again often.
pub(super) const JOURNAL_BYTES: u64 = 16 * 1024;

/// The name of a side's node.
pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// The id of a side's node.
pub(super) fn id(side: SideIndex) -> NodeId {
    NodeId::from_bytes(if side == 0 { [1; 32] } else { [2; 32] })
}

/// What acknowledged commits left on a disk: how many there were, and its bytes right after the last.
#[derive(Debug, Clone)]
pub(super) struct Acked {
    pub(super) commits: u64,
    pub(super) image: Image,
}

/// Two disks on which nodes were founded that trust each other with everything.
#[derive(Debug, Clone)]
pub struct Prepared([Acked; 2]);

impl Prepared {
    /// Founds them.
    ///
    /// # Errors
    /// When a shipped call fails, which none may on a disk that is well.
    pub fn new() -> anyhow::Result<Self> {
        let [a, b] = SIDES.map(|side| {
            let mut side = Side::new(side, Disk::new());
            side.start(0)?;
            let running = side.running.as_mut().context("it runs")?;
            let trust = GrantChange { trust: Some(Trust::Mine), ..GrantChange::default() };
            let grant = Event::Command(Command::Grant(id(1 - side.index), trust));
            running.core.run_batch([Event::Started, grant].map(|event| Queued::post(event, 0)).into())?;
            side.running = None;
            let image = side.disk.image();
            let commits = Contents::read(image.clone())?.commits;
            anyhow::Ok(Acked { commits, image })
        });
        Ok(Self([a?, b?]))
    }

    pub(super) fn side(&self, index: SideIndex) -> anyhow::Result<Side> {
        let acked = self.0.get(index).context("there are two sides")?.clone();
        let mut side = Side::new(index, Disk::with(acked.image.clone()));
        side.acked = acked;
        Ok(side)
    }
}

/// Everything in a database once it was opened, read by nobody's code but redb's own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) commits: u64,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Contents {
    /// # Errors
    /// When it does not open, or not all of it reads. On pages that are not what they should be the database may also
    /// panic.
    pub(super) fn read(image: Image) -> anyhow::Result<Self> {
        let read = catch_unwind(AssertUnwindSafe(|| Self::read_all(image)));
        read.unwrap_or_else(|_| Err(anyhow::anyhow!("the database panicked")))
    }

    fn read_all(image: Image) -> anyhow::Result<Self> {
        const ROWS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");
        const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
        let disk = Disk::with(image);
        let opened = disk.clone();
        // As a start does: what is in the journal is in the tree then, and closing it makes it whole.
        drop(Database::open_backends(move || opened.backends(JOURNAL_BYTES))?);
        let mut database = redb::Builder::new().create_with_backend(disk)?;
        anyhow::ensure!(database.check_integrity()?, "the database was not whole");
        let read = database.begin_read()?;
        let commits = read.open_table(META)?.get("commits")?.map_or(0, |commits| commits.value());
        let mut rows = BTreeMap::new();
        for row in read.open_table(ROWS)?.iter()? {
            let (key, value) = row?;
            rows.insert(key.value().to_vec(), value.value().to_vec());
        }
        Ok(Self { commits, rows })
    }
}

/// A command whose caller waits: which request, and a look at whether it is answered.
pub(super) struct Waiting {
    pub(super) request: usize,
    pub(super) look: Box<dyn FnMut() -> Option<Result<Reply, SubmitError>>>,
}

/// Our stream to the other side.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) session: u64,
    pub(super) began_ms: u64,
    /// The first parcel that is not on the wire; `None` until the session lives.
    pub(super) next: Option<u64>,
    /// There may be new parcels.
    pub(super) woken: bool,
    /// The numbering that was opened last.
    pub(super) epoch: Option<mesh_protocol::delivery::Epoch>,
    /// Whether any parcel was put on it.
    pub(super) used: bool,
}

/// Actions, noted by the writer and performed by the world after it.
#[derive(Debug, Clone, Default)]
pub(super) struct Noted(Arc<Mutex<Vec<Action>>>);

impl Noted {
    pub(super) fn take(&self) -> Vec<Action> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Perform<Machine> for Noted {
    fn perform(&mut self, action: Action) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(action);
    }
}

/// An event on its way to the writer, and the request of the caller who waits for it.
pub(super) struct Arrived {
    pub(super) event: Event,
    pub(super) request: Option<usize>,
}

/// A process.
pub(super) struct Running {
    pub(super) database: Arc<Database>,
    pub(super) core: WriterCore<Machine>,
    pub(super) noted: Noted,
    pub(super) clock: Arc<SideClock>,
    pub(super) inbox: VecDeque<Arrived>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) wake: NodeTime,
    pub(super) outgoing: Option<Outgoing>,
    /// When the next session may begin.
    pub(super) again_at_ms: u64,
    /// Sessions of the other side that are open here.
    pub(super) incoming: BTreeSet<u64>,
    pub(super) work: VecDeque<Work>,
    /// Tries to open the database again, since it failed.
    pub(super) tries: u32,
    /// How the outbox stood after the last commit.
    pub(super) depth: Option<OutboxView>,
    /// What the batch in hand is about.
    pub(super) about: About,
}

impl Running {
    pub(super) fn post(&mut self, event: Event) {
        self.inbox.push_back(Arrived { event, request: None });
    }

    pub(super) fn now(&self) -> mesh_node_core::time::Now {
        self.clock.now()
    }
}

/// A machine and its disk.
pub(super) struct Side {
    pub(super) index: SideIndex,
    pub(super) disk: Disk,
    pub(super) running: Option<Running>,
    pub(super) acked: Acked,
    pub(super) backup: Option<Acked>,
    /// Of the wall clock.
    pub(super) wall_offset_ms: i64,
    /// Turns until it starts again.
    pub(super) restart_in: u32,
    pub(super) commits: u64,
    boot: u128,
    booted_ms: u64,
    starts: u64,
}

impl Side {
    fn new(index: SideIndex, disk: Disk) -> Self {
        let acked = Acked { commits: 0, image: Image::default() };
        Self {
            index,
            disk,
            running: None,
            acked,
            backup: None,
            wall_offset_ms: 0,
            restart_in: 0,
            commits: 0,
            boot: 1,
            booted_ms: 0,
            starts: 0,
        }
    }

    /// The system's clocks when this much time has passed in the world.
    pub(super) fn reading(&self, ms: u64) -> Reading {
        let wall_ms = WALL_MS.saturating_add(ms).saturating_add_signed(self.wall_offset_ms);
        Reading { boot_id: self.boot, boot_ms: ms.saturating_sub(self.booted_ms), wall_ms }
    }

    /// Its machine was without power until now.
    pub(super) const fn booted(&mut self, ms: u64) {
        self.boot += 1;
        self.booted_ms = ms;
    }

    /// Opens the database and puts a writer over it.
    pub(super) fn start(&mut self, ms: u64) -> Result<(), DatabaseError> {
        let disk = self.disk.clone();
        let database = Arc::new(Database::open_backends(move || disk.backends(JOURNAL_BYTES))?);
        let snapshot = database.snapshot()?;
        // As a node does: a row that does not read is a clock that begins anew.
        let row = ClockRow::read(&snapshot).ok().flatten();
        let clock = Arc::new(SideClock::start(row.as_ref(), self.reading(ms)));
        self.starts += 1;
        let seed = self.starts * 2 + u64::try_from(self.index).unwrap_or(0);
        let noted = Noted::default();
        let core = WriterCore::new(
            Arc::clone(&database),
            Machine::new(site(self.index)),
            clock.clone(),
            Box::new(ChaCha8Rng::seed_from_u64(seed)),
            Box::new(noted.clone()),
        );
        self.running = Some(Running {
            database,
            core,
            noted,
            clock,
            inbox: VecDeque::new(),
            waiting: Vec::new(),
            wake: NodeTime(u64::MAX),
            outgoing: None,
            again_at_ms: 0,
            incoming: BTreeSet::new(),
            work: VecDeque::new(),
            tries: 0,
            depth: None,
            about: About::default(),
        });
        Ok(())
    }
}

fn executor(side: SideIndex) -> ExecutorView {
    // Only the second has a sandbox.
    let (classes, languages) = if side == 1 {
        (vec![IsolationClass::GvisorApplicationKernel], vec!["python".to_owned()])
    } else {
        (Vec::new(), Vec::new())
    };
    ExecutorView { classes, languages, slots: 1, ..ExecutorView::default() }
}

fn site(side: SideIndex) -> Site {
    let setting = AgentSetting {
        harness: "command".into(),
        profile: PermissionProfile::Review,
        advertised: true,
        slots: 1,
        offline: None,
        description: String::new(),
    };
    Site {
        me: id(side),
        agents: BTreeMap::from([(name("echo"), setting)]),
        executor: executor(side),
        named_executors: vec!["b".into()],
        jobs: JobPolicy::default(),
        view: view(side, Contact::NotNow),
    }
}

/// What a side sees: itself, and the other in this contact.
pub(super) fn view(side: SideIndex, other: Contact) -> Arc<View> {
    let member = |node: SideIndex| Member {
        name: name(if node == 0 { "a" } else { "b" }),
        contact: if node == side { Contact::Here } else { other },
        state: if node == side || other == Contact::Reachable { "alive" } else { "unreachable" }.into(),
        since_wall_ms: None,
        cause: String::new(),
        executor: executor(node),
        as_of_ms: None,
    };
    let agent = |node: SideIndex| KnownAgent {
        name: name("echo"),
        node: id(node),
        harness: "command".into(),
        profile: None,
        offline: None,
        description: String::new(),
    };
    Arc::new(View {
        members: SIDES.map(|node| (id(node), member(node))).into(),
        agents: SIDES.map(agent).to_vec(),
    })
}

#[expect(clippy::expect_used, reason = "constants that are names")]
fn name(text: &str) -> Name {
    text.parse().expect("a name")
}
