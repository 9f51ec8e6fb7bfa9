//! Jobs: what `run_code`, `job_result` and `cancel_job` give back.
//!
//! A job that failed, ran out of time or memory, or was stopped is a result: the tool worked. What is said about
//! evidence is what the node's API says, without the envelope: a host that needs proof fetches and verifies the bytes.

use mesh_protocol::api::ask::CancelReply;
use mesh_protocol::api::job::{AttestationView, JobReceipt, JobView};
use mesh_protocol::id::JobId;
use mesh_protocol::job::{JobLimits, JobResult};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Serialize;

use super::flight::delivery;
use super::{HeldReport, Next};
use crate::mcp::excerpt::excerpt;
use crate::mcp::tool::Tool;

/// Seconds the next wait is suggested for.
const NEXT_WAIT_SECONDS: u64 = 60;

/// How a job ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobEnd {
    /// `succeeded`, `failed`, `timed_out`, `oom_killed`, `cancelled` or `error` (not run, or not provably).
    status: &'static str,
    /// The program's exit code, when it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// Why it was stopped or could not run: `wall`, `cpu`, `memory`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    killed_by: Option<String>,
    /// What it wrote.
    stdout: String,
    /// What it wrote to standard error.
    stderr: String,
    /// Whether the executor cut a stream where it was captured.
    truncated: bool,
    /// Bytes that were captured and are left out of `stdout` here.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_omitted_bytes: Option<u64>,
    /// Bytes that were captured and are left out of `stderr` here.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_omitted_bytes: Option<u64>,
    /// Milliseconds it took where it ran.
    duration_ms: u64,
    /// The isolation that was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<&'static str>,
    /// Whether the program may have begun to run.
    may_have_run: bool,
}

impl From<JobResult> for JobEnd {
    fn from(result: JobResult) -> Self {
        let (stdout, stdout_omitted) = excerpt(result.stdout);
        let (stderr, stderr_omitted) = excerpt(result.stderr);
        Self {
            status: result.status.name(),
            exit_code: result.exit_code,
            killed_by: result.killed_by,
            stdout,
            stderr,
            truncated: result.truncated,
            stdout_omitted_bytes: (stdout_omitted > 0).then_some(stdout_omitted),
            stderr_omitted_bytes: (stderr_omitted > 0).then_some(stderr_omitted),
            duration_ms: result.duration_ms,
            isolation: result.isolation.map(|class| class.name()),
            may_have_run: result.may_have_run,
        }
    }
}

/// What the node says of the signed record of this job. It tells who signed, not that the job did well.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AttestationReport {
    /// `pending`, `missing`, `verified` (by your node, on arrival), `unverified` or `unsigned` (not yet).
    state: &'static str,
    /// Why there is none, or which check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The node that signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    /// The key id in the envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    /// Whether the record of what happened has no gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_chain_complete: Option<bool>,
}

impl From<AttestationView> for AttestationReport {
    fn from(view: AttestationView) -> Self {
        let bare =
            |state| Self { state, reason: None, signer: None, key_id: None, event_chain_complete: None };
        match view {
            AttestationView::Pending => bare("pending"),
            AttestationView::Missing { reason } => Self { reason: Some(reason), ..bare("missing") },
            AttestationView::Unverified { reason } => Self { reason: Some(reason), ..bare("unverified") },
            AttestationView::Unsigned { failures } => {
                let reason = format!("signing it failed {failures} times; your node tries again");
                Self { reason: Some(reason), ..bare("unsigned") }
            }
            AttestationView::Verified { signer, key_id, event_chain_complete } => Self {
                signer: Some(signer.to_string()),
                key_id: Some(key_id),
                event_chain_complete: Some(event_chain_complete),
                ..bare("verified")
            },
        }
    }
}

/// What a job may use.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitsReport {
    wall_seconds: u32,
    cpu_seconds: u32,
    mem_mb: u32,
    max_pids: u32,
    max_file_mb: u32,
}

