//! Sandboxes that are started before there is a job for them, and stopped while they wait.
//!
//! ```text
//! wanted ──launch, READY──> waiting ──freeze──> armed ──take: thaw──> a flight
//!                                                 └── too old, or the pool closes: destroyed
//! ```
//!
//! One thread does nothing but refill, and lives as long as the pool. It lets a job that has just been handed over have
//! the machine for [`REFILL_DELAY`] first. Whoever finds the pool empty launches a sandbox of its own: that is the cold
//! path, and the same code from there on.
//!
//! Invariants: what was taken never comes back; no sandbox waits longer than [`PoolConfig::age`]; all together are
//! charged with no more than [`PoolConfig::memory_mb`].

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::guest::Guest;
use crate::language::Language;
use crate::launch::{Kind, Launcher};
use crate::limits::{ARMED_MIB, READY_DEADLINE};

/// A refill waits so long after a job was handed over: most are over by then, and a start takes a core for itself.
const REFILL_DELAY: Duration = Duration::from_millis(50);
/// After a start that failed, so long none is tried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// How many sandboxes wait for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// For each language of each runtime; 0 for none.
    pub armed: usize,
    /// The languages to keep ready, as far as they work here.
    pub languages: Vec<Language>,
    /// What all of them are charged with together, at [`ARMED_MIB`] each.
    pub memory_mb: u64,
    /// How long one may wait before it is replaced.
    pub age: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { armed: 2, languages: Language::ALL.to_vec(), memory_mb: 512, age: Duration::from_secs(600) }
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
    armed: BTreeMap<Kind, VecDeque<Armed>>,
    /// No start before this moment.
    not_before: Instant,
    closed: bool,
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
        let stock = Stock {
            armed: kinds.map(|kind| (kind, VecDeque::new())).collect(),
            not_before: Instant::now(),
            closed: false,
        };
        let shared = Arc::new(Shared { launcher, config, stock: Mutex::new(stock), changed: Condvar::new() });
        let refiller = {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("sandbox-pool".to_owned());
            Some(thread.spawn(move || shared.refill())?)
        };
        Ok(Self { shared, refiller })
    }

    /// A sandbox of this kind that waits for its job, if there is one.
    pub(crate) fn take(&self, kind: &Kind) -> Option<Guest> {
        loop {
            let Armed { guest, .. } = {
                let mut stock = self.shared.stock();
                let armed = stock.armed.get_mut(kind)?.pop_front()?;
                stock.not_before = stock.not_before.max(Instant::now() + REFILL_DELAY);
                self.shared.changed.notify_one();
                armed
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
        self.shared.stock().armed.clear();
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
            match stock.next(&self.config, Instant::now()) {
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
                        Ok(armed) => stock.armed.entry(kind).or_default().push_back(armed),
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

impl Stock {
    fn count(&self) -> usize {
        self.armed.values().map(VecDeque::len).sum()
    }

    /// Decides what is most urgent.
    fn next(&mut self, config: &PoolConfig, now: Instant) -> Errand {
        if self.closed {
            return Errand::Stop;
        }
        let mut old = Vec::new();
        for queue in self.armed.values_mut() {
            // The oldest is in front.
            while queue.front().is_some_and(|armed| now.duration_since(armed.since) >= config.age) {
                old.extend(queue.pop_front());
            }
        }
        if !old.is_empty() {
            return Errand::Destroy(old);
        }
        let affordable = (self.count() as u64 + 1) * ARMED_MIB <= config.memory_mb;
        let fewest = self.armed.iter().min_by_key(|(_, queue)| queue.len());
        let wanted = fewest.filter(|(_, queue)| affordable && queue.len() < config.armed);
        match wanted {
            Some((kind, _)) if now >= self.not_before => Errand::Start(kind.clone()),
            Some(_) => Errand::Wait(self.not_before - now),
            None => {
                let oldest =
                    self.armed.values().filter_map(|queue| queue.front()).map(|armed| armed.since).min();
                let left = oldest.map(|since| config.age.saturating_sub(now.duration_since(since)));
                Errand::Wait(left.unwrap_or(config.age))
            }
        }
    }
}
