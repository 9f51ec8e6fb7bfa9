//! Verification, in the one order that lets nothing unauthenticated steer it:
//!
//! ```text
//!  1 size of the envelope          6 payload type
//!  2 (trust set: made by caller)   7 the statement: types, receipt, subjects
//!  3 strict JSON, signature count  8 the receipt's node is one of the signers
//!    and every base64              9 the artifact, if given: digest, size, agreement
//!  4 size of the statement        10 what the caller expects: job, tenant
//!  5 signatures, to the threshold 11 the events, if given
//! ```
//!
//! Up to step 5 nothing in the payload is looked at. A document that passes proves who signed what, and no more: a
//! job that failed verifies as well as one that succeeded, and a node may say of itself that it lost events. Both
//! answers are in [`Verified`], to be shown beside the signers.

use ed25519_dalek::VerifyingKey;
use thiserror::Error;

use crate::id::NodeId;

use super::artifact::{ArtifactError, ResultArtifact};
use super::chain::ChainError;
use super::digest::Digest;
use super::dsse::{Envelope, EnvelopeError, IN_TOTO};
use super::event::Event;
use super::limits::{MAX_ENVELOPE_BYTES, MAX_STATEMENT_BYTES};
use super::receipt::{Outcome, Receipt};
use super::statement::{Statement, StatementError};
use super::trust::TrustSet;

/// What the caller has beside the envelope, and what it wants the statement to be about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected<'a> {
    /// The result artifact, byte for byte.
    pub artifact: Option<&'a [u8]>,
    /// The job's events.
    pub events: Option<&'a [Event]>,
    /// The job this must be about.
    pub job_id: Option<&'a str>,
    /// On whose behalf it must have run: `<entry node>/<tenant>`.
    pub tenant: Option<&'a str>,
}

/// What was proved.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Who signed: trusted keys, each once, as many as the threshold asked for.
    pub signers: Vec<NodeId>,
    /// What they signed, checked against itself.
    pub statement: Statement,
    /// The result, when its bytes were given and are the ones that were signed.
    pub artifact: Option<ResultArtifact>,
    /// Whether the events were given and are the ones that were signed.
    pub events_checked: bool,
}

impl Verified {
    /// The receipt.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.statement.predicate.receipt
    }

    /// How the job ended, according to the signers. A valid signature says nothing about success; this does.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.receipt().execution.outcome
    }

    /// What the job's process returned, according to the signers.
    #[must_use]
    pub const fn exit_code(&self) -> Option<i32> {
        self.receipt().execution.exit_code
    }

    /// Whether the signers claim that no event is missing from the chain.
    #[must_use]
    pub const fn event_chain_complete(&self) -> bool {
        self.receipt().event_chain.complete
    }

    /// Whether the signers claim that no output or observation was lost.
    #[must_use]
    pub const fn evidence_complete(&self) -> bool {
        self.receipt().execution.evidence_complete
    }
}

