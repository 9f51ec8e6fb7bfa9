//! The statement that is signed: an in-toto Statement, version 1, whose first subject is the result artifact and whose
//! other subjects are the job's output files, in the receipt's order.
//!
//! As in-toto asks, readers ignore members they do not know; the signature covers them all the same.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::artifact;
use super::canonical::{CanonicalError, Value};
use super::digest::Digest;
use super::limits;
use super::receipt::{self, Receipt};

/// in-toto's own type of statement.
pub const TYPE: &str = "https://in-toto.io/Statement/v1";

/// Our type of predicate. The name is under `.invalid` (RFC 6761): it identifies, it does not resolve.
pub const PREDICATE_TYPE: &str = "https://mesh.invalid/attestation/execution/v1";

/// A statement about one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    /// [`TYPE`].
    #[serde(rename = "_type")]
    pub type_uri: String,
    /// The result artifact, then each output file.
    pub subject: Vec<Subject>,
    /// [`PREDICATE_TYPE`].
    pub predicate_type: String,
    /// What is said of them.
    pub predicate: Predicate,
}

/// Something the statement is about (an in-toto ResourceDescriptor).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// `mesh://jobs/<job id>/result` or `mesh://jobs/<job id>/<path>`.
    pub name: String,
    /// Its digest.
    pub digest: DigestSet,
    /// Its media type, where it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub media_type: Option<String>,
}

/// Digests by algorithm; we write one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestSet {
    /// SHA-256.
    pub sha256: Digest,
}

/// What is said of the subjects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Predicate {
    /// 1.
    pub schema_version: u64,
    /// The job.
    pub execution_id: String,
    /// On whose behalf: the receipt's `requester`.
    pub tenant: String,
    /// The result artifact.
    pub result: ResultDescriptor,
    /// The receipt.
    pub receipt: Receipt,
}

/// The result artifact as the predicate describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultDescriptor {
    /// The first subject's name.
    pub name: String,
    /// [`artifact::MEDIA_TYPE`].
    pub media_type: String,
    /// Bytes of the artifact.
    pub size_bytes: u64,
    /// The first subject's digest.
    pub sha256: Digest,
}

