//! The files a job was to leave: those that are taken, and what there is to say of those that are not.
//!
//! The sandbox decides what is a file; here is only what is too large to be told.

use mesh_protocol::evidence::artifact::Violation;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::receipt::FileDigest;
use mesh_protocol::job::{Contents, FILE_BYTES_MAX, FILES_BYTES_MAX, JobResult, OutputFile};
use mesh_sandbox::{JobReport, MissingReason};

use super::translation::OUTPUT;

/// The rule that a file which is not there breaks.
const RULE: &str = "artifact_collection_failed";

/// What a job left.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) taken: Vec<OutputFile>,
    pub(super) digests: Vec<FileDigest>,
    /// One for each file that was asked for and is not taken.
    pub(super) violations: Vec<Violation>,
}

impl Files {
    /// What the sandbox collected. Takes the contents out of the report.
    pub(super) fn of(report: &mut JobReport) -> Self {
        let mut files = Self::default();
        let mut room = FILES_BYTES_MAX;
        for file in std::mem::take(&mut report.artifacts) {
            let (path, bytes) = (format!("{OUTPUT}{}", file.path), file.contents.len());
            if bytes > FILE_BYTES_MAX || bytes > room {
                files.miss(&path, MissingReason::TooLarge);
                continue;
            }
            room -= bytes;
            let sha256 = Digest::of(&file.contents);
            files.digests.push(FileDigest { path: path.clone(), size: bytes as u64, sha256 });
            files.taken.push(OutputFile { path, content: Contents(file.contents) });
        }
        for missing in &report.missing_outputs {
            files.miss(&format!("{OUTPUT}{}", missing.path), missing.reason);
        }
        files
    }

    /// What a result says of them: their contents are kept elsewhere.
    pub(super) fn known(result: &JobResult) -> Self {
        let (digests, violations) = (result.artifacts.clone(), result.violations.clone());
        Self { taken: Vec::new(), digests, violations }
    }

    fn miss(&mut self, path: &str, reason: MissingReason) {
        let why = match reason {
            MissingReason::Absent => "there is no such file",
            MissingReason::NotAFile => "it is no regular file, or is behind a link",
            MissingReason::Linked => "it has a second name",
            MissingReason::TooLarge => "it is too large",
            MissingReason::Unreadable => "it could not be read",
            MissingReason::NotCollected => "the job did not end by itself",
        };
        self.violations.push(Violation { rule: RULE.to_owned(), detail: format!("{path}: {why}") });
    }

    /// Bytes of what is taken.
    pub(super) fn bytes(&self) -> usize {
        self.taken.iter().map(|file| file.content.0.len()).sum()
    }
}
