//! A job: a short Python, Node.js or Bash program, what bounds it, and how it can end.
//!
//! ```text
//! queued -> running -> succeeded | failed | timed_out | oom_killed | cancelled | error
//! queued -> cancelled | error
//! ```
//! Terminal states are final. `failed` is the program's own exit code; `error` is ours: the platform could not run it
//! or could not prove what happened.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::isolation::IsolationClass;

/// Bytes of a job's program.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a job's standard input.
pub const STDIN_BYTES_MAX: usize = 1024 * 1024;
/// Bytes kept of each output stream. A result travels twice, as text and signed, and a control character takes six
/// bytes there: both streams at their worst still fit in one parcel.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// A language a job may be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// Node.js.
    Node,
    /// GNU Bash.
    Bash,
}

impl Language {
    /// All of them, in the order they are listed.
    pub const ALL: [Self; 3] = [Self::Python, Self::Node, Self::Bash];

    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Bash => "bash",
        }
    }
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Language {
    type Err = JobError;

    fn from_str(text: &str) -> Result<Self, JobError> {
        let found = Self::ALL.into_iter().find(|language| language.name() == text);
        found.ok_or_else(|| JobError::UnsupportedLanguage { language: text.chars().take(40).collect() })
    }
}

/// What a job may use. Out-of-range values are clamped where the job runs; both are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobLimits {
    /// Seconds of wall time, from when the sandbox is ready.
    pub wall_seconds: u32,
    /// Seconds of CPU time of all its processes together.
    pub cpu_seconds: u32,
    /// Mebibytes of memory, files in temporary folders included.
    pub mem_mb: u32,
    /// Processes and threads.
    pub max_pids: u32,
    /// Mebibytes of the largest file it may write.
    pub max_file_mb: u32,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self { wall_seconds: 15, cpu_seconds: 15, mem_mb: 256, max_pids: 64, max_file_mb: 16 }
    }
}

impl JobLimits {
    /// The most any executor grants.
    pub const MAX: Self =
        Self { wall_seconds: 300, cpu_seconds: 300, mem_mb: 1024, max_pids: 256, max_file_mb: 256 };
    /// The least that can start an interpreter.
    pub const MIN: Self = Self { wall_seconds: 1, cpu_seconds: 1, mem_mb: 16, max_pids: 4, max_file_mb: 1 };

    /// The nearest limits within [`JobLimits::MIN`] and [`JobLimits::MAX`].
    #[must_use]
    pub fn clamped(self) -> Self {
        Self {
            wall_seconds: self.wall_seconds.clamp(Self::MIN.wall_seconds, Self::MAX.wall_seconds),
            cpu_seconds: self.cpu_seconds.clamp(Self::MIN.cpu_seconds, Self::MAX.cpu_seconds),
            mem_mb: self.mem_mb.clamp(Self::MIN.mem_mb, Self::MAX.mem_mb),
            max_pids: self.max_pids.clamp(Self::MIN.max_pids, Self::MAX.max_pids),
            max_file_mb: self.max_file_mb.clamp(Self::MIN.max_file_mb, Self::MAX.max_file_mb),
        }
    }
}

/// What to run. Contains no path, address, credential or policy: those are the operator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// The language of `code`.
    pub language: Language,
    /// The program's text.
    pub code: String,
    /// What it reads on standard input; empty when absent.
    #[serde(default)]
    pub stdin: String,
    /// What it may use.
    #[serde(default)]
    pub limits: JobLimits,
    /// The weakest isolation it may run under.
    #[serde(default)]
    pub minimum_isolation: IsolationClass,
}

/// Why a job is not accepted. Nothing was stored.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum JobError {
    /// Not one of the three.
    #[error("`{language}` is not a language jobs run in: python, node and bash are")]
    UnsupportedLanguage {
        /// What was asked for.
        language: String,
    },
    /// Nothing to run.
    #[error("the code is empty")]
    EmptyCode,
    /// Over [`CODE_BYTES_MAX`].
    #[error("the code has {bytes} bytes, {CODE_BYTES_MAX} are allowed")]
    CodeTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// Over [`STDIN_BYTES_MAX`].
    #[error("the standard input has {bytes} bytes, {STDIN_BYTES_MAX} are allowed")]
    StdinTooLarge {
        /// Its length.
        bytes: usize,
    },
}

