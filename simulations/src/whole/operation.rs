//! What is done to a world, as data: drawn from the seed before anything runs, so that a failing list can be shrunk
//! and played again.

use std::fmt;

use rand::{Rng, RngExt};

use super::scenario::{Fault, Scenario};

/// One thing that is done, and what ends it by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// An operator at one machine asks the agent of another.
    Ask {
        /// Where.
        from: usize,
        /// Whom.
        to: usize,
        /// How long the work takes.
        work_ms: u64,
    },
    /// An operator leaves a message.
    Send {
        /// Where.
        from: usize,
        /// For whom.
        to: usize,
    },
    /// An operator runs a job.
    Job {
        /// Where.
        from: usize,
        /// On which machine.
        on: usize,
        /// How long the work takes.
        work_ms: u64,
    },
    /// An operator takes back the newest ask but so many.
    Cancel {
        /// How many came after it.
        back: u64,
    },
    /// Some machines cannot be heard by the others, and with `both` do not hear them.
    Split {
        /// Which.
        side: Vec<usize>,
        /// Whether neither side hears the other.
        both: bool,
        /// For how long.
        for_ms: u64,
    },
    /// A node ends where it stands.
    Crash {
        /// Which.
        node: usize,
        /// Whether its machine stops too, and forgets what was not synced.
        power: bool,
        /// How long it is down.
        for_ms: u64,
    },
    /// A machine stops in the middle of an operation of its disk.
    CrashAtDisk {
        /// Which.
        node: usize,
        /// At which operation from now.
        after: u64,
        /// How long it is down.
        for_ms: u64,
    },
    /// A disk fails and its machine runs on.
    FailDisk {
        /// Whose.
        node: usize,
        /// From which operation from now.
        after: u64,
        /// For how long.
        for_ms: u64,
    },
    /// Commits take long.
    SlowDisk {
        /// Where.
        node: usize,
        /// How long each.
        commit_ms: u64,
        /// For how long.
        for_ms: u64,
    },
    /// A node is stopped in order.
    Stop {
        /// Which.
        node: usize,
        /// How long it is down.
        for_ms: u64,
    },
    /// A backup is taken of a disk, and put back later.
    SetBack {
        /// Whose.
        node: usize,
        /// After how long.
        after_ms: u64,
        /// How long the machine is down then.
        for_ms: u64,
    },
    /// A home runs on a second machine too.
    Double {
        /// Whose.
        node: usize,
        /// For how long.
        for_ms: u64,
    },
    /// A wall clock is set.
    SetWall {
        /// Whose.
        node: usize,
        /// By how much.
        by_ms: i64,
    },
    /// A machine sleeps.
    Sleep {
        /// Which.
        node: usize,
        /// For how long.
        for_ms: u64,
    },
}

/// A deed and when it is done, in virtual milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// When.
    pub at_ms: u64,
    /// What.
    pub deed: Deed,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7} ms  {:?}", self.at_ms, self.deed)
    }
}

/// The longest a fault lasts, in milliseconds.
const FAULT_MS_MAX: u64 = 15_000;

/// Draws what is done in the safety phase of a scenario, in order of time.
pub(super) fn draw(scenario: &Scenario, rng: &mut dyn Rng) -> Vec<Operation> {
    let mut operations = Vec::new();
    let seconds = scenario.seconds;
    for second in 0..seconds {
        let at = |rng: &mut dyn Rng| second * 1_000 + rng.random_range(0..1_000);
        for _ in 0..times(scenario.work_per_second, rng) {
            operations.push(Operation { at_ms: at(rng), deed: work(scenario.nodes, rng) });
        }
        for _ in 0..times(scenario.faults_per_second, rng) {
            if let Some(deed) = fault(scenario, rng) {
                operations.push(Operation { at_ms: at(rng), deed });
            }
        }
    }
    operations.sort_by_key(|operation| operation.at_ms);
    operations
}

/// A whole number whose mean is this.
fn times(mean: f64, rng: &mut dyn Rng) -> u64 {
    let whole = mean.trunc();
    let more = rng.random_bool((mean - whole).clamp(0.0, 1.0));
    whole as u64 + u64::from(more)
}

fn work(nodes: usize, rng: &mut dyn Rng) -> Deed {
    let from = rng.random_range(0..nodes);
    let to = rng.random_range(0..nodes);
    let work_ms = rng.random_range(1..1_500);
    match rng.random_range(0..100_u32) {
        0..45 => Deed::Ask { from, to, work_ms },
        45..75 => Deed::Send { from, to },
        75..92 => Deed::Job { from, on: to, work_ms },
        _ => Deed::Cancel { back: rng.random_range(0..5) },
    }
}

fn fault(scenario: &Scenario, rng: &mut dyn Rng) -> Option<Deed> {
    let kinds = &scenario.faults;
    let kind = kinds.get(rng.random_range(0..kinds.len().max(1)))?;
    let node = rng.random_range(0..scenario.nodes);
    let for_ms = rng.random_range(200..FAULT_MS_MAX);
    Some(match kind {
        Fault::Split => {
            let size = rng.random_range(1..=scenario.nodes.div_ceil(2));
            let first = rng.random_range(0..scenario.nodes);
            let side = (0..size).map(|step| (first + step) % scenario.nodes).collect();
            Deed::Split { side, both: rng.random_bool(0.7), for_ms }
        }
        Fault::Crash if rng.random_bool(0.4) => {
            Deed::CrashAtDisk { node, after: rng.random_range(1..60), for_ms }
        }
        Fault::Crash => Deed::Crash { node, power: rng.random_bool(0.5), for_ms },
        Fault::FailDisk => Deed::FailDisk { node, after: rng.random_range(1..60), for_ms },
        Fault::SlowDisk => Deed::SlowDisk { node, commit_ms: rng.random_range(20..800), for_ms },
        Fault::Stop => Deed::Stop { node, for_ms },
        Fault::SetBack => {
            let after_ms = rng.random_range(100..FAULT_MS_MAX);
            Deed::SetBack { node, after_ms, for_ms }
        }
        Fault::Double => Deed::Double { node, for_ms },
        Fault::Clock => {
            let day = 24 * 3_600_000_i64;
            Deed::SetWall { node, by_ms: rng.random_range(-day..=day) }
        }
        Fault::Sleep => Deed::Sleep { node, for_ms },
    })
}
