//! Jobs.

use serde::{Deserialize, Serialize};

use crate::api::ask::DeliveryPhase;
use crate::evidence::digest::Digest;
use crate::evidence::event::Event;
use crate::evidence::receipt::{FileDigest, Limits};
use crate::id::{JobId, NodeId};
use crate::isolation::IsolationClass;
use crate::job::{Contents, JobLimits, JobResult, JobSpec, JobStatus, Language};

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
    /// That running it twice does no harm: then, and only then, it may be run elsewhere when its executor is gone.
    #[serde(default)]
    pub idempotent: bool,
}

impl RunRequest {
    /// A request with a default for everything but the job.
    #[must_use]
    pub const fn new(spec: JobSpec) -> Self {
        Self { spec, on: None, idempotency_key: None, deadline_seconds: None, idempotent: false }
    }
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
    /// The job has ended here and could not be signed yet. That is tried again: a few times soon, then at each start.
    Unsigned {
        /// How often it failed.
        failures: u32,
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
    /// Who in particular, where one tenant is several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The isolation asked for.
    pub minimum_isolation: IsolationClass,
    /// The limits asked for.
    pub requested_limits: JobLimits,
    /// The limits in force, as the sandbox reported them; `null` in it where none was enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_limits: Option<Limits>,
    /// The files it was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_files: Vec<FileDigest>,
    /// The files it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// The runtime pack asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
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

/// Which jobs to list, and from where on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobFilter {
    /// In this status only.
    #[serde(default)]
    pub status: Option<JobStatus>,
    /// In this language only.
    #[serde(default)]
    pub language: Option<Language>,
    /// Behind this place: the `next_cursor` of an earlier page.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// Some jobs, newest first, without their outputs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// Where the next page begins; absent on the last. Jobs that come in between do not move it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Some events of a job, in order: `GET /v1/jobs/{id}/events?after=&limit=&wait_seconds=`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPage {
    /// The events behind the cursor.
    pub events: Vec<Event>,
    /// The last of them, or the cursor itself when there is none: what to ask for next.
    pub next_cursor: u64,
    /// Whether these are the last there will ever be.
    pub ended: bool,
    /// Whether the job has ended and that is not signed yet. The signature will be about these events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
}

/// A file that a job left, with its bytes: `GET /v1/jobs/{id}/outputs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputView {
    /// Where the job wrote it: `output/...`.
    pub path: String,
    /// Its bytes.
    pub content_base64: Contents,
    /// How many.
    pub size_bytes: u64,
    /// Of them.
    pub sha256: Digest,
}

/// What a job may be here: `GET /v1/capabilities`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCapabilities {
    /// The node's version.
    pub version: String,
    /// Languages that can be run on this node, in their one order.
    pub languages: Vec<Language>,
    /// Isolation classes of this node's sandbox, as observed at its start.
    pub isolation_classes: Vec<IsolationClass>,
    /// Why jobs cannot be run here, where they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Jobs it runs at once.
    pub slots: u32,
    /// Bounds of every request.
    pub limits: JobBounds,
    /// Named runtime packs.
    pub runtimes: Vec<String>,
    /// The media type of attestations, the name of their algorithm, and the key's id.
    pub attestations: AttestationCapability,
}

/// Bounds of a request. The first five are clamped to, the others refused over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is the bound of what its name says")]
pub struct JobBounds {
    pub wall_seconds_max: u32,
    pub cpu_seconds_max: u32,
    pub mem_mb_max: u32,
    pub max_pids_max: u32,
    pub max_file_mb_max: u32,
    pub code_bytes_max: u64,
    pub stdin_bytes_max: u64,
    pub files_max: u64,
    pub file_bytes_max: u64,
    pub files_bytes_max: u64,
    pub output_bytes_max: u64,
    pub result_wait_seconds_max: u64,
}

/// How results are attested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttestationCapability {
    /// `Ed25519`.
    pub algorithm: String,
    /// The key's id in envelopes.
    pub key_id: String,
    /// The node whose key it is. Naming a key is no reason to trust it.
    pub node: NodeId,
}
