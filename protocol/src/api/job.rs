//! Jobs.

use serde::{Deserialize, Serialize};

use crate::api::ask::DeliveryPhase;
use crate::id::{JobId, NodeId};
use crate::isolation::IsolationClass;
use crate::job::{JobLimits, JobResult, JobSpec, JobStatus, Language};

/// `POST /v1/jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// What to run.
    pub spec: JobSpec,
    /// The node to run it on, by name or id; this one, or one the operator named, when absent.
    #[serde(default)]
    pub on: Option<String>,
    /// The caller's own key: the same key and spec again give the first job again.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Seconds until the result is of no use; an hour when absent.
    #[serde(default)]
    pub deadline_seconds: Option<u64>,
}

/// What was accepted: durable when you read this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReceipt {
    /// The job.
    pub job_id: JobId,
    /// Where it is now.
    pub status: JobStatus,
    /// Where it runs.
    pub node: NodeId,
    /// That node's name.
    pub node_name: String,
    /// Present when that node cannot be reached now: the job is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<crate::api::ask::Held>,
    /// Whether this repeats an earlier receipt for the same key.
    pub replayed: bool,
}

/// What became of the proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum AttestationView {
    /// The job has not ended.
    Pending,
    /// There is none.
    Missing {
        /// Why.
        reason: String,
    },
    /// Checked when it arrived: the signature is the executor's and covers this result.
    Verified {
        /// The node that signed.
        signer: NodeId,
        /// The key id in the envelope.
        key_id: String,
        /// Whether the event chain is complete.
        event_chain_complete: bool,
    },
    /// It does not verify; the result is kept and marked.
    Unverified {
        /// Which check failed.
        reason: String,
    },
}

/// A job: `GET /v1/jobs`, `GET /v1/jobs/{id}`, `GET /v1/jobs/{id}/result?wait_seconds=`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// The job.
    pub job_id: JobId,
    /// The language.
    pub language: Language,
    /// Where it is.
    pub status: JobStatus,
    /// Whether `status` will never change.
    pub terminal: bool,
    /// Where it runs.
    pub node: NodeId,
    /// That node's name.
    pub node_name: String,
    /// Who asked.
    pub requester: String,
    /// How far the request has come.
    pub delivery: DeliveryPhase,
    /// Who or what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<String>,
    /// The isolation asked for.
    pub minimum_isolation: IsolationClass,
    /// The limits asked for.
    pub requested_limits: JobLimits,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<JobResult>,
    /// A result that came after the outcome was decided; never replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<JobResult>,
    /// What became of the proof.
    pub attestation: AttestationView,
    /// When it was accepted.
    pub created_at_ms: u64,
    /// When the status last changed.
    pub updated_at_ms: u64,
}
