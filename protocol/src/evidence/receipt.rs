//! The receipt: what was asked of a job, what was observed while it ran, and what came of it.
//!
//! Nothing in it is filled in from configuration. [`Execution`] is what the node's executor reports; the other parts
//! are computed while signing, so they cannot disagree with it. Where nothing was observed (a job cancelled before it
//! started, a node that crashed under it) the member is `null`, and the whole [`Observed`] block is absent.
//!
//! `receipt_sha256` is the SHA-256 of the receipt's canonical form without that member. It is recomputed from the
//! document as signed, so members unknown to this version are covered too; readers ignore them.
//!
//! Classes and languages are text here, on purpose: an auditor's copy of this code must verify a receipt that names a
//! class it has never heard of.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::NodeId;
use crate::job::{JobLimits, JobStatus};

use super::canonical::{CanonicalError, Value};
use super::chain::EventChain;
use super::digest::Digest;
use super::limits;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with code 0 and every declared output was collected.
    Succeeded,
    /// It exited with another code.
    Failed,
    /// It ran out of time.
    TimedOut,
    /// It ran out of memory.
    OomKilled,
    /// Someone cancelled it, before or while it ran.
    Cancelled,
    /// The node could not run it, or could not prove that it did.
    Error,
}

/// A status that is not final has no receipt.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("a job that is {0} has not ended")]
pub struct NotTerminal(pub JobStatus);

impl TryFrom<JobStatus> for Outcome {
    type Error = NotTerminal;

    fn try_from(status: JobStatus) -> Result<Self, NotTerminal> {
        match status {
            JobStatus::Queued | JobStatus::Running => Err(NotTerminal(status)),
            JobStatus::Succeeded => Ok(Self::Succeeded),
            JobStatus::Failed => Ok(Self::Failed),
            JobStatus::TimedOut => Ok(Self::TimedOut),
            JobStatus::OomKilled => Ok(Self::OomKilled),
            JobStatus::Cancelled => Ok(Self::Cancelled),
            JobStatus::Error => Ok(Self::Error),
        }
    }
}

impl From<Outcome> for JobStatus {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::TimedOut => Self::TimedOut,
            Outcome::OomKilled => Self::OomKilled,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Error => Self::Error,
        }
    }
}

/// The signed account of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// 1.
    pub version: u64,
    /// The node that ran the job: its signature must be on the envelope.
    pub node: NodeId,
    /// What the executor reports.
    #[serde(flatten)]
    pub execution: Execution,
    /// What of the job's output is in the result artifact.
    pub output: Output,
    /// The job's events.
    pub event_chain: EventChain,
    /// See the module's description.
    pub receipt_sha256: Digest,
}

/// What was asked and what was observed. All times are Unix milliseconds by the node's wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The job.
    pub job_id: String,
    /// On whose behalf: `<entry node>/<tenant>`.
    pub requester: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What the process returned, if it returned.
    pub exit_code: Option<i32>,
    /// Why the node ended it, if the node did.
    pub killed_by: Option<String>,
    /// When it was accepted.
    pub created_at_ms: u64,
    /// When it started, if it did.
    pub started_at_ms: Option<u64>,
    /// When it reached its outcome.
    pub finished_at_ms: u64,
    /// Milliseconds from start to end by a clock that does not jump, if it started.
    pub duration_ms: Option<u64>,
    /// False when anything that should be in here was lost.
    pub evidence_complete: bool,
    /// Limits as they were asked for, before clamping; `null` where none was.
    pub requested_limits: Limits,
    /// What the asker insisted on.
    pub requirements: Requirements,
    /// `python`, `node`, `bash`.
    pub language: String,
    /// Of the code, in UTF-8.
    pub code_sha256: Digest,
    /// Of standard input; of nothing when there was none.
    pub stdin_sha256: Digest,
    /// What it used, when that was measured.
    pub resource_usage: Option<ResourceUsage>,
    /// What the executor saw of its output, kept or not; `null` when that is not known.
    pub executor_output: Option<ExecutorOutput>,
    /// Files it was given, in the order they were given.
    pub input_files: Vec<FileDigest>,
    /// Files it left behind, in the order they were asked for. Each is a subject of the statement.
    pub artifacts: Vec<FileDigest>,
    /// What is known of the sandbox from the sandbox itself; absent when it never reported.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observed: Option<Observed>,
}

/// Limits on a job. `null` is no limit: not asked for, or, among effective limits, not enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Seconds from start to end.
    pub wall_seconds: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds: Option<u64>,
    /// Mebibytes of memory.
    pub mem_mb: Option<u64>,
    /// Processes and threads at once.
    pub max_pids: Option<u64>,
    /// Mebibytes of the largest file it may write.
    pub max_file_mb: Option<u64>,
}

impl From<JobLimits> for Limits {
    fn from(limits: JobLimits) -> Self {
        Self {
            wall_seconds: Some(limits.wall_seconds.into()),
            cpu_seconds: Some(limits.cpu_seconds.into()),
            mem_mb: Some(limits.mem_mb.into()),
            max_pids: Some(limits.max_pids.into()),
            max_file_mb: Some(limits.max_file_mb.into()),
        }
    }
}

