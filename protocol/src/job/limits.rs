//! Every bound on a job, and what brings a request within them.
//!
//! Sizes and counts over their bound are refused; what a job may use is clamped in silence, and both what was asked for
//! and what it comes to are kept.

use serde::{Deserialize, Deserializer, Serialize};

/// Bytes of a job's program.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a job's standard input.
pub const STDIN_BYTES_MAX: usize = 1024 * 1024;
/// Bytes kept of each output stream. A control character takes seven bytes where it is signed, and the output is in the
/// result, in the artifact and in the events.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Files a job may be given, and as many it may be asked for.
pub const FILES_MAX: usize = 64;
/// Bytes of one file, in or out.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of all files given to a job, and again of all it leaves.
pub const FILES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a file's path, its `input/` or `output/` included.
pub const PATH_BYTES_MAX: usize = 256;
/// Bytes of a runtime pack's name.
pub const RUNTIME_NAME_BYTES_MAX: usize = 64;

/// What a job may use. Out-of-range values are clamped where the job runs; both are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobLimits {
    /// Seconds of wall time, from when the sandbox is ready.
    #[serde(deserialize_with = "saturating")]
    pub wall_seconds: u32,
    /// Seconds of CPU time of all its processes together.
    #[serde(deserialize_with = "saturating")]
    pub cpu_seconds: u32,
    /// Mebibytes of memory, files in temporary folders included.
    #[serde(deserialize_with = "saturating")]
    pub mem_mb: u32,
    /// Processes and threads.
    #[serde(deserialize_with = "saturating")]
    pub max_pids: u32,
    /// Mebibytes of the largest file it may write.
    #[serde(deserialize_with = "saturating")]
    pub max_file_mb: u32,
    /// A network. There is none: asking for one is refused, so that nobody takes silence for consent.
    pub allow_network: bool,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            wall_seconds: 15,
            cpu_seconds: 15,
            mem_mb: 256,
            max_pids: 64,
            max_file_mb: 16,
            allow_network: false,
        }
    }
}

impl JobLimits {
    /// The most any executor grants.
    pub const MAX: Self = Self {
        wall_seconds: 300,
        cpu_seconds: 300,
        mem_mb: 1024,
        max_pids: 256,
        max_file_mb: 256,
        allow_network: false,
    };
    /// The least that can start an interpreter.
    pub const MIN: Self = Self {
        wall_seconds: 1,
        cpu_seconds: 1,
        mem_mb: 16,
        max_pids: 4,
        max_file_mb: 1,
        allow_network: false,
    };

    /// The nearest limits within [`JobLimits::MIN`] and [`JobLimits::MAX`].
    #[must_use]
    pub fn clamped(self) -> Self {
        Self {
            wall_seconds: self.wall_seconds.clamp(Self::MIN.wall_seconds, Self::MAX.wall_seconds),
            cpu_seconds: self.cpu_seconds.clamp(Self::MIN.cpu_seconds, Self::MAX.cpu_seconds),
            mem_mb: self.mem_mb.clamp(Self::MIN.mem_mb, Self::MAX.mem_mb),
            max_pids: self.max_pids.clamp(Self::MIN.max_pids, Self::MAX.max_pids),
            max_file_mb: self.max_file_mb.clamp(Self::MIN.max_file_mb, Self::MAX.max_file_mb),
            allow_network: false,
        }
    }
}

/// An integer of JSON, the nearest there is when it does not fit: it is clamped anyway.
fn saturating<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    if !deserializer.is_human_readable() {
        return u32::deserialize(deserializer);
    }
    let number = i128::deserialize(deserializer)?;
    Ok(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_out_of_range_are_clamped_not_refused() {
        let wild = r#"{"wall_seconds":0,"mem_mb":99999999999,"cpu_seconds":-7}"#;
        let asked: JobLimits = serde_json::from_str(wild).unwrap();
        assert_eq!((asked.wall_seconds, asked.mem_mb, asked.cpu_seconds), (0, u32::MAX, 0));
        let granted = asked.clamped();
        assert_eq!((granted.wall_seconds, granted.mem_mb, granted.cpu_seconds), (1, 1024, 1));
        assert_eq!(granted.max_pids, JobLimits::default().max_pids);
    }

    #[test]
    fn a_fraction_is_no_limit() {
        assert!(serde_json::from_str::<JobLimits>(r#"{"wall_seconds":1.5}"#).is_err());
    }
}
