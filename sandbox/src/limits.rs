//! Every bound of this crate, with its unit and reason, and how a job's wishes are brought within them.
//!
//! Clamping is silent by contract: what was asked for and what is in force are both reported.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits are looked at this often while a job runs: one percent of the shortest budget, at well under one
/// percent of a core.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// A sandbox that has not reported ready by then never will; cold starts take 0.1 to 0.4 s on an idle machine.
pub(crate) const READY_DEADLINE: Duration = Duration::from_secs(20);
/// How long a killed sandbox may take to be gone; measured below 50 ms.
pub(crate) const KILL_DEADLINE: Duration = Duration::from_secs(10);
/// How long after the end of its control stream a sandbox may take to be seen dead, before its silence is called nonsense.
pub(crate) const DEATH_DEADLINE: Duration = Duration::from_secs(1);
/// How long stopping a sandbox may take; measured below 2 ms.
pub(crate) const FREEZE_DEADLINE: Duration = Duration::from_secs(1);
/// Most bytes one read takes from a pipe, and the longest chunk an observer sees.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;
/// Memory that gVisor itself needs beside the job's, in MiB; 34 at most measured.
pub const OVERHEAD_MIB: u64 = 48;
/// What a sandbox that waits for a job is charged with, in MiB. With 24 of them waiting, each takes 17 (Bash) to 28 (Python,
/// Node.js) of the machine's available memory; 13 to 21 are counted by its control group.
pub const ARMED_MIB: u64 = 32;
/// A job is killed when one of its streams exceeds the kept bytes this many times.
pub const OUTPUT_KILL_MULTIPLE: u64 = 8;
/// Longest code or standard input of a job, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Most input files of a job.
pub const INPUT_FILES_MAX: usize = 64;
/// Longest path of an input or output file, in bytes.
pub const FILE_PATH_BYTES_MAX: usize = 256;
/// All input files of a job together, in bytes.
pub const INPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most output files of a job.
pub const OUTPUT_FILES_MAX: usize = 64;
/// All output files of a job together, in bytes.
pub const OUTPUT_FILES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Size of each place a job can write to, in MiB. They are in memory, and count as such.
pub const DISK_MIB: u64 = 128;
/// How long the init may take to hand over what a job left.
pub(crate) const COLLECT_DEADLINE: Duration = Duration::from_secs(10);
/// Open descriptors of one process of a job.
pub(crate) const OPEN_FILES: u64 = 256;

/// The range of one limit and the value used when a job does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Smallest value.
    pub min: u64,
    /// Value when the job does not say.
    pub default: u64,
    /// Largest value.
    pub max: u64,
}

impl Bound {
    /// The nearest allowed value, or the default.
    #[must_use]
    pub fn clamp(self, asked: Option<u64>) -> u64 {
        asked.unwrap_or(self.default).clamp(self.min, self.max.max(self.min))
    }
}

/// The range of every limit on this machine. [`Bounds::default`] suits short jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Time from ready to exit, in seconds.
    pub wall_seconds: Bound,
    /// Processor time of all processes, gVisor's share included, in seconds.
    pub cpu_seconds: Bound,
    /// Memory of all processes and their files in memory, in MiB.
    pub mem_mb: Bound,
    /// Processes and threads. Node.js alone needs about a dozen.
    pub max_pids: Bound,
    /// Size of one file, in MiB.
    pub max_file_mb: Bound,
    /// Bytes kept of each output stream.
    pub output_bytes: Bound,
}

impl Default for Bounds {
    fn default() -> Self {
        let mib = 1024 * 1024;
        Self {
            wall_seconds: Bound { min: 1, default: 15, max: 300 },
            cpu_seconds: Bound { min: 1, default: 15, max: 300 },
            mem_mb: Bound { min: 16, default: 256, max: 1024 },
            max_pids: Bound { min: 16, default: 64, max: 512 },
            max_file_mb: Bound { min: 1, default: 16, max: 256 },
            output_bytes: Bound { min: 1024, default: mib, max: 8 * mib },
        }
    }
}

/// What a job asks for; `None` takes the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedLimits {
    /// Seconds from ready to exit.
    pub wall_seconds: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// MiB of memory.
    pub mem_mb: Option<u64>,
    /// Processes and threads.
    pub max_pids: Option<u64>,
    /// MiB of one file.
    pub max_file_mb: Option<u64>,
    /// Bytes kept of each output stream.
    pub output_bytes: Option<u64>,
}

/// What a job gets: every value is within its [`Bound`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveLimits {
    /// Seconds from ready to exit.
    pub wall_seconds: u64,
    /// Seconds of processor time.
    pub cpu_seconds: u64,
    /// MiB of memory, without gVisor's own [`OVERHEAD_MIB`].
    pub mem_mb: u64,
    /// Processes and threads.
    pub max_pids: u64,
    /// MiB of one file.
    pub max_file_mb: u64,
    /// Bytes kept of each output stream.
    pub output_bytes: u64,
}

impl EffectiveLimits {
    /// Brings `asked` within `bounds`.
    #[must_use]
    pub fn clamp(asked: &RequestedLimits, bounds: &Bounds) -> Self {
        Self {
            wall_seconds: bounds.wall_seconds.clamp(asked.wall_seconds),
            cpu_seconds: bounds.cpu_seconds.clamp(asked.cpu_seconds),
            mem_mb: bounds.mem_mb.clamp(asked.mem_mb),
            max_pids: bounds.max_pids.clamp(asked.max_pids),
            max_file_mb: bounds.max_file_mb.clamp(asked.max_file_mb),
            output_bytes: bounds.output_bytes.clamp(asked.output_bytes),
        }
    }

    /// What one stream may have before the job is killed for it, in bytes.
    pub(crate) fn most_output(&self) -> u64 {
        self.output_bytes.saturating_mul(OUTPUT_KILL_MULTIPLE)
    }
}

/// Which limits are really enforced on this machine. A limit that is not is asked of the guest alone, or not at
/// all, and is never reported as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitEnforcement {
    /// By this crate's timer.
    pub wall_seconds: bool,
    /// By a control group's account of processor time.
    pub cpu_seconds: bool,
    /// By the host kernel's memory controller, observed to kill. Otherwise this crate looks at the job's memory
    /// every 10 ms and ends it, which is not enforcement.
    pub mem_mb: bool,
    /// By gVisor's own process limit.
    pub max_pids: bool,
    /// By gVisor's own file size limit.
    pub max_file_mb: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsaid_limits_take_the_default_and_wild_ones_the_nearest_bound() {
        let bounds = Bounds::default();
        let asked =
            RequestedLimits { wall_seconds: Some(0), mem_mb: Some(u64::MAX), ..RequestedLimits::default() };
        let got = EffectiveLimits::clamp(&asked, &bounds);
        assert_eq!(got.wall_seconds, bounds.wall_seconds.min);
        assert_eq!(got.mem_mb, bounds.mem_mb.max);
        assert_eq!(got.max_pids, bounds.max_pids.default);
    }

    #[test]
    fn clamping_what_is_in_range_changes_nothing() {
        let bound = Bound { min: 2, default: 5, max: 9 };
        for value in 2..=9 {
            assert_eq!(bound.clamp(Some(value)), value);
        }
    }

    #[test]
    fn a_bound_set_the_wrong_way_round_does_not_panic() {
        assert_eq!(Bound { min: 16, default: 1, max: 8 }.clamp(Some(4)), 16);
    }
}
