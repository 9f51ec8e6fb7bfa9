//! A job: a short Python, Node.js or Bash program, what bounds it, and how it can end.
//!
//! ```text
//! queued -> running -> succeeded | failed | timed_out | oom_killed | cancelled | error
//! queued -> cancelled | error
//! ```
//! Terminal states are final. `failed` is the program's own exit code; `error` is ours: the platform could not run it
//! or could not prove what happened.

mod document;
mod error;
mod files;
mod limits;
mod spec;

use serde::{Deserialize, Serialize};

use crate::evidence::artifact::Violation;
use crate::evidence::receipt::FileDigest;
use crate::isolation::IsolationClass;

pub use document::{JOB_DOCUMENT_BYTES_MAX, JobDocument};
pub use error::JobError;
pub use files::{Contents, InputFile, OutputFile};
pub use limits::{
    CODE_BYTES_MAX, FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_MAX, JobLimits, OUTPUT_BYTES_MAX, PATH_BYTES_MAX,
    RUNTIME_NAME_BYTES_MAX, STDIN_BYTES_MAX,
};
pub use spec::{JobSpec, Requirements};

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
    /// Rules it broke, in order.
    #[serde(default)]
    pub violations: Vec<Violation>,
    /// The output files it was asked for and left, in the order they were asked for.
    #[serde(default)]
    pub artifacts: Vec<FileDigest>,
}
