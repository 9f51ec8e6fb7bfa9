//! What is run: a job, and what is told about it while and after it runs.
//!
//! A job is hostile text. It is bounded and checked here before anything is written or started.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::isolation::IsolationClass;
use crate::language::Language;
use crate::limits::{
    EffectiveLimits, INPUT_BYTES_MAX, INPUT_FILES_MAX, INPUT_PATH_BYTES_MAX, LimitEnforcement,
    RequestedLimits, TEXT_BYTES_MAX,
};
use crate::outcome::{KilledBy, Outcome};

/// One short program to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// What it is written in.
    pub language: Language,
    /// Its source, at most [`TEXT_BYTES_MAX`] bytes.
    pub code: String,
    /// What it reads on standard input, at most [`TEXT_BYTES_MAX`] bytes.
    pub stdin: Vec<u8>,
    /// What it asks for; see [`EffectiveLimits`] for what it gets.
    pub limits: RequestedLimits,
    /// Files it finds under `input/` of its working directory, read-only.
    pub inputs: Vec<InputFile>,
}

/// A file given to a job.
#[derive(Clone, Debug)]
pub struct InputFile {
    /// Relative path below `input/`, with `/` between names and without `.` or `..`.
    pub path: String,
    /// Its bytes.
    pub contents: Vec<u8>,
}

/// Why a job is refused before anything happens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJob {
    /// The code is empty or blank.
    #[error("the code is empty")]
    EmptyCode,
    /// The code is too long.
    #[error("the code has {bytes} bytes, {TEXT_BYTES_MAX} at most")]
    CodeTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The standard input is too long.
    #[error("the standard input has {bytes} bytes, {TEXT_BYTES_MAX} at most")]
    StdinTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// There are too many input files.
    #[error("{count} input files, {INPUT_FILES_MAX} at most")]
    TooManyInputs {
        /// How many.
        count: usize,
    },
    /// The input files together are too long.
    #[error("the input files have {bytes} bytes, {INPUT_BYTES_MAX} at most")]
    InputsTooLarge {
        /// Their length.
        bytes: usize,
    },
    /// A path leaves `input/`, or is no plain path.
    #[error("not a plain relative path: {path:?}")]
    InputPath {
        /// The path as given.
        path: String,
    },
    /// Two files have one path, or one file's path is another's directory.
    #[error("two input files collide at {path:?}")]
    InputCollision {
        /// The path as given.
        path: String,
    },
}

impl Job {
    /// A job with defaults for everything but its code.
    #[must_use]
    pub fn new(language: Language, code: impl Into<String>) -> Self {
        Self {
            language,
            code: code.into(),
            stdin: Vec::new(),
            limits: RequestedLimits::default(),
            inputs: Vec::new(),
        }
    }

    /// Checks every bound.
    pub fn validate(&self) -> Result<(), InvalidJob> {
        if self.code.trim().is_empty() {
            return Err(InvalidJob::EmptyCode);
        }
        if self.code.len() > TEXT_BYTES_MAX {
            return Err(InvalidJob::CodeTooLarge { bytes: self.code.len() });
        }
        if self.stdin.len() > TEXT_BYTES_MAX {
            return Err(InvalidJob::StdinTooLarge { bytes: self.stdin.len() });
        }
        if self.inputs.len() > INPUT_FILES_MAX {
            return Err(InvalidJob::TooManyInputs { count: self.inputs.len() });
        }
        let bytes = self.inputs.iter().fold(0_usize, |sum, file| sum.saturating_add(file.contents.len()));
        if bytes > INPUT_BYTES_MAX {
            return Err(InvalidJob::InputsTooLarge { bytes });
        }
        for (index, file) in self.inputs.iter().enumerate() {
            if !is_plain_relative(&file.path) {
                return Err(InvalidJob::InputPath { path: file.path.clone() });
            }
            let mine = Path::new(&file.path);
            let collides = |other: &InputFile| {
                let other = Path::new(&other.path);
                other.starts_with(mine) || mine.starts_with(other)
            };
            if self.inputs.iter().take(index).any(collides) {
                return Err(InvalidJob::InputCollision { path: file.path.clone() });
            }
        }
        Ok(())
    }
}

fn is_plain_relative(path: &str) -> bool {
    let normal = Path::new(path).components().all(|component| matches!(component, Component::Normal(_)));
    let spelled_plainly = !path.split('/').any(|name| name.is_empty() || name == "." || name == "..");
    normal && spelled_plainly && path.len() <= INPUT_PATH_BYTES_MAX && !path.contains(['\0', '\\'])
}

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
    /// Its standard output.
    pub stdout: StreamReport,
    /// Its standard error.
    pub stderr: StreamReport,
    /// How it was kept apart. `None` unless the sandbox reported ready: settings are no evidence.
    pub posture: Option<Posture>,
    /// What the platform said when the sandbox did not get ready. Holds host paths: for operators only.
    pub diagnostic: Option<String>,
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
    /// Digest of the root file system's tree, in hex.
    pub rootfs_sha256: String,
    /// SHA-256 of the OCI configuration without this job's host paths, in hex.
    pub config_sha256: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_inputs(paths: &[&str]) -> Result<(), InvalidJob> {
        let inputs =
            paths.iter().map(|&path| InputFile { path: path.to_owned(), contents: vec![] }).collect();
        Job { inputs, ..Job::new(Language::Bash, "true") }.validate()
    }

    #[test]
    fn code_and_stdin_of_exactly_the_limit_pass_and_one_byte_more_does_not() {
        let mut job = Job::new(Language::Bash, "#".repeat(TEXT_BYTES_MAX));
        job.stdin = vec![1; TEXT_BYTES_MAX];
        assert_eq!(job.validate(), Ok(()));
        job.stdin.push(1);
        assert!(matches!(job.validate(), Err(InvalidJob::StdinTooLarge { .. })));
        job.code.push('#');
        assert!(matches!(job.validate(), Err(InvalidJob::CodeTooLarge { .. })));
        assert_eq!(Job::new(Language::Bash, " \n\t").validate(), Err(InvalidJob::EmptyCode));
    }

    #[test]
    fn paths_that_leave_input_or_are_oddly_spelled_are_refused() {
        for path in ["", ".", "..", "/a", "a/", "a//b", "./a", "a/../b", "a\0b", "a\\b", &"x".repeat(257)] {
            assert!(matches!(with_inputs(&[path]), Err(InvalidJob::InputPath { .. })), "{path:?}");
        }
        assert_eq!(with_inputs(&["a", "b/c", "b/d.txt", ".hidden"]), Ok(()));
    }

    #[test]
    fn files_that_collide_are_refused() {
        for paths in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
            assert!(matches!(with_inputs(&paths), Err(InvalidJob::InputCollision { .. })), "{paths:?}");
        }
        assert_eq!(with_inputs(&["a", "ab"]), Ok(()));
    }
}
