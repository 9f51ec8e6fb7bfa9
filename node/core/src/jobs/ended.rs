//! How a job ended, as its executor says it: the result, the proof, and the files.

use mesh_protocol::evidence::artifact::Violation;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::receipt::FileDigest;
use mesh_protocol::job::{
    FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_MAX, JobResult, JobStatus, OUTPUT_BYTES_MAX, OutputFile,
};

/// Rules that are kept of those a job broke.
const VIOLATIONS_MAX: usize = 256;
/// Characters of a word or a sentence about a job.
const WORDS_CHARS_MAX: usize = 400;

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub result: JobResult,
    /// The signed bundle; empty when there is none.
    pub evidence: Vec<u8>,
    /// The files it left.
    pub outputs: Vec<OutputFile>,
}

impl Ended {
    /// The same within our bounds, and terminal whatever a peer says; with files only that were asked for.
    pub(crate) fn bounded(mut self, asked_for: &[String]) -> Self {
        let result = &mut self.result;
        for stream in [&mut result.stdout, &mut result.stderr] {
            if stream.len() > OUTPUT_BYTES_MAX {
                stream.truncate(stream.floor_char_boundary(OUTPUT_BYTES_MAX));
                result.truncated = true;
            }
        }
        if !result.status.is_terminal() {
            result.status = JobStatus::Error;
        }
        let cut = |text: String| text.chars().take(WORDS_CHARS_MAX).collect::<String>();
        result.killed_by = result.killed_by.take().map(cut);
        result.violations.truncate(VIOLATIONS_MAX);
        let violations = std::mem::take(&mut result.violations).into_iter();
        result.violations =
            violations.map(|it| Violation { rule: cut(it.rule), detail: cut(it.detail) }).collect();
        let mut room = FILES_BYTES_MAX;
        self.outputs.truncate(FILES_MAX);
        self.outputs.retain(|file| {
            let bytes = file.content.0.len();
            let taken = asked_for.contains(&file.path) && bytes <= FILE_BYTES_MAX && bytes <= room;
            room = room.saturating_sub(if taken { bytes } else { 0 });
            taken
        });
        self.result.artifacts = self.digests();
        self
    }

    fn digests(&self) -> Vec<FileDigest> {
        let digest = |file: &OutputFile| FileDigest {
            path: file.path.clone(),
            size: file.content.0.len() as u64,
            sha256: Digest::of(&file.content.0),
        };
        self.outputs.iter().map(digest).collect()
    }

    /// Bytes that keeping it takes; the events are in the proof once more.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = self.result.stdout.len().saturating_add(self.result.stderr.len());
        let files = self.outputs.iter().map(|file| file.content.0.len());
        let bytes = files.fold(texts.saturating_add(self.evidence.len()), usize::saturating_add);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// An end that no executor vouches for.
#[must_use]
pub fn unproven(killed_by: &str, may_have_run: bool) -> JobResult {
    JobResult {
        status: JobStatus::Error,
        exit_code: None,
        killed_by: Some(killed_by.to_owned()),
        stdout: String::new(),
        stderr: String::new(),
        truncated: false,
        duration_ms: 0,
        isolation: None,
        may_have_run,
        violations: Vec::new(),
        artifacts: Vec::new(),
    }
}
