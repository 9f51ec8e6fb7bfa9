//! How many sandboxes of one kind are worth keeping ready. Pure: time is an argument.
//!
//! What is asked for and not yet replaced is counted. Jobs that come one at a time are replaced one at a time, so the
//! count stays at one; a burst that is faster than starting sandboxes raises it to about its own size. As many are kept
//! ready as it was at its highest in this period or the one before, within what the operator wants at least and what
//! memory allows. So a second burst finds what the first one lacked, and a quiet pool shrinks to its least.

use std::time::{Duration, Instant};

use super::PoolConfig;
use crate::limits::ARMED_MIB;

/// A burst lets a pool grow to this part of the machine's memory, whatever its configuration allows,
const MEMORY_SHARE: u64 = 6;
/// and only while this part of it is available to others.
const RESERVED_SHARE: u64 = 4;

/// Memory of the machine, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) total: u64,
    /// What could be had without taking it from anybody.
    pub(super) available: u64,
}

/// What was asked for of late.
#[derive(Debug)]
pub(super) struct Demand {
    /// Asked for and not replaced.
    open: usize,
    /// The most of it in this period, and in the one before.
    peak: usize,
    peak_before: usize,
    since: Instant,
}

impl Demand {
    pub(super) fn new(now: Instant) -> Self {
        Self { open: 0, peak: 0, peak_before: 0, since: now }
    }

    /// A job asked for a sandbox, whether one was ready or not.
    pub(super) fn asked(&mut self) {
        self.open = self.open.saturating_add(1);
        self.peak = self.peak.max(self.open);
    }

    /// One was added; or as many are there as are wanted, and nothing is owed any more.
    pub(super) fn added(&mut self, enough: bool) {
        self.open = if enough { 0 } else { self.open.saturating_sub(1) };
    }

    /// Begins a new period when the last one is over.
    pub(super) fn pass(&mut self, now: Instant, period: Duration) {
        let passed = now.duration_since(self.since);
        if passed >= period {
            self.peak_before = if passed < 2 * period { self.peak } else { self.open };
            (self.peak, self.since) = (self.open, now);
        }
    }

    /// How many to keep.
    pub(super) fn wanted(&self, least: usize, most: usize) -> usize {
        self.peak.max(self.peak_before).min(most).max(least)
    }
}

/// How many sandboxes of so many kinds may wait together on this machine, where `waiting` do already. What the operator
/// wants at least is bounded by the operator's own budget alone; what a burst adds, by the machine's memory as well.
pub(super) fn capacity(config: &PoolConfig, kinds: usize, memory: Memory, waiting: usize) -> usize {
    let fit = |mib: u64| usize::try_from(mib / ARMED_MIB).unwrap_or(usize::MAX);
    let least = config.armed.saturating_mul(kinds).min(fit(config.memory_mb));
    let share = fit(config.memory_mb.min(memory.total / MEMORY_SHARE));
    let free = fit(memory.available.saturating_sub(memory.total / RESERVED_SHARE));
    least.max(share.min(waiting.saturating_add(free)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(300);

    fn burst(demand: &mut Demand, jobs: usize) {
        (0..jobs).for_each(|_| demand.asked());
    }

    #[test]
    fn a_burst_raises_what_is_kept_to_its_size_and_never_beyond_what_memory_allows() {
        let mut demand = Demand::new(Instant::now());
        assert_eq!(demand.wanted(2, 96), 2);
        burst(&mut demand, 40);
        assert_eq!(demand.wanted(2, 96), 40);
        burst(&mut demand, 400);
        assert_eq!(demand.wanted(2, 96), 96);
        assert_eq!(demand.wanted(2, 1), 2, "the least is kept whatever there is room for");
    }

    #[test]
    fn jobs_that_come_one_at_a_time_change_nothing() {
        let mut demand = Demand::new(Instant::now());
        for _ in 0..1000 {
            demand.asked();
            demand.added(true);
        }
        assert_eq!(demand.wanted(1, 96), 1);
    }

    #[test]
    fn what_was_replaced_while_the_burst_went_on_is_not_kept_as_well() {
        let mut demand = Demand::new(Instant::now());
        for _ in 0..100 {
            burst(&mut demand, 2);
            demand.added(false);
        }
        assert_eq!(demand.wanted(2, 1000), 101);
    }

    #[test]
    fn a_pool_that_is_not_needed_shrinks_to_its_least_within_two_periods() {
        let start = Instant::now();
        let mut demand = Demand::new(start);
        burst(&mut demand, 40);
        demand.added(true);
        demand.pass(start + PERIOD - Duration::from_secs(1), PERIOD);
        assert_eq!(demand.wanted(2, 96), 40);
        demand.pass(start + PERIOD, PERIOD);
        assert_eq!(demand.wanted(2, 96), 40);
        demand.pass(start + 2 * PERIOD, PERIOD);
        assert_eq!(demand.wanted(2, 96), 2);
    }

    #[test]
    fn a_burst_long_ago_is_forgotten_even_if_nobody_looked_since() {
        let start = Instant::now();
        let mut demand = Demand::new(start);
        burst(&mut demand, 40);
        demand.added(true);
        demand.pass(start + 9 * PERIOD, PERIOD);
        assert_eq!(demand.wanted(2, 96), 2);
    }

    #[test]
    fn a_small_machine_keeps_less_but_always_what_the_operator_asked_for() {
        let config = PoolConfig { armed: 2, memory_mb: 4096, ..PoolConfig::default() };
        let idle = |total| Memory { total, available: total };
        assert_eq!(capacity(&config, 3, idle(64 * 1024), 0), 128, "the operator's budget");
        assert_eq!(capacity(&config, 3, idle(12 * 1024), 0), 64, "a sixth of the machine");
        assert_eq!(capacity(&config, 3, idle(512), 0), 6);
        assert_eq!(capacity(&config, 3, idle(0), 0), 6);
        let tight = PoolConfig { memory_mb: 3 * ARMED_MIB, ..config };
        assert_eq!(capacity(&tight, 3, idle(u64::MAX), 0), 3);
    }

    #[test]
    fn a_machine_whose_memory_others_use_keeps_what_it_has_and_adds_nothing() {
        let config = PoolConfig { armed: 2, memory_mb: 4096, ..PoolConfig::default() };
        let memory = |available| Memory { total: 12 * 1024, available };
        assert_eq!(capacity(&config, 3, memory(3 * 1024 + 10 * ARMED_MIB), 20), 30);
        assert_eq!(capacity(&config, 3, memory(3 * 1024), 20), 20);
        assert_eq!(capacity(&config, 3, memory(0), 0), 6);
    }
}