/// Why a document is not a statement of ours, in the order things are looked at.
#[derive(Debug, Error)]
pub enum StatementError {
    /// Not strict JSON within bounds.
    #[error("the statement is not canonical JSON")]
    Document(#[source] CanonicalError),
    /// Another `_type`, `predicateType` or `schemaVersion`, or a receipt of another version.
    #[error("`{member}` is not one this version reads")]
    Version {
        /// The member.
        member: &'static str,
    },
    /// A member is missing or has another type.
    #[error("the statement lacks a member or has one of another type")]
    Shape(#[source] CanonicalError),
    /// The receipt has more bytes than [`limits::MAX_RECEIPT_BYTES`].
    #[error("a receipt of {bytes} bytes, where {} are allowed", limits::MAX_RECEIPT_BYTES)]
    ReceiptTooLarge {
        /// Found, in canonical form.
        bytes: usize,
    },
    /// The receipt does not come to the digest it carries.
    #[error("the receipt does not have the digest it carries")]
    ReceiptDigest,
    /// What was observed does not come to the digest it carries.
    #[error("what was observed does not have the digest it carries")]
    PolicyDigest,
    /// Two subjects have one name.
    #[error("two subjects have one name")]
    DuplicateSubject,
    /// Two members that must be equal are not.
    #[error("`{left}` and `{right}` differ")]
    Disagrees {
        /// One.
        left: &'static str,
        /// The other.
        right: &'static str,
    },
}

impl Statement {
    /// The statement about a receipt and its artifact, given in canonical form.
    #[must_use]
    pub fn of(receipt: Receipt, artifact: &[u8]) -> Self {
        let execution = &receipt.execution;
        let result = ResultDescriptor {
            name: subject_name(&execution.job_id, "result"),
            media_type: artifact::MEDIA_TYPE.to_owned(),
            size_bytes: artifact.len() as u64,
            sha256: Digest::of(artifact),
        };
        Self {
            type_uri: TYPE.to_owned(),
            subject: subjects(&result, &receipt),
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: Predicate {
                schema_version: 1,
                execution_id: execution.job_id.clone(),
                tenant: execution.requester.clone(),
                result,
                receipt,
            },
        }
    }

    /// The payload to sign.
    ///
    /// # Errors
    /// When it is larger than a statement may be, or holds an integer above 2^53 - 1.
    pub fn to_canonical(&self) -> Result<String, CanonicalError> {
        Ok(Value::of(self, &limits::STATEMENT)?.to_canonical())
    }

    /// Reads a payload and checks everything in it that can be checked against itself: types and versions, the
    /// receipt's core and digest, then the subjects. Only for a payload whose signature was verified.
    ///
    /// # Errors
    /// The first [`StatementError`], in their order.
    pub fn parse(payload: &[u8]) -> Result<Self, StatementError> {
        let document = Value::parse(payload, &limits::STATEMENT).map_err(StatementError::Document)?;
        let receipt = check_versions(&document)?;
        let statement: Self = document.read().map_err(StatementError::Shape)?;
        statement.check_receipt(receipt)?;
        statement.check_subjects()?;
        Ok(statement)
    }

    fn check_receipt(&self, document: &Value) -> Result<(), StatementError> {
        let bytes = document.to_canonical().len();
        if bytes > limits::MAX_RECEIPT_BYTES {
            return Err(StatementError::ReceiptTooLarge { bytes });
        }
        let Predicate { execution_id, tenant, receipt, .. } = &self.predicate;
        if receipt.execution.job_id != *execution_id {
            return Err(StatementError::Disagrees { left: "executionId", right: "receipt.job_id" });
        }
        if receipt.execution.requester != *tenant {
            return Err(StatementError::Disagrees { left: "tenant", right: "receipt.requester" });
        }
        if receipt::digest(document) != receipt.receipt_sha256 {
            return Err(StatementError::ReceiptDigest);
        }
        let claimed = receipt.execution.observed.as_ref().and_then(|observed| observed.policy_sha256);
        if claimed.is_some() && claimed != document.get("observed").map(receipt::policy_digest) {
            return Err(StatementError::PolicyDigest);
        }
        Ok(())
    }

    fn check_subjects(&self) -> Result<(), StatementError> {
        let Predicate { execution_id, result, receipt, .. } = &self.predicate;
        if result.name != subject_name(execution_id, "result") {
            return Err(StatementError::Disagrees { left: "result.name", right: "executionId" });
        }
        if result.media_type != artifact::MEDIA_TYPE {
            return Err(StatementError::Version { member: "result.mediaType" });
        }
        let expected = subjects(result, receipt);
        if self.subject.first() != expected.first() {
            return Err(StatementError::Disagrees { left: "subject", right: "result" });
        }
        if self.subject != expected {
            return Err(StatementError::Disagrees { left: "subject", right: "receipt.artifacts" });
        }
        let names: BTreeSet<_> = self.subject.iter().map(|subject| &subject.name).collect();
        if names.len() != self.subject.len() {
            return Err(StatementError::DuplicateSubject);
        }
        Ok(())
    }
}

/// Looked at before the shape, so that a statement of a later version is called that, not malformed. Returns the
/// receipt as it was signed.
fn check_versions(document: &Value) -> Result<&Value, StatementError> {
    let one = Some(&Value::Integer(1));
    let predicate = document.get("predicate");
    let receipt = predicate.and_then(|predicate| predicate.get("receipt"));
    let chain = receipt.and_then(|receipt| receipt.get("event_chain"));
    let known = [
        ("_type", document.get("_type").and_then(Value::as_text) == Some(TYPE)),
        ("predicateType", document.get("predicateType").and_then(Value::as_text) == Some(PREDICATE_TYPE)),
        ("schemaVersion", predicate.and_then(|predicate| predicate.get("schemaVersion")) == one),
        ("receipt.version", receipt.and_then(|receipt| receipt.get("version")) == one),
        ("receipt.event_chain.version", chain.and_then(|chain| chain.get("version")) == one),
    ];
    match known.into_iter().find(|(_, known)| !known) {
        Some((member, _)) => Err(StatementError::Version { member }),
        None => receipt.ok_or(StatementError::Version { member: "receipt" }),
    }
}

fn subjects(result: &ResultDescriptor, receipt: &Receipt) -> Vec<Subject> {
    let first = Subject {
        name: result.name.clone(),
        digest: DigestSet { sha256: result.sha256 },
        media_type: Some(result.media_type.clone()),
    };
    let files = receipt.execution.artifacts.iter().map(|file| Subject {
        name: subject_name(&receipt.execution.job_id, &file.path),
        digest: DigestSet { sha256: file.sha256 },
        media_type: None,
    });
    std::iter::once(first).chain(files).collect()
}

fn subject_name(job_id: &str, path: &str) -> String {
    format!("mesh://jobs/{job_id}/{path}")
}
