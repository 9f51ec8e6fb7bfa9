//! Where the core's time comes from.
//!
//! [`NodeClock`] counts milliseconds of this node's own life: it counts suspend (`CLOCK_BOOTTIME`, clock_gettime(2)),
//! and goes on over restarts from the [`ClockRow`] the writer keeps with every batch:
//!
//! ```text
//! same boot of the system    row's time + boot clock since the row               exact
//! after a reboot             row's time + wall clock since the row, at least 0    as good as the wall clock
//! no row                     0
//! ```
//!
//! It never goes back, within a run or over restarts. Setting the wall clock moves no deadline while the node runs;
//! a jump is only reported.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, fs, io};

use mesh_node_core::store::{Record, Store, StoreError, Table, get};
use mesh_node_core::time::{NodeTime, Now};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::limits::{WALL_JUMP_MS, WALL_JUMPS_MAX};

/// The key of the clock's row in [`Table::Node`].
const KEY: &str = "clock";

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Both clocks, now.
    fn now(&self) -> Now;

    /// The row from which this clock could go on after a restart, as of now.
    fn row(&self) -> ClockRow;
}

/// A reading of the node's clock beside the system's, kept so that the node's clock can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRow {
    /// The node's clock.
    pub node: NodeTime,
    /// Which boot of the system; zero where it has no name for it.
    pub boot_id: u128,
    /// Milliseconds since that boot, suspend included.
    pub boot_ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

impl Record for ClockRow {
    const TABLE: Table = Table::Node;
    type Key = String;
}

impl ClockRow {
    /// The key it is kept at.
    #[must_use]
    pub fn key() -> String {
        KEY.to_owned()
    }

    /// The row of a store; `None` in a new one.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub fn read(store: &dyn Store) -> Result<Option<Self>, StoreError> {
        get(store, &Self::key())
    }
}

/// The system's clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Which boot of the system; zero where it has no name for it.
    pub boot_id: u128,
    /// Milliseconds since that boot, suspend included.
    pub boot_ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

impl Reading {
    fn take(boot_id: u128) -> Self {
        let boot = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(boot.tv_nsec).unwrap_or(0);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            boot_id,
            boot_ms: seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000),
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The node's time at this reading, going on from a row.
    #[must_use]
    pub fn node_time(&self, row: Option<&ClockRow>) -> NodeTime {
        let Some(row) = row else { return NodeTime(0) };
        let same_boot = row.boot_id == self.boot_id && row.boot_id != 0 && row.boot_ms <= self.boot_ms;
        let passed = if same_boot {
            self.boot_ms.saturating_sub(row.boot_ms)
        } else {
            self.wall_ms.saturating_sub(row.wall_ms)
        };
        row.node.plus_ms(passed)
    }

    /// How far the wall clock moved by itself since an earlier reading of the same boot, in milliseconds.
    fn drift_ms(&self, earlier: &Self) -> i64 {
        let wall = i128::from(self.wall_ms) - i128::from(earlier.wall_ms);
        let boot = i128::from(self.boot_ms) - i128::from(earlier.boot_ms);
        let drift = (wall - boot).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        i64::try_from(drift).unwrap_or_default()
    }
}

/// The wall clock was set, or corrected by more than five seconds at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallJump {
    /// When it was noticed.
    pub at: NodeTime,
    /// By how many milliseconds; negative for back.
    pub by_ms: i64,
}

/// What reads the system's clocks.
type Read = dyn Fn() -> Reading + Send + Sync;

/// The clock of a running node.
pub struct NodeClock {
    read: Box<Read>,
    /// A reading and the node's time at it, from which all later times follow.
    start: (Reading, NodeTime),
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    last: Reading,
    jumps: Vec<WallJump>,
}

impl fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeClock").field("start", &self.start).finish_non_exhaustive()
    }
}

impl NodeClock {
    /// Goes on from the row of the last run ([`ClockRow::read`] on a snapshot), or starts at zero.
    ///
    /// # Errors
    /// When the system does not say which boot this is.
    pub fn start(row: Option<&ClockRow>) -> io::Result<Self> {
        let boot_id = boot_id()?;
        Ok(Self::reading(move || Reading::take(boot_id), row))
    }

    /// The same over clocks of another system than this one: a simulated one's.
    pub fn reading(read: impl Fn() -> Reading + Send + Sync + 'static, row: Option<&ClockRow>) -> Self {
        let reading = read();
        let start = (reading, reading.node_time(row));
        let seen = Mutex::new(Seen { last: reading, jumps: Vec::new() });
        Self { read: Box::new(read), start, seen }
    }

    /// The jumps of the wall clock since the last call, for the log and for `status`.
    #[must_use]
    pub fn take_wall_jumps(&self) -> Vec<WallJump> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut seen.jumps)
    }

    fn read(&self) -> (Reading, NodeTime) {
        let reading = (self.read)();
        let (first, start) = &self.start;
        let node = start.plus_ms(reading.boot_ms.saturating_sub(first.boot_ms));
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).note(reading, node);
        (reading, node)
    }
}