impl JobSpec {
    /// Checks what does not depend on where it runs.
    ///
    /// # Errors
    /// The first [`JobError`] that applies.
    pub fn check(&self) -> Result<(), JobError> {
        if self.code.trim().is_empty() {
            return Err(JobError::EmptyCode);
        }
        if self.code.len() > CODE_BYTES_MAX {
            return Err(JobError::CodeTooLarge { bytes: self.code.len() });
        }
        if self.stdin.len() > STDIN_BYTES_MAX {
            return Err(JobError::StdinTooLarge { bytes: self.stdin.len() });
        }
        Ok(())
    }
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Accepted, not started.
    Queued,
    /// A sandbox is up or coming up.
    Running,
    /// Exit code 0.
    Succeeded,
    /// Another exit code.
    Failed,
    /// Over its wall or CPU time.
    TimedOut,
    /// Over its memory.
    OomKilled,
    /// Stopped on request.
    Cancelled,
    /// Not run, or not provably: the platform's fault, or refused.
    Error,
}

impl JobStatus {
    /// Whether it will never change again.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::OomKilled => "oom_killed",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

impl std::fmt::Display for JobStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How a job ended, as its executor says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// A terminal status.
    pub status: JobStatus,
    /// The program's exit code, when it had one.
    pub exit_code: Option<i32>,
    /// Why it was stopped or could not run: a word such as `wall`, `memory`, `server_restarted`.
    pub killed_by: Option<String>,
    /// What it wrote, cut at [`OUTPUT_BYTES_MAX`]; bytes that are not UTF-8 are replaced for display.
    pub stdout: String,
    /// What it wrote to standard error, likewise.
    pub stderr: String,
    /// Whether either stream was cut.
    pub truncated: bool,
    /// Milliseconds from claim to reaped, on the executor's clock.
    pub duration_ms: u64,
    /// The isolation that was observed; absent when no sandbox reported ready.
    pub isolation: Option<IsolationClass>,
    /// Whether the program may have begun to run.
    pub may_have_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> JobSpec {
        serde_json::from_str(r#"{"language":"python","code":"print(1)"}"#).unwrap()
    }

    #[test]
    fn an_omitted_default_is_the_default() {
        let explicit = r#"{"language":"python","code":"print(1)","stdin":"","limits":{"mem_mb":256},
            "minimum_isolation":"gvisor-application-kernel"}"#;
        assert_eq!(serde_json::from_str::<JobSpec>(explicit).unwrap(), spec());
    }

    #[test]
    fn blank_code_and_one_byte_too_many_are_refused() {
        assert_eq!(JobSpec { code: " \n".into(), ..spec() }.check(), Err(JobError::EmptyCode));
        assert_eq!(JobSpec { code: "x".repeat(CODE_BYTES_MAX), ..spec() }.check(), Ok(()));
        let over = JobSpec { code: "x".repeat(CODE_BYTES_MAX + 1), ..spec() };
        assert!(matches!(over.check(), Err(JobError::CodeTooLarge { .. })));
    }

    #[test]
    fn a_request_for_the_network_is_refused_rather_than_ignored() {
        let text = r#"{"language":"bash","code":"true","limits":{"allow_network":true}}"#;
        assert!(serde_json::from_str::<JobSpec>(text).is_err());
    }

    #[test]
    fn limits_are_clamped_not_refused() {
        let wild = JobLimits { wall_seconds: 0, mem_mb: u32::MAX, ..JobLimits::default() };
        assert_eq!(wild.clamped().wall_seconds, 1);
        assert_eq!(wild.clamped().mem_mb, 1024);
    }
}
