//! What was asked for, without the texts: everything that is shown, decided and attested about a job once its program
//! is on its way to the sandbox.

use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::receipt::FileDigest;
use mesh_protocol::job::{JobLimits, JobSpec, Language, Requirements};
use serde::{Deserialize, Serialize};

/// A job without its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// The language.
    pub language: Language,
    /// The limits as they were asked for.
    pub limits: JobLimits,
    /// What it insists on.
    pub requirements: Requirements,
    /// Of the code.
    pub code_sha256: Digest,
    /// Of standard input.
    pub stdin_sha256: Digest,
    /// The files it is given, in order.
    pub input_files: Vec<FileDigest>,
    /// The files it is asked for, in order.
    pub outputs: Vec<String>,
    /// The runtime pack asked for.
    pub runtime: Option<String>,
}

impl Outline {
    /// The outline of a job. Hashes every byte of it.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            language: spec.language,
            limits: spec.limits,
            requirements: spec.requirements,
            code_sha256: Digest::of(spec.code.as_bytes()),
            stdin_sha256: Digest::of(spec.stdin.as_bytes()),
            input_files: spec.file_digests(),
            outputs: spec.outputs.clone(),
            runtime: spec.runtime.clone(),
        }
    }
}
