//! What is told about a job: while it runs, to a [`JobObserver`]; after it, in a [`JobReport`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::isolation::IsolationClass;
use crate::limits::{EffectiveLimits, LimitEnforcement, RequestedLimits};
use crate::outcome::{KilledBy, Outcome};

/// Which output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Is told what happens while a job runs, on the thread that runs it.
///
/// The calls must return quickly: limits are enforced between them.
pub trait JobObserver {
    /// The sandbox reported ready: from here on the job's own code runs.
    fn ready(&mut self) {}
    /// The job wrote something; at most 64 KiB a call, and at most the stream's limit in all.
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let _ = (stream, bytes);
    }
    /// The stream's limit is reached: what follows is counted and hashed but not shown.
    fn truncated(&mut self, stream: Stream) {
        let _ = stream;
    }
}

/// Watches nothing.
impl JobObserver for () {}

/// What became of a job, complete enough to write a receipt from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not end by itself.
    pub killed_by: Option<KilledBy>,
    /// What it exited with; 128 + n after signal n. `None` when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// What it asked for.
    pub requested_limits: RequestedLimits,
    /// What it got.
    pub effective_limits: EffectiveLimits,
    /// Which of those were really enforced.
    pub limit_enforcement: LimitEnforcement,
    /// What it used.
    pub resource_usage: ResourceUsage,
    /// The files it was to leave and did, in the order they were asked for.
    pub artifacts: Vec<OutputFile>,
    /// The files it was to leave and did not, or not in a form that may be taken.
    pub missing_outputs: Vec<MissingOutput>,
    /// Its standard output.
    pub stdout: StreamReport,
    /// Its standard error.
    pub stderr: StreamReport,
    /// How it was kept apart. `None` unless the sandbox reported ready: settings are no evidence.
    pub posture: Option<Posture>,
    /// What the platform said when the sandbox did not get ready. Holds host paths: for operators only.
    pub diagnostic: Option<String>,
}

/// A file that a job left.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct OutputFile {
    /// Its path below `output/`, as asked for.
    pub path: String,
    /// Its bytes.
    pub contents: Vec<u8>,
}

/// Contents may be long, and anybody's.
impl fmt::Debug for OutputFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OutputFile({:?}, {} bytes)", self.path, self.contents.len())
    }
}

/// A file that was asked for and is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingOutput {
    /// Its path below `output/`, as asked for.
    pub path: String,
    /// Why there is none.
    pub reason: MissingReason,
}

/// Why an output was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingReason {
    /// There is nothing of that name.
    Absent,
    /// It, or a directory on the way to it, is a symbolic link, or it is no regular file.
    NotAFile,
    /// It has a second name.
    Linked,
    /// It is longer than what is left of the bytes that outputs may have together.
    TooLarge,
    /// It could not be read.
    Unreadable,
    /// The job did not end by itself, so nothing was collected.
    NotCollected,
}

/// What a job used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// From start to ready, in milliseconds: the platform's own time.
    pub boot_time_ms: u64,
    /// From ready to exit, in milliseconds.
    pub wall_time_ms: u64,
    /// Processor time from ready to exit in microseconds, gVisor's included; `None` where not accounted for.
    pub cpu_time_usec: Option<u64>,
    /// Most memory in use in bytes, gVisor's included; `None` where not accounted for.
    pub memory_peak_bytes: Option<u64>,
}

/// What was seen of one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Bytes the job wrote and this crate read.
    pub bytes_seen: u64,
    /// Bytes given to the observer.
    pub bytes_kept: u64,
    /// SHA-256 of all bytes seen, in hex.
    pub raw_sha256: String,
    /// Whether more was seen than kept.
    pub truncated: bool,
}

/// How a job was kept apart, as observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posture {
    /// The class in force.
    pub isolation_class: IsolationClass,
    /// The sandbox reported ready over its own channel; always true here.
    pub bootstrap_ready: bool,
    /// The filter on the job's system calls.
    pub seccomp: String,
    /// The job's network.
    pub networking: String,
    /// gVisor's version.
    pub runtime_version: String,
    /// SHA-256 of the `runsc` binary, in hex.
    pub runtime_sha256: String,
    /// The runtime pack it ran in; `None` for this machine's own programs.
    pub runtime_pack: Option<String>,
    /// Digest of the root file system's tree, in hex.
    pub rootfs_sha256: String,
    /// SHA-256 of the OCI configuration without this job's host paths, in hex.
    pub config_sha256: String,
}
