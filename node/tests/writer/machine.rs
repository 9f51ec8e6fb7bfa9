//! A small durable machine, what surrounds it, and a disk that can fail.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use mesh_node::clock::{Clock, SetClock};
use mesh_node::storage::{Backends, Database};
use mesh_node::writer::{Perform, WriterCore};
use mesh_node_core::handler::{Handled, Handler};
use mesh_node_core::store::{Overlay, Record, StoreError, Table, get};
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::codec::DecodeError;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redb::StorageBackend;
use serde::{Deserialize, Serialize};

/// What the machine keeps, by number.
#[derive(Serialize, Deserialize)]
pub(crate) struct Counter(u64);

impl Record for Counter {
    const TABLE: Table = Table::Jobs;
    type Key = u64;
}

/// What makes a commit long: bytes that all are the counter's, so that it shows whether both were kept together.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ballast(pub(crate) Vec<u8>);

impl Record for Ballast {
    const TABLE: Table = Table::JobBodies;
    type Key = u64;
}

#[derive(Debug)]
pub(crate) enum Event {
    /// Adds to a counter; the reply is its value.
    Add(u64, u64),
    /// Adds one to a counter and writes so many bytes of ballast.
    AddWithBallast(u64, usize),
    WriteThenFail(u64),
    WriteThenPanic(u64),
    /// Meets the test twice: on entering the handler and before leaving it.
    Wait(Arc<Barrier>),
    PanicInAction,
}

pub(crate) enum Action {
    Added(u64),
    Panic,
}

#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// How often it was told that something was not kept.
    pub(crate) aborted: u32,
}

impl Handler for Machine {
    type Event = Event;
    type Action = Action;
    type Reply = u64;

    fn handle(
        &mut self,
        tx: &mut Overlay<'_>,
        _: Now,
        _: &mut dyn Rng,
        event: &Event,
    ) -> Result<Handled<Action, u64>, StoreError> {
        match event {
            Event::Add(counter, by) => {
                let value = tx.get_record::<Counter>(counter)?.map_or(0, |counter| counter.0) + by;
                tx.put(counter, &Counter(value));
                Ok(Handled { actions: vec![Action::Added(*counter)], reply: Some(value) })
            }
            Event::AddWithBallast(counter, bytes) => {
                let value = tx.get_record::<Counter>(counter)?.map_or(0, |counter| counter.0) + 1;
                tx.put(counter, &Counter(value));
                tx.put(counter, &Ballast(vec![value.to_le_bytes()[0]; *bytes]));
                Ok(Handled { actions: Vec::new(), reply: Some(value) })
            }
            Event::WriteThenFail(counter) => {
                tx.put(counter, &Counter(0));
                Err(StoreError::Row {
                    table: Table::Jobs,
                    source: DecodeError::Malformed { what: "counter" },
                })
            }
            Event::WriteThenPanic(counter) => {
                tx.put(counter, &Counter(0));
                panic!("a defect, on purpose");
            }
            Event::Wait(barrier) => {
                barrier.wait();
                barrier.wait();
                Ok(Handled::nothing())
            }
            Event::PanicInAction => Ok(Handled { actions: vec![Action::Panic], reply: Some(0) }),
        }
    }

    fn describe(event: &Event) -> &'static str {
        match event {
            Event::Add(..) => "add",
            Event::AddWithBallast(..) => "add with ballast",
            Event::WriteThenFail(_) => "write then fail",
            Event::WriteThenPanic(_) => "write then panic",
            Event::Wait(_) => "wait",
            Event::PanicInAction => "panic in action",
        }
    }

    fn aborted(&mut self) {
        self.aborted += 1;
    }
}

/// An action's counter, and its committed value at that moment.
pub(crate) type Performed = (u64, Option<u64>);

/// Records what is performed, with what the database holds at that moment.
#[derive(Clone)]
pub(crate) struct Recorder {
    database: Arc<Database>,
    performed: Arc<Mutex<Vec<Performed>>>,
    quarantined: Arc<Mutex<Vec<&'static str>>>,
}

impl Recorder {
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        Self { database: Arc::clone(database), performed: Arc::default(), quarantined: Arc::default() }
    }

    pub(crate) fn performed(&self) -> Vec<Performed> {
        self.performed.lock().unwrap().clone()
    }

    pub(crate) fn quarantined(&self) -> Vec<&'static str> {
        self.quarantined.lock().unwrap().clone()
    }
}

