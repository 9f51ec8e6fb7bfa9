//! Sandboxes that are started before there is a job for them, and stopped while they wait.
//!
//! ```text
//! wanted ──launch, READY──> waiting ──freeze──> armed ──take: thaw──> a flight
//!                                                 └── too old, or the pool closes: destroyed
//! ```
//!
//! One thread does nothing but refill, and lives as long as the pool. It lets a job that has just been handed over have
//! the machine for [`REFILL_DELAY`] first. Whoever finds the pool empty launches a sandbox of its own: that is the cold
//! path, and the same code from there on. How many are kept follows what was asked for of late (`demand`).
//!
//! Invariants: what was taken never comes back; no sandbox waits longer than [`PoolConfig::age`]; all together are
//! charged with no more than [`PoolConfig::memory_mb`]; a language that grew gives way to one that has less than
//! [`PoolConfig::armed`].

mod demand;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use demand::{Demand, Memory};

use crate::guest::Guest;
use crate::language::Language;
use crate::launch::{Kind, Launcher};
use crate::limits::READY_DEADLINE;

/// A refill waits so long after a job was handed over: most are over by then, and a start takes a core for itself.
const REFILL_DELAY: Duration = Duration::from_millis(50);
/// After a start that failed, so long none is tried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// How many sandboxes wait for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// At least so many for each language of each runtime; 0 for no pool.
    pub armed: usize,
    /// The languages to keep ready, as far as they work here.
    pub languages: Vec<Language>,
    /// What all of them are charged with together at most, at [`crate::limits::ARMED_MIB`] each. What is kept after a
    /// burst beyond [`PoolConfig::armed`] takes no more than a sixth of the machine's memory, and leaves others a quarter
    /// of it, whatever this is.
    pub memory_mb: u64,
    /// How long one may wait before it is replaced.
    pub age: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { armed: 2, languages: Language::ALL.to_vec(), memory_mb: 4096, age: Duration::from_secs(600) }
    }
}

/// The waiting sandboxes, and the thread that refills them.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    refiller: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    launcher: Arc<Launcher>,
    config: PoolConfig,
    stock: Mutex<Stock>,
    changed: Condvar,
}

#[derive(Debug)]
struct Stock {
    shelves: BTreeMap<Kind, Shelf>,
    /// No start before this moment.
    not_before: Instant,
    closed: bool,
}

/// Sandboxes of one kind, the oldest in front.
#[derive(Debug)]
struct Shelf {
    armed: VecDeque<Armed>,
    demand: Demand,
}

#[derive(Debug)]
struct Armed {
    guest: Guest,
    since: Instant,
}

/// What the refiller does next.
enum Errand {
    Start(Kind),
    Destroy(Vec<Armed>),
    Wait(Duration),
    Stop,
}

impl Pool {
    /// Starts to fill a pool for these kinds.
    pub(crate) fn open(
        launcher: Arc<Launcher>,
        kinds: impl Iterator<Item = Kind>,
        config: PoolConfig,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let shelf = || Shelf { armed: VecDeque::new(), demand: Demand::new(now) };
        let shelves: BTreeMap<Kind, Shelf> = kinds.map(|kind| (kind, shelf())).collect();
        let stock = Mutex::new(Stock { shelves, not_before: now, closed: false });
        let shared = Arc::new(Shared { launcher, config, stock, changed: Condvar::new() });
        let refiller = {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("sandbox-pool".to_owned());
            Some(thread.spawn(move || shared.refill())?)
        };
        Ok(Self { shared, refiller })
    }

    /// A sandbox of this kind that waits for its job, if there is one.
    pub(crate) fn take(&self, kind: &Kind) -> Option<Guest> {
        self.shared.stock().shelves.get_mut(kind)?.demand.asked();
        loop {
            let Armed { guest, .. } = {
                let mut stock = self.shared.stock();
                let armed = stock.shelves.get_mut(kind)?.armed.pop_front();
                if armed.is_some() {
                    stock.not_before = stock.not_before.max(Instant::now() + REFILL_DELAY);
                }
                self.shared.changed.notify_one();
                armed?
            };
            // One that died while it waited is dropped here, and the next is tried.
            if guest.is_waiting() && guest.group.thaw().is_ok() {
                return Some(guest);
            }
        }
    }

    /// How many sandboxes wait.
    pub(crate) fn armed(&self) -> usize {
        self.shared.stock().count()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stock().closed = true;
        self.shared.changed.notify_one();
        if let Some(refiller) = self.refiller.take() {
            // It does not panic; if it did there is nobody left to tell.
            let _ = refiller.join();
        }
        self.shared.stock().shelves.clear();
    }
}