impl From<JobLimits> for LimitsReport {
    fn from(limits: JobLimits) -> Self {
        let JobLimits { wall_seconds, cpu_seconds, mem_mb, max_pids, max_file_mb, allow_network: _ } = limits;
        Self { wall_seconds, cpu_seconds, mem_mb, max_pids, max_file_mb }
    }
}

/// Of `run_code` and `job_result`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobReport {
    /// Whether the job has ended: `status` will never change again.
    complete: bool,
    /// The job. Durable: it can be asked for after this session.
    job_id: String,
    /// `queued`, `running`, or how it ended.
    status: &'static str,
    /// The node it runs on.
    node: String,
    /// That node's name.
    node_name: String,
    /// How far the request has come: `local`, `held` (never sent), `sent` (not acknowledged) or `acknowledged`.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<&'static str>,
    /// Who or what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_on: Option<String>,
    /// Present when that node could not be reached at the time of submitting.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<HeldReport>,
    /// The isolation asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum_isolation: Option<&'static str>,
    /// The limits asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_limits: Option<LimitsReport>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<JobEnd>,
    /// A result that came after the outcome was decided; it does not replace it.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<JobEnd>,
    /// The signed record of an ended job.
    #[serde(skip_serializing_if = "Option::is_none")]
    attestation: Option<AttestationReport>,
    /// Something to know about this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// What to call next, while the job goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Next>,
}

impl From<JobView> for JobReport {
    fn from(view: JobView) -> Self {
        Self {
            complete: view.terminal,
            job_id: view.job_id.to_string(),
            status: view.status.name(),
            node: view.node.to_string(),
            node_name: view.node_name,
            delivery: Some(delivery(view.delivery)),
            waiting_on: view.waiting_on,
            held: None,
            minimum_isolation: Some(view.minimum_isolation.name()),
            requested_limits: Some(view.requested_limits.into()),
            result: view.result.map(JobEnd::from),
            late: view.late.map(JobEnd::from),
            attestation: view.terminal.then(|| view.attestation.into()),
            note: None,
            next: (!view.terminal).then(|| next(view.job_id)),
        }
    }
}

impl JobReport {
    /// An accepted job of which nothing more is known, and why.
    pub(crate) fn accepted(receipt: JobReceipt, note: Option<String>) -> Self {
        Self {
            complete: false,
            job_id: receipt.job_id.to_string(),
            status: receipt.status.name(),
            node: receipt.node.to_string(),
            node_name: receipt.node_name,
            delivery: None,
            waiting_on: None,
            held: receipt.held.map(HeldReport::from),
            minimum_isolation: None,
            requested_limits: None,
            result: None,
            late: None,
            attestation: None,
            note,
            next: Some(next(receipt.job_id)),
        }
    }

    /// The same, for a job that was held when it was submitted.
    pub(crate) fn held(self, receipt: JobReceipt) -> Self {
        Self { held: receipt.held.map(HeldReport::from), ..self }
    }
}

fn next(job: JobId) -> Next {
    let mut arguments = JsonObject::new();
    arguments.insert("job_id".to_owned(), job.to_string().into());
    arguments.insert("wait_seconds".to_owned(), NEXT_WAIT_SECONDS.into());
    let reason = "the job has not ended yet; it goes on without you".to_owned();
    Next { tool: Tool::JobResult.name(), arguments, reason }
}

/// Of `cancel_job`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CancelReport {
    /// The job.
    job_id: String,
    /// Its state after the request.
    state: String,
    /// Whether it had ended before.
    already_terminal: bool,
    /// Whether the stop still has to reach another node.
    on_its_way: bool,
}

impl CancelReport {
    pub(crate) fn new(job: JobId, reply: CancelReply) -> Self {
        let CancelReply { state, already_terminal, on_its_way } = reply;
        Self { job_id: job.to_string(), state, already_terminal, on_its_way }
    }
}
