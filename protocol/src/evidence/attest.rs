//! Making evidence: from what a node knows about a finished job to a signed envelope.
//!
//! Everything that can be computed is computed here, and the result is verified as a stranger would before it is
//! returned: what leaves this module verifies, or is an error. Signing is deterministic (RFC 8032), so the same job
//! and key give the same bytes.

use ed25519_dalek::SigningKey;
use thiserror::Error;

use crate::id::NodeId;

use super::artifact::{ResultArtifact, Violation};
use super::canonical::CanonicalError;
use super::chain::{Chain, ChainError};
use super::digest::Digest;
use super::dsse::{Envelope, IN_TOTO};
use super::event::Event;
use super::receipt::{Execution, Output, Receipt};
use super::statement::Statement;
use super::trust::{TrustError, TrustSet};
use super::verify::{Expected, VerifyError, verify};

/// A finished job, as its node knows it.
#[derive(Debug, Clone)]
pub struct Finished {
    /// What the executor reports.
    pub execution: Execution,
    /// What was kept of standard output.
    pub stdout: Vec<u8>,
    /// What was kept of standard error.
    pub stderr: Vec<u8>,
    /// Whether the job wrote more than was kept.
    pub truncated: bool,
    /// Rules the job broke, in order.
    pub violations: Vec<Violation>,
    /// Its events, `finished` included.
    pub chain: Chain,
}

/// Signed evidence. These bytes never change again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attestation {
    /// The DSSE envelope.
    pub envelope: String,
    /// The result artifact.
    pub artifact: String,
    /// The events the receipt's chain stands for.
    pub events: Vec<Event>,
}

/// Why a job could not be attested.
#[derive(Debug, Error)]
pub enum AttestError {
    /// The chain is of another job than the execution.
    #[error("the events are of another job")]
    AnotherJob,
    /// The chain is not closed.
    #[error("the event chain is not closed")]
    Chain(#[source] ChainError),
    /// Something is too large to be a document, or holds a number beyond 2^53 - 1.
    #[error("the {what} cannot be written")]
    Document {
        /// Which document.
        what: &'static str,
        /// Why.
        #[source]
        source: CanonicalError,
    },
    /// The signing key identifies nobody.
    #[error("the signing key cannot be used")]
    Key(#[source] TrustError),
    /// What was signed does not verify. Nothing of it may be used.
    #[error("the new attestation does not verify")]
    SelfVerification(#[source] VerifyError),
}

/// Attests a finished job with the key of the node that ran it.
///
/// # Errors
/// See [`AttestError`]; nothing was signed that could be used then.
pub fn attest(job: Finished, key: &SigningKey) -> Result<Attestation, AttestError> {
    let Finished { execution, stdout, stderr, truncated, violations, chain } = job;
    if chain.job_id() != execution.job_id {
        return Err(AttestError::AnotherJob);
    }
    let node = NodeId::from_bytes(key.verifying_key().to_bytes());
    let receipt = Receipt {
        version: 1,
        node,
        execution,
        output: Output::of(&stdout, &stderr, truncated),
        event_chain: chain.summary().map_err(AttestError::Chain)?,
        receipt_sha256: Digest::from_bytes([0; 32]),
    };
    let receipt = receipt.seal().map_err(document("receipt"))?;
    let artifact = ResultArtifact::of(&receipt, &stdout, &stderr, violations);
    let artifact = artifact.to_canonical().map_err(document("result artifact"))?;
    let statement = Statement::of(receipt, artifact.as_bytes());
    let payload = statement.to_canonical().map_err(document("statement"))?;
    let envelope = Envelope::sign(IN_TOTO, payload.into_bytes(), key);
    let envelope = envelope.to_json().map_err(document("envelope"))?;
    let attestation = Attestation { envelope, artifact, events: chain.into_events() };
    attestation.check(&node, &statement)?;
    Ok(attestation)
}

impl Attestation {
    fn check(&self, node: &NodeId, statement: &Statement) -> Result<(), AttestError> {
        let trust = TrustSet::node(node).map_err(AttestError::Key)?;
        let expected = Expected {
            artifact: Some(self.artifact.as_bytes()),
            events: Some(&self.events),
            job_id: Some(&statement.predicate.execution_id),
            tenant: Some(&statement.predicate.tenant),
        };
        verify(self.envelope.as_bytes(), &trust, &expected).map_err(AttestError::SelfVerification)?;
        Ok(())
    }
}

fn document(what: &'static str) -> impl FnOnce(CanonicalError) -> AttestError {
    move |source| AttestError::Document { what, source }
}