impl Shared {
    /// A panic of another thread cannot have left the stock half changed.
    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refill(&self) {
        loop {
            let mut stock = self.stock();
            let capacity = stock.capacity(&self.config, memory());
            match stock.next(&self.config, capacity, Instant::now()) {
                Errand::Stop => return,
                Errand::Wait(time) => {
                    drop(self.changed.wait_timeout(stock, time));
                }
                Errand::Destroy(old) => {
                    drop(stock);
                    drop(old);
                }
                Errand::Start(kind) => {
                    drop(stock);
                    let armed = self.arm(&kind);
                    stock = self.stock();
                    match armed {
                        Ok(armed) => stock.add(&kind, armed, &self.config, capacity),
                        Err(error) => {
                            tracing::warn!(language = %kind.language, %error, "no sandbox could be kept ready");
                            stock.not_before = Instant::now() + RETRY_DELAY;
                        }
                    }
                }
            }
        }
    }

    /// Starts one sandbox and stops it once it waits.
    fn arm(&self, kind: &Kind) -> io::Result<Armed> {
        let mut guest = self.launcher.launch(kind).map_err(io::Error::other)?;
        guest.become_ready(READY_DEADLINE)?;
        guest.group.freeze()?;
        Ok(Armed { guest, since: Instant::now() })
    }
}

/// What proc(5) says in `meminfo`; a machine that does not say has none to spare.
fn memory() -> Memory {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib / 1024)
    };
    Memory { total: mib("MemTotal:"), available: mib("MemAvailable:") }
}

impl Stock {
    fn count(&self) -> usize {
        self.shelves.values().map(|shelf| shelf.armed.len()).sum()
    }

    /// How many may wait now.
    fn capacity(&self, config: &PoolConfig, memory: Memory) -> usize {
        demand::capacity(config, self.shelves.len(), memory, self.count())
    }

    /// Puts a new one on its shelf.
    fn add(&mut self, kind: &Kind, armed: Armed, config: &PoolConfig, capacity: usize) {
        let others = self.shelves.len().saturating_sub(1);
        if let Some(shelf) = self.shelves.get_mut(kind) {
            shelf.armed.push_back(armed);
            let wanted = shelf.wanted(config, capacity, others);
            shelf.demand.added(shelf.armed.len() >= wanted);
        }
    }

    /// Decides what is most urgent.
    fn next(&mut self, config: &PoolConfig, capacity: usize, now: Instant) -> Errand {
        if self.closed {
            return Errand::Stop;
        }
        let mut old = Vec::new();
        for shelf in self.shelves.values_mut() {
            // What was kept for a burst is as old as the burst by the time it is not wanted any more.
            shelf.demand.pass(now, config.age / 2);
            while shelf.armed.front().is_some_and(|armed| now.duration_since(armed.since) >= config.age) {
                old.extend(shelf.armed.pop_front());
            }
        }
        if !old.is_empty() {
            return Errand::Destroy(old);
        }
        let others = self.shelves.len().saturating_sub(1);
        let missing = |shelf: &Shelf| shelf.armed.len() < shelf.wanted(config, capacity, others);
        // The emptiest first.
        let next = self
            .shelves
            .iter()
            .filter(|(_, shelf)| missing(shelf))
            .min_by_key(|(_, shelf)| shelf.armed.len());
        let Some((kind, shelf)) = next.map(|(kind, shelf)| (kind.clone(), shelf)) else {
            return Errand::Wait(self.time_to_the_next_age(config, now));
        };
        if now < self.not_before {
            return Errand::Wait(self.not_before - now);
        }
        if self.count() < capacity {
            return Errand::Start(kind);
        }
        let poor = shelf.armed.len() < config.armed;
        let rich = self.shelves.values_mut().max_by_key(|shelf| shelf.armed.len());
        match rich
            .filter(|rich| poor && rich.armed.len() > config.armed)
            .and_then(|rich| rich.armed.pop_front())
        {
            Some(armed) => Errand::Destroy(vec![armed]),
            None => Errand::Wait(self.time_to_the_next_age(config, now)),
        }
    }

    fn time_to_the_next_age(&self, config: &PoolConfig, now: Instant) -> Duration {
        let oldest =
            self.shelves.values().filter_map(|shelf| shelf.armed.front()).map(|armed| armed.since).min();
        oldest.map_or(config.age, |since| config.age.saturating_sub(now.duration_since(since)))
    }
}

impl Shelf {
    /// How many of this kind to keep, if there are so many other kinds, each of which keeps its least.
    fn wanted(&self, config: &PoolConfig, capacity: usize, others: usize) -> usize {
        self.demand.wanted(config.armed, capacity.saturating_sub(others.saturating_mul(config.armed)))
    }
}
