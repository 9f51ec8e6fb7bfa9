//! What the asking node makes of a proof: checked when it comes, kept as it came.
//!
//! A proof that does not verify never loses the result; it marks it. A proof that verifies says who claims what, not
//! that the job went well.

use mesh_protocol::api::job::AttestationView;
use mesh_protocol::evidence::artifact::ResultArtifact;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::dsse::key_id;
use mesh_protocol::evidence::event::Event;
use mesh_protocol::evidence::receipt::{FileDigest, Limits, Outcome};
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{JobResult, OutputFile};
use serde::{Deserialize, Serialize};

use crate::jobs::ended::Ended;
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
    /// This node could not sign it yet, this many times. It tries again.
    Unsigned {
        /// How often it failed.
        failures: u32,
    },
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
            Attested::Unsigned { failures } => Self::Unsigned { failures },
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

/// What a proof says, as far as it is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The verdict.
    pub attested: Attested,
    /// The limits that were in force; only from a proof that verified.
    pub effective_limits: Option<Limits>,
    /// The events that were signed; only from a proof that verified.
    pub events: Vec<Event>,
}

/// Checks that a bundle is signed by the node that ran the job, is about this job, and says what the result says.
#[must_use]
pub fn judge(executor: NodeId, job: JobId, ended: &Ended) -> Judged {
    let nothing = |attested| Judged { attested, effective_limits: None, events: Vec::new() };
    if ended.evidence.is_empty() {
        return nothing(Attested::Missing("the node that ran it sent none".to_owned()));
    }
    check(executor, job, ended).unwrap_or_else(|reason| nothing(Attested::Unverified(reason)))
}

fn check(executor: NodeId, job: JobId, ended: &Ended) -> Result<Judged, String> {
    let Ended { result, evidence, outputs } = ended;
    let bundle = Bundle::parse(evidence).map_err(|error| error.to_string())?;
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
    let signed = &verified.receipt().execution.artifacts;
    let is = |file: &OutputFile, digest: &FileDigest| {
        file.path == digest.path && Digest::of(&file.content.0) == digest.sha256
    };
    if outputs.len() != signed.len() || !outputs.iter().zip(signed).all(|(file, digest)| is(file, digest)) {
        return Err("the signed files are not the ones that came".to_owned());
    }
    let key = verified.signers.iter().find(|signer| **signer == executor);
    let signer = *key.ok_or("the executor is not among the signers")?;
    let key =
        ed25519_dalek::VerifyingKey::from_bytes(signer.as_bytes()).map_err(|error| error.to_string())?;
    let attested = Attested::Verified {
        signer,
        key_id: key_id(&key),
        event_chain_complete: verified.event_chain_complete(),
    };
    let observed = verified.receipt().execution.observed.as_ref();
    let effective_limits = observed.and_then(|observed| observed.effective_limits.clone());
    Ok(Judged { attested, effective_limits, events: bundle.events.unwrap_or_default() })
}

/// The reported text is the signed bytes, with what is not UTF-8 replaced.
fn says_the_same(artifact: &ResultArtifact, result: &JobResult) -> bool {
    let text = |signed: Option<Vec<u8>>| signed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text(artifact.stdout.to_bytes()).as_ref() == Some(&result.stdout)
        && text(artifact.stderr.to_bytes()).as_ref() == Some(&result.stderr)
        && artifact.violations == result.violations
}