impl Seen {
    fn note(&mut self, reading: Reading, at: NodeTime) {
        let by_ms = reading.drift_ms(&self.last);
        self.last = reading;
        if by_ms.unsigned_abs() <= WALL_JUMP_MS {
            return;
        }
        let full = self.jumps.len() >= WALL_JUMPS_MAX;
        match self.jumps.last_mut().filter(|_| full) {
            Some(last) => *last = WallJump { at, by_ms: last.by_ms.saturating_add(by_ms) },
            None => self.jumps.push(WallJump { at, by_ms }),
        }
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Now {
        let (reading, node) = self.read();
        Now { node, wall_ms: reading.wall_ms }
    }

    fn row(&self) -> ClockRow {
        let (Reading { boot_id, boot_ms, wall_ms }, node) = self.read();
        ClockRow { node, boot_id, boot_ms, wall_ms }
    }
}

/// The name the kernel gave this boot (random(4)).
fn boot_id() -> io::Result<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).map_err(io::Error::other)
}

/// A clock that stands still until it is set: for tests and simulations.
#[derive(Debug, Default)]
pub struct SetClock {
    node_ms: AtomicU64,
    wall_ms: AtomicU64,
}

impl SetClock {
    /// A clock at this instant.
    #[must_use]
    pub fn at(now: Now) -> Self {
        Self { node_ms: AtomicU64::new(now.node.0), wall_ms: AtomicU64::new(now.wall_ms) }
    }
}

impl Clock for SetClock {
    fn now(&self) -> Now {
        let node = NodeTime(self.node_ms.load(Ordering::Relaxed));
        Now { node, wall_ms: self.wall_ms.load(Ordering::Relaxed) }
    }

    fn row(&self) -> ClockRow {
        let Now { node, wall_ms } = self.now();
        ClockRow { node, boot_id: 0, boot_ms: 0, wall_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROW: ClockRow = ClockRow { node: NodeTime(1_000), boot_id: 7, boot_ms: 500, wall_ms: 90_000 };

    fn reading(boot_id: u128, boot_ms: u64, wall_ms: u64) -> Reading {
        Reading { boot_id, boot_ms, wall_ms }
    }

    #[test]
    fn a_restart_in_the_same_boot_is_exact_whatever_the_wall_clock_did() {
        assert_eq!(reading(7, 800, 10).node_time(Some(&ROW)), NodeTime(1_300));
    }

    #[test]
    fn a_reboot_adds_the_wall_clock_and_never_goes_back() {
        assert_eq!(reading(8, 100, 90_250).node_time(Some(&ROW)), NodeTime(1_250));
        assert_eq!(reading(8, 100, 10).node_time(Some(&ROW)), NodeTime(1_000));
    }

    #[test]
    fn a_new_node_starts_at_zero() {
        assert_eq!(reading(8, 100, 10).node_time(None), NodeTime(0));
    }

    #[test]
    fn a_set_wall_clock_is_reported_once_and_suspend_is_not() {
        let mut seen = Seen { last: reading(7, 0, 100_000), jumps: Vec::new() };
        seen.note(reading(7, 3_600_000, 3_700_000), NodeTime(1)); // an hour of suspend: both moved
        seen.note(reading(7, 3_600_010, 3_600_010), NodeTime(2)); // set back by 100 s
        seen.note(reading(7, 3_600_020, 3_600_020), NodeTime(3));
        assert_eq!(seen.jumps, [WallJump { at: NodeTime(2), by_ms: -100_000 }]);
    }

    #[test]
    fn jumps_nobody_takes_are_bounded_and_their_sum_is_kept() {
        let mut seen = Seen { last: reading(7, 0, 0), jumps: Vec::new() };
        for step in 1..=100 {
            seen.note(reading(7, 0, step * 10_000), NodeTime(step));
        }
        assert_eq!(seen.jumps.len(), WALL_JUMPS_MAX);
        assert_eq!(seen.jumps.iter().map(|jump| jump.by_ms).sum::<i64>(), 1_000_000);
    }

    #[test]
    fn the_clock_of_this_machine_goes_on_from_its_own_row() {
        let first = NodeClock::start(Some(&ROW)).unwrap();
        let row = first.row();
        assert!(row.node >= ROW.node);
        let second = NodeClock::start(Some(&row)).unwrap();
        assert!(second.now().node >= row.node);
        assert!(second.take_wall_jumps().is_empty());
    }

    proptest! {
        #[test]
        fn no_restart_goes_back(node: u64, row: (u8, u64, u64), now: (u8, u64, u64)) {
            let row = ClockRow { node: NodeTime(node), boot_id: row.0.into(), boot_ms: row.1, wall_ms: row.2 };
            prop_assert!(reading(now.0.into(), now.1, now.2).node_time(Some(&row)) >= row.node);
        }
    }
}