/// What the asker insisted on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirements {
    /// The weakest isolation class that was acceptable.
    pub minimum_isolation: String,
}

/// What a job used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Milliseconds of wall time.
    pub wall_time_ms: u64,
    /// Microseconds of processor time, if it was measured.
    pub cpu_time_usec: Option<u64>,
    /// Bytes of memory at the peak, if it was measured.
    pub memory_peak_bytes: Option<u64>,
}

/// Both output streams as the executor saw them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorOutput {
    /// Standard output.
    pub stdout: StreamSeen,
    /// Standard error.
    pub stderr: StreamSeen,
}

/// One output stream as the executor saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSeen {
    /// Bytes read from the job.
    pub bytes_seen: u64,
    /// Of those bytes.
    pub raw_sha256: Digest,
    /// Whether more was seen than the executor kept.
    pub truncated: bool,
}

/// What of the output was kept: the streams in the result artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Bytes kept of standard output.
    pub stdout_bytes: u64,
    /// Of those bytes.
    pub stdout_sha256: Digest,
    /// Bytes kept of standard error.
    pub stderr_bytes: u64,
    /// Of those bytes.
    pub stderr_sha256: Digest,
    /// Whether the job wrote more than was kept.
    pub truncated: bool,
}

impl Output {
    /// What is kept of both streams.
    #[must_use]
    pub fn of(stdout: &[u8], stderr: &[u8], truncated: bool) -> Self {
        Self {
            stdout_bytes: stdout.len() as u64,
            stdout_sha256: Digest::of(stdout),
            stderr_bytes: stderr.len() as u64,
            stderr_sha256: Digest::of(stderr),
            truncated,
        }
    }
}

/// A file by its digest; its bytes travel on their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// Relative path in the job's directory: `input/...` or `output/...`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Of its contents.
    pub sha256: Digest,
}

/// What the sandbox reported about itself. Members it did not report are absent, never assumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The isolation class that was in force.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub isolation_class: Option<String>,
    /// Whether the sandbox got as far as handing over to the job's code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bootstrap_ready: Option<bool>,
    /// Whether system calls were filtered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seccomp: Option<bool>,
    /// `disabled` or `host`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub networking: Option<String>,
    /// Version of the sandbox's runtime.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runtime_version: Option<String>,
    /// Of the runtime's binary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runtime_sha256: Option<Digest>,
    /// Of the root file system's whole tree.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rootfs_sha256: Option<Digest>,
    /// Of the sandbox's configuration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub config_sha256: Option<Digest>,
    /// Limits after clamping; `null` where the sandbox enforces none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub effective_limits: Option<Limits>,
    /// Which limits were really enforced, by whatever means.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit_enforcement: Option<LimitEnforcement>,
    /// The runtime pack it ran in, when it was not the machine's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runtime_pack: Option<String>,
    /// Of all the members above, as an object in canonical form: one value to compare what two jobs ran under.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_sha256: Option<Digest>,
}

impl Observed {
    /// The same with `policy_sha256` set to what the rest comes to.
    ///
    /// # Errors
    /// When it is larger than a receipt may be.
    pub fn sealed(self) -> Result<Self, CanonicalError> {
        let bare = Self { policy_sha256: None, ..self };
        let policy_sha256 = Some(policy_digest(&Value::of(&bare, &limits::RECEIPT)?));
        Ok(Self { policy_sha256, ..bare })
    }
}

/// The `policy_sha256` of an `observed` block as a document: that of its canonical form without this member.
#[must_use]
pub fn policy_digest(observed: &Value) -> Digest {
    digest_without(observed, "policy_sha256")
}

/// Which limits were really enforced, by whatever means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one independent answer for each limit")]
pub struct LimitEnforcement {
    /// Of [`Limits::wall_seconds`].
    pub wall_seconds: bool,
    /// Of [`Limits::cpu_seconds`].
    pub cpu_seconds: bool,
    /// Of [`Limits::mem_mb`].
    pub mem_mb: bool,
    /// Of [`Limits::max_pids`].
    pub max_pids: bool,
    /// Of [`Limits::max_file_mb`].
    pub max_file_mb: bool,
}

impl Receipt {
    /// Sets `receipt_sha256` to what the rest of the receipt comes to.
    ///
    /// # Errors
    /// When the receipt is larger than a receipt may be, or holds an integer above 2^53 - 1.
    pub(super) fn seal(mut self) -> Result<Self, CanonicalError> {
        self.receipt_sha256 = digest(&Value::of(&self, &limits::RECEIPT)?);
        Ok(self)
    }
}

/// The `receipt_sha256` of a receipt as a document: that of its canonical form without this member.
#[must_use]
pub fn digest(receipt: &Value) -> Digest {
    digest_without(receipt, "receipt_sha256")
}

fn digest_without(document: &Value, member: &str) -> Digest {
    let mut bare = document.clone();
    if let Value::Object(members) = &mut bare {
        members.remove(member);
    }
    bare.digest()
}
