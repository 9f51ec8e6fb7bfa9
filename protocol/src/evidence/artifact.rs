//! The result artifact: what the asker gets to read, as one canonical JSON document whose digest is signed.
//!
//! It holds the job's output itself; the receipt holds only digests of it. The two name each other: the artifact by
//! `receipt_sha256`, the receipt by the digests in its `output`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::canonical::{CanonicalError, Value};
use super::digest::Digest;
use super::limits;
use super::receipt::{Outcome, Output, Receipt};

/// The artifact's `_type`.
pub const TYPE: &str = "https://mesh.invalid/execution-result/v1";

/// The artifact's media type.
pub const MEDIA_TYPE: &str = "application/vnd.mesh.execution-result.v1+json";

/// What came of a job, output included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultArtifact {
    /// [`TYPE`].
    #[serde(rename = "_type")]
    pub type_uri: String,
    /// 1.
    pub schema_version: u64,
    /// The job.
    pub job_id: String,
    /// On whose behalf: the receipt's `requester`.
    pub tenant: String,
    /// The receipt's `outcome`.
    pub status: Outcome,
    /// As in the receipt.
    pub exit_code: Option<i32>,
    /// As in the receipt.
    pub created_at_ms: u64,
    /// As in the receipt.
    pub started_at_ms: Option<u64>,
    /// As in the receipt.
    pub finished_at_ms: u64,
    /// As in the receipt.
    pub duration_ms: Option<u64>,
    /// The receipt this is the result of.
    pub receipt_sha256: Digest,
    /// What was kept of standard output.
    pub stdout: Captured,
    /// What was kept of standard error.
    pub stderr: Captured,
    /// Whether the job wrote more than was kept.
    pub truncated: bool,
    /// Rules the job broke, in order.
    pub violations: Vec<Violation>,
}

/// A rule that a job broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// The rule's code.
    pub rule: String,
    /// What happened, for people.
    pub detail: String,
}

/// Bytes a job wrote: a JSON string when they are UTF-8, else `{"encoding":"base64","content":"..."}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Captured {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Encoded(Encoded),
}

/// Bytes in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoded {
    /// How `content` is encoded.
    pub encoding: Encoding,
    /// Standard base64 (RFC 4648 section 4), padded.
    pub content: String,
}

/// How bytes are written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Standard base64, padded.
    Base64,
}

impl Captured {
    /// These bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Encoded(Encoded { encoding: Encoding::Base64, content: STANDARD.encode(bytes) }),
        }
    }

    /// The bytes the job wrote, or nothing when they are not in the base64 they claim.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Encoded(encoded) => STANDARD.decode(&encoded.content).ok(),
        }
    }
}

/// Why some bytes are not the artifact of a receipt.
#[derive(Debug, Error)]
pub enum ArtifactError {
    /// Not canonical JSON, or not of this shape.
    #[error("not a result artifact")]
    Document(#[source] CanonicalError),
    /// A member says something else than the receipt does.
    #[error("`{member}` disagrees with the receipt")]
    Disagrees {
        /// The member of the artifact.
        member: &'static str,
    },
}

impl ResultArtifact {
    /// The artifact of a receipt.
    #[must_use]
    pub fn of(receipt: &Receipt, stdout: &[u8], stderr: &[u8], violations: Vec<Violation>) -> Self {
        let execution = &receipt.execution;
        Self {
            type_uri: TYPE.to_owned(),
            schema_version: 1,
            job_id: execution.job_id.clone(),
            tenant: execution.requester.clone(),
            status: execution.outcome,
            exit_code: execution.exit_code,
            created_at_ms: execution.created_at_ms,
            started_at_ms: execution.started_at_ms,
            finished_at_ms: execution.finished_at_ms,
            duration_ms: execution.duration_ms,
            receipt_sha256: receipt.receipt_sha256,
            stdout: Captured::of(stdout),
            stderr: Captured::of(stderr),
            truncated: receipt.output.truncated,
            violations,
        }
    }

    /// Reads an artifact.
    ///
    /// # Errors
    /// [`ArtifactError::Document`].
    pub fn parse(text: &[u8]) -> Result<Self, ArtifactError> {
        let document = Value::parse(text, &limits::ARTIFACT).map_err(ArtifactError::Document)?;
        document.read().map_err(ArtifactError::Document)
    }

    /// The artifact as it is stored and digested.
    ///
    /// # Errors
    /// When it is larger than an artifact may be, or holds an integer above 2^53 - 1.
    pub fn to_canonical(&self) -> Result<String, CanonicalError> {
        Ok(Value::of(self, &limits::ARTIFACT)?.to_canonical())
    }

    /// Checks that every member says what the receipt says.
    ///
    /// # Errors
    /// [`ArtifactError::Disagrees`] with the first that does not.
    pub fn check(&self, receipt: &Receipt) -> Result<(), ArtifactError> {
        let execution = &receipt.execution;
        let (stdout, stderr) = (self.stdout.to_bytes(), self.stderr.to_bytes());
        let kept = stdout.zip(stderr).map(|(out, err)| Output::of(&out, &err, self.truncated));
        let agreements = [
            ("_type", self.type_uri == TYPE),
            ("schema_version", self.schema_version == 1),
            ("job_id", self.job_id == execution.job_id),
            ("tenant", self.tenant == execution.requester),
            ("status", self.status == execution.outcome),
            ("exit_code", self.exit_code == execution.exit_code),
            ("created_at_ms", self.created_at_ms == execution.created_at_ms),
            ("started_at_ms", self.started_at_ms == execution.started_at_ms),
            ("finished_at_ms", self.finished_at_ms == execution.finished_at_ms),
            ("duration_ms", self.duration_ms == execution.duration_ms),
            ("receipt_sha256", self.receipt_sha256 == receipt.receipt_sha256),
            ("stdout, stderr or truncated", kept.as_ref() == Some(&receipt.output)),
        ];
        match agreements.into_iter().find(|(_, agrees)| !agrees) {
            Some((member, _)) => Err(ArtifactError::Disagrees { member }),
            None => Ok(()),
        }
    }
}