impl Perform<Machine> for Recorder {
    fn perform(&mut self, action: Action) {
        match action {
            Action::Added(counter) => {
                let committed = value(&self.database, counter);
                self.performed.lock().unwrap().push((counter, committed));
            }
            Action::Panic => panic!("on purpose"),
        }
    }

    fn quarantined(&mut self, event: &Event) {
        self.quarantined.lock().unwrap().push(Machine::describe(event));
    }
}

/// The committed value of a counter.
pub(crate) fn value(database: &Database, counter: u64) -> Option<u64> {
    let snapshot = database.snapshot().unwrap();
    get::<Counter>(&snapshot, &counter).unwrap().map(|counter| counter.0)
}

/// A journal of this length has room for no batch: each is made durable in the tree.
pub(crate) const NO_ROOM: u64 = 64;

/// A writer over a disk in memory.
pub(crate) fn core() -> (WriterCore<Machine>, Arc<Database>, Recorder) {
    core_on(&Disk::default(), NO_ROOM)
}

pub(crate) fn core_on(disk: &Disk, journal_bytes: u64) -> (WriterCore<Machine>, Arc<Database>, Recorder) {
    let disk = disk.clone();
    let backends = move || Backends { tree: disk.clone(), journal: disk.journal(), journal_bytes };
    let database = Arc::new(Database::open_backends(backends).unwrap());
    let recorder = Recorder::new(&database);
    (core_over(Arc::clone(&database), recorder.clone()), database, recorder)
}

pub(crate) fn core_over(database: Arc<Database>, recorder: Recorder) -> WriterCore<Machine> {
    let clock: Arc<dyn Clock> = Arc::new(SetClock::at(Now { node: NodeTime(5_000), wall_ms: 70_000 }));
    let rng = Box::new(ChaCha8Rng::seed_from_u64(1));
    WriterCore::new(database, Machine::default(), clock, rng, Box::new(recorder))
}

/// Bytes in memory behind a disk that fails when told to. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Those of its other file.
    journal: Arc<Mutex<Vec<u8>>>,
    flushes: Arc<AtomicU64>,
    /// The flush that fails; zero for none.
    fails_at: Arc<AtomicU64>,
    /// Whether everything fails from that flush on.
    stays_broken: Arc<AtomicU64>,
    /// Whether it is full: nothing is written any more, and everything is read.
    full: Arc<AtomicBool>,
}

impl Disk {
    /// Flushes of one commit of the tree: two-phase, so one for the pages and one for the switch to them.
    pub(crate) const FLUSHES_OF_A_COMMIT: u64 = 2;

    /// The other file on it.
    fn journal(&self) -> Self {
        Self { bytes: Arc::clone(&self.journal), ..self.clone() }
    }

    /// From the n-th flush on, counted from 1, everything fails until [`Self::heal`].
    pub(crate) fn fail_at_flush(&self, n: u64) {
        self.stays_broken.store(1, Ordering::SeqCst);
        self.fails_at.store(self.flushes() + n, Ordering::SeqCst);
    }

    /// The next flush fails, and nothing after it.
    pub(crate) fn fail_once(&self) {
        self.stays_broken.store(0, Ordering::SeqCst);
        self.fails_at.store(self.flushes() + 1, Ordering::SeqCst);
    }

    /// There is no room on it until [`Self::heal`].
    pub(crate) fn fill(&self) {
        self.full.store(true, Ordering::SeqCst);
    }

    pub(crate) fn heal(&self) {
        self.fails_at.store(0, Ordering::SeqCst);
        self.full.store(false, Ordering::SeqCst);
    }

    fn room(&self) -> Result<(), io::Error> {
        if self.full.load(Ordering::SeqCst) { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<(), io::Error> {
        let fails_at = self.fails_at.load(Ordering::SeqCst);
        let broken =
            fails_at != 0 && self.flushes() >= fails_at && self.stays_broken.load(Ordering::SeqCst) == 1;
        if broken { Err(failure()) } else { Ok(()) }
    }
}

fn failure() -> io::Error {
    io::Error::other("the disk failed, on purpose")
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        self.check()?;
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.check()?;
        let from = usize::try_from(offset).unwrap();
        out.copy_from_slice(self.bytes.lock().unwrap().get(from..from + out.len()).ok_or_else(failure)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.check()?;
        self.room()?;
        self.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let this = self.flushes.fetch_add(1, Ordering::SeqCst) + 1;
        if this == self.fails_at.load(Ordering::SeqCst) { Err(failure()) } else { self.check() }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.check()?;
        self.room()?;
        let from = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[from..from + data.len()].copy_from_slice(data);
        Ok(())
    }
}
