//! What the asking node makes of a proof: checked when it comes, kept as it came.
//!
//! A proof that does not verify never loses the result; it marks it. A proof that verifies says who claims what, not
//! that the job went well.

use mesh_protocol::api::job::AttestationView;
use mesh_protocol::evidence::artifact::ResultArtifact;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::dsse::key_id;
use mesh_protocol::evidence::receipt::Outcome;
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::JobResult;
use serde::{Deserialize, Serialize};

use crate::store::{Record, Table};

/// What became of a job's proof, as kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attested {
    /// The job has not ended.
    Pending,
    /// There is none, for this reason.
    Missing(String),
    /// It verified when it came.
    Verified {
        /// The node that signed.
        signer: NodeId,
        /// The key id in the envelope.
        key_id: String,
        /// Whether the event chain is complete.
        event_chain_complete: bool,
    },
    /// It does not verify, for this reason.
    Unverified(String),
}

impl From<Attested> for AttestationView {
    fn from(attested: Attested) -> Self {
        match attested {
            Attested::Pending => Self::Pending,
            Attested::Missing(reason) => Self::Missing { reason },
            Attested::Verified { signer, key_id, event_chain_complete } => {
                Self::Verified { signer, key_id, event_chain_complete }
            }
            Attested::Unverified(reason) => Self::Unverified { reason },
        }
    }
}

/// The evidence of a job: the exact bytes its executor signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence(#[serde(with = "serde_bytes")] pub Vec<u8>);

impl Record for Evidence {
    const TABLE: Table = Table::Evidence;
    type Key = JobId;
}

/// Checks that a bundle is signed by the node that ran the job, is about this job, and says what the result says.
#[must_use]
pub fn judge(executor: NodeId, job: JobId, result: &JobResult, proof: &[u8]) -> Attested {
    if proof.is_empty() {
        return Attested::Missing("the executor sent none".to_owned());
    }
    check(executor, job, result, proof).unwrap_or_else(Attested::Unverified)
}

fn check(executor: NodeId, job: JobId, result: &JobResult, proof: &[u8]) -> Result<Attested, String> {
    let bundle = Bundle::parse(proof).map_err(|error| error.to_string())?;
    let trust = TrustSet::node(&executor).map_err(|error| error.to_string())?;
    let verified = bundle.verify(&trust, Some(&job.to_string()), None).map_err(|error| error.to_string())?;
    let outcome = Outcome::try_from(result.status).map_err(|error| error.to_string())?;
    if verified.outcome() != outcome || verified.exit_code() != result.exit_code {
        return Err("the signed outcome is not the one that was reported".to_owned());
    }
    let Some(artifact) = &verified.artifact else {
        return Err("the result that was signed is not in the bundle".to_owned());
    };
    if !says_the_same(artifact, result) {
        return Err("the signed output is not the one that was reported".to_owned());
    }
    let key = verified.signers.iter().find(|signer| **signer == executor);
    let signer = *key.ok_or("the executor is not among the signers")?;
    let key =
        ed25519_dalek::VerifyingKey::from_bytes(signer.as_bytes()).map_err(|error| error.to_string())?;
    Ok(Attested::Verified {
        signer,
        key_id: key_id(&key),
        event_chain_complete: verified.event_chain_complete(),
    })
}

/// The reported text is the signed bytes, with what is not UTF-8 replaced.
fn says_the_same(artifact: &ResultArtifact, result: &JobResult) -> bool {
    let text = |signed: Option<Vec<u8>>| signed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text(artifact.stdout.to_bytes()).as_ref() == Some(&result.stdout)
        && text(artifact.stderr.to_bytes()).as_ref() == Some(&result.stderr)
}
