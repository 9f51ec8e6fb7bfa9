//! The documents of the job API, as clients see them. Fields are only added.
//!
//! Times are milliseconds since 1970. What was not observed is `null`, never filled in from configuration.

use mesh_protocol::api::job::{AttestationView, JobBounds};
use mesh_protocol::evidence::event::Event;
use mesh_protocol::evidence::receipt::{FileDigest, Limits};
use mesh_protocol::id::JobId;
use mesh_protocol::job::{Contents, JobLimits, JobStatus, Language};
use schemars::JsonSchema;
use serde::Serialize;

use super::scope::Scope;

/// The body of every refusal.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorBody {
    pub(super) error: ErrorDocument,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorDocument {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) request_id: String,
    pub(super) retryable: bool,
}

/// A job that was accepted.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Accepted {
    #[schemars(with = "String")]
    pub(super) job_id: JobId,
    #[schemars(with = "String")]
    pub(super) status: JobStatus,
    pub(super) stream_url: String,
    pub(super) stream_ticket_url: String,
    pub(super) replay_url: String,
    pub(super) result_url: String,
}

/// A job in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Summary {
    #[schemars(with = "String")]
    pub(super) job_id: JobId,
    #[schemars(with = "String")]
    pub(super) language: Language,
    #[schemars(with = "String")]
    pub(super) status: JobStatus,
    pub(super) terminal: bool,
    pub(super) principal_id: Option<String>,
    pub(super) minimum_isolation: &'static str,
    pub(super) exit_code: Option<i32>,
    pub(super) killed_by: Option<String>,
    pub(super) duration_ms: Option<u64>,
    pub(super) created_at_ms: u64,
    pub(super) updated_at_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Page {
    pub(super) jobs: Vec<Summary>,
    pub(super) next_cursor: Option<String>,
}

/// One job.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Detail {
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) requested_spec: RequestedSpec,
    pub(super) effective_spec: Option<EffectiveSpec>,
    /// Each member is `null` until it was observed.
    pub(super) execution_policy: ExecutionPolicy,
    pub(super) receipt: Option<serde_json::Value>,
    pub(super) receipt_sha256: Option<String>,
    pub(super) attestation: Attestation,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RequestedSpec {
    #[schemars(with = "String")]
    pub(super) language: Language,
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) limits: JobLimits,
    pub(super) requirements: Requirements,
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub(super) files: Vec<FileDigest>,
    pub(super) outputs: Vec<String>,
    pub(super) runtime: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Requirements {
    pub(super) minimum_isolation: &'static str,
}

/// What was in force: a limit that was not enforced is `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct EffectiveSpec {
    #[schemars(with = "String")]
    pub(super) language: Language,
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) limits: Limits,
    pub(super) runtime: Option<String>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct ExecutionPolicy {
    pub(super) isolation_class: Option<String>,
    pub(super) bootstrap_ready: Option<bool>,
    pub(super) seccomp: Option<bool>,
    pub(super) networking: Option<String>,
    pub(super) limit_enforcement: Option<serde_json::Value>,
    pub(super) runtime_version: Option<String>,
    pub(super) runtime_pack: Option<String>,
    pub(super) policy_sha256: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Attestation {
    #[serde(flatten)]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) view: AttestationView,
    pub(super) tenant: String,
    pub(super) attestation_url: String,
    pub(super) result_artifact_url: String,
}

/// What a cancellation came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Cancelled {
    pub(super) job: Summary,
    pub(super) cancellation_requested: bool,
    pub(super) already_terminal: bool,
}

/// What a job wrote and left.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Outcome {
    #[schemars(with = "String")]
    pub(super) job_id: JobId,
    #[schemars(with = "String")]
    pub(super) status: JobStatus,
    pub(super) exit_code: Option<i32>,
    pub(super) killed_by: Option<String>,
    pub(super) duration_ms: Option<u64>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) truncated: bool,
    pub(super) violations: serde_json::Value,
    pub(super) artifacts: Vec<Artifact>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Artifact {
    pub(super) path: String,
    #[schemars(with = "String")]
    pub(super) content_base64: Contents,
    pub(super) size_bytes: u64,
    pub(super) sha256: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Replay {
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub(super) events: Vec<Event>,
    pub(super) next_cursor: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StreamTicket {
    pub(super) ticket: String,
    pub(super) stream_url: String,
    pub(super) expires_at_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PublicKey {
    pub(super) algorithm: &'static str,
    pub(super) key_id: String,
    pub(super) public_key_pem: String,
    pub(super) notice: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Capabilities {
    pub(super) version: String,
    #[schemars(with = "Vec<String>")]
    pub(super) languages: Vec<Language>,
    pub(super) execution: Execution,
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) limits: JobBounds,
    pub(super) features: Features,
    pub(super) attestations: SignedAttestations,
    pub(super) runtime_packs: Vec<String>,
}

/// What this node's own sandbox was seen to be at its start.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Execution {
    pub(super) backend: Option<&'static str>,
    pub(super) isolation_class: Option<&'static str>,
    pub(super) isolated: bool,
    pub(super) networking: &'static str,
    pub(super) unavailable: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "one independent answer for each feature")]
pub(super) struct Features {
    pub(super) result_wait: bool,
    pub(super) cancellation: bool,
    pub(super) event_cursors: bool,
    pub(super) stream_tickets: bool,
    pub(super) receipts: bool,
    pub(super) signed_attestations: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SignedAttestations {
    pub(super) enabled: bool,
    pub(super) algorithm: String,
    pub(super) key_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Service {
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    /// Always `production`: no rule is looser anywhere.
    pub(super) environment: &'static str,
    pub(super) execution: Execution,
    pub(super) scheduler: Scheduler,
    pub(super) storage_ready: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Scheduler {
    /// Jobs the node runs at once, whoever's they are.
    pub(super) workers: u32,
    /// The rest but the last is of the caller's tenant.
    pub(super) queue_capacity: u64,
    pub(super) queue_depth: u64,
    pub(super) running: u64,
    pub(super) storage_bytes: u64,
    pub(super) storage_bytes_max: u64,
    pub(super) shutting_down: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Whoami {
    pub(super) tenant: String,
    pub(super) principal_id: String,
    pub(super) credential_id: String,
    pub(super) auth_method: &'static str,
    #[schemars(with = "Vec<String>")]
    pub(super) scopes: Vec<Scope>,
    pub(super) expires_at_ms: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    pub(super) status: &'static str,
}