/// The step at which verification stopped.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// Step 1.
    #[error("an envelope of {bytes} bytes, where {MAX_ENVELOPE_BYTES} are allowed")]
    EnvelopeTooLarge {
        /// Found.
        bytes: usize,
    },
    /// Step 3.
    #[error("the envelope cannot be read")]
    Envelope(#[source] EnvelopeError),
    /// Step 4.
    #[error("a statement of {bytes} bytes, where {MAX_STATEMENT_BYTES} are allowed")]
    StatementTooLarge {
        /// Found, decoded.
        bytes: usize,
    },
    /// Step 5.
    #[error("{valid} trusted signatures, where {threshold} are needed")]
    Signatures {
        /// Distinct trusted keys with a valid signature.
        valid: usize,
        /// Needed.
        threshold: usize,
    },
    /// Step 6.
    #[error("the payload is not an in-toto statement")]
    PayloadType,
    /// Step 7.
    #[error("the statement does not hold together")]
    Statement(#[source] StatementError),
    /// Step 8: a trusted key signed in the name of another node.
    #[error("the node that the receipt names did not sign it")]
    NodeDidNotSign {
        /// The node in the receipt.
        node: NodeId,
    },
    /// Step 9.
    #[error("the artifact is not the one that was signed")]
    ArtifactDigest {
        /// Signed.
        signed: Digest,
        /// Given.
        given: Digest,
    },
    /// Step 9.
    #[error("the artifact has {given} bytes, the one that was signed {signed}")]
    ArtifactSize {
        /// Signed.
        signed: u64,
        /// Given.
        given: u64,
    },
    /// Step 9.
    #[error("the artifact does not fit its receipt")]
    Artifact(#[source] ArtifactError),
    /// Step 10.
    #[error("this is about job `{found}`")]
    Job {
        /// The job that was signed for.
        found: String,
    },
    /// Step 10.
    #[error("this is about a job of `{found}`")]
    Tenant {
        /// The tenant that was signed for.
        found: String,
    },
    /// Step 11.
    #[error("the events are not the ones that were signed")]
    Events(#[source] ChainError),
}

/// Verifies an envelope, and whatever the caller has beside it.
///
/// # Errors
/// The first step that fails.
pub fn verify(envelope: &[u8], trust: &TrustSet, expected: &Expected<'_>) -> Result<Verified, VerifyError> {
    if envelope.len() > MAX_ENVELOPE_BYTES {
        return Err(VerifyError::EnvelopeTooLarge { bytes: envelope.len() });
    }
    let envelope = Envelope::parse(envelope).map_err(VerifyError::Envelope)?;
    let bytes = envelope.payload.len();
    if bytes > MAX_STATEMENT_BYTES {
        return Err(VerifyError::StatementTooLarge { bytes });
    }
    let signers = authenticate(&envelope, trust)?;

    // From here on the payload is what the signers signed.
    if envelope.payload_type != IN_TOTO {
        return Err(VerifyError::PayloadType);
    }
    let statement = Statement::parse(&envelope.payload).map_err(VerifyError::Statement)?;
    let node = statement.predicate.receipt.node;
    if !signers.contains(&node) {
        return Err(VerifyError::NodeDidNotSign { node });
    }
    let artifact = expected.artifact.map(|artifact| check_artifact(&statement, artifact)).transpose()?;
    check_expectations(&statement, expected)?;
    if let Some(events) = expected.events {
        let predicate = &statement.predicate;
        let chain = &predicate.receipt.event_chain;
        chain.check(&predicate.execution_id, events).map_err(VerifyError::Events)?;
    }
    Ok(Verified { signers, statement, artifact, events_checked: expected.events.is_some() })
}

fn authenticate(envelope: &Envelope, trust: &TrustSet) -> Result<Vec<NodeId>, VerifyError> {
    let signers = trust.signers(envelope);
    let (valid, threshold) = (signers.len(), trust.threshold());
    if valid < threshold {
        return Err(VerifyError::Signatures { valid, threshold });
    }
    Ok(signers.iter().map(VerifyingKey::to_bytes).map(NodeId::from_bytes).collect())
}

fn check_artifact(statement: &Statement, artifact: &[u8]) -> Result<ResultArtifact, VerifyError> {
    let result = &statement.predicate.result;
    let digest = Digest::of(artifact);
    if digest != result.sha256 {
        return Err(VerifyError::ArtifactDigest { signed: result.sha256, given: digest });
    }
    let size = artifact.len() as u64;
    if size != result.size_bytes {
        return Err(VerifyError::ArtifactSize { signed: result.size_bytes, given: size });
    }
    let artifact = ResultArtifact::parse(artifact).map_err(VerifyError::Artifact)?;
    artifact.check(&statement.predicate.receipt).map_err(VerifyError::Artifact)?;
    Ok(artifact)
}

fn check_expectations(statement: &Statement, expected: &Expected<'_>) -> Result<(), VerifyError> {
    let found = &statement.predicate;
    if expected.job_id.is_some_and(|job_id| job_id != found.execution_id) {
        return Err(VerifyError::Job { found: found.execution_id.clone() });
    }
    if expected.tenant.is_some_and(|tenant| tenant != found.tenant) {
        return Err(VerifyError::Tenant { found: found.tenant.clone() });
    }
    Ok(())
}
