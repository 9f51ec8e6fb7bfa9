//! The clocks of a simulated machine: one that counts since its boot, and one on the wall that people may set.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_node::clock::Reading;
use tokio::time::Instant;

/// The wall clock of every machine when a world begins: some day in 2025.
pub(super) const START_WALL_MS: u64 = 1_750_000_000_000;

/// How long every machine is up already when a world begins, in milliseconds.
const UP_BEFORE_MS: u64 = 1_000;

/// The clocks of one machine. Clones are the same ones.
#[derive(Debug, Clone)]
pub(super) struct Clocks(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    start: Instant,
    boot: u128,
    /// Virtual milliseconds at the last boot.
    booted_ms: u64,
    wall_offset_ms: i64,
    asleep_since_ms: Option<u64>,
}

impl Clocks {
    pub(super) fn new(start: Instant) -> Self {
        let state = State { start, boot: 1, booted_ms: 0, wall_offset_ms: 0, asleep_since_ms: None };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The machine was switched off and on.
    pub(super) fn boot(&self) {
        let mut state = self.lock();
        state.boot += 1;
        state.booted_ms = state.virtual_ms();
        state.asleep_since_ms = None;
    }

    /// Somebody set the clock on the wall.
    pub(super) fn set_wall(&self, by_ms: i64) {
        let mut state = self.lock();
        state.wall_offset_ms = state.wall_offset_ms.saturating_add(by_ms);
    }

    /// The machine sleeps: no program of it sees time pass.
    pub(super) fn sleep(&self) {
        let mut state = self.lock();
        state.asleep_since_ms = Some(state.virtual_ms());
    }

    /// It wakes, and its programs see at once how much time passed.
    pub(super) fn wake(&self) {
        self.lock().asleep_since_ms = None;
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.lock().asleep_since_ms.is_some()
    }

    pub(super) fn reading(&self) -> Reading {
        let state = self.lock();
        let now = state.asleep_since_ms.unwrap_or_else(|| state.virtual_ms());
        Reading {
            boot_id: state.boot,
            boot_ms: now.saturating_sub(state.booted_ms).saturating_add(UP_BEFORE_MS),
            wall_ms: START_WALL_MS.saturating_add(now).saturating_add_signed(state.wall_offset_ms),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn virtual_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
