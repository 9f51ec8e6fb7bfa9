//! The executor's part of a receipt: what was asked and what was observed. Nothing in it is filled in from settings.

use mesh_node_core::event::JobTicket;
use mesh_protocol::evidence::canonical::CanonicalError;
use mesh_protocol::evidence::digest::{Digest, DigestError};
use mesh_protocol::evidence::receipt::{
    Execution, ExecutorOutput, FileDigest, Observed, Requirements, ResourceUsage, StreamSeen,
};
use mesh_sandbox::{JobReport, Posture, StreamReport};
use thiserror::Error;

use super::recording::Recorded;
use super::translation;
use super::verdict::Verdict;

/// What the sandbox calls its system call filters.
const SECCOMP_FILTERS: [&str; 2] = ["oci-deny-list", "bpf-deny-list"];

/// Why there is no account.
#[derive(Debug, Error)]
pub(super) enum ReceiptError {
    /// The sandbox reported something that is no digest.
    #[error("the sandbox's report holds no digest where one belongs")]
    Digest(#[from] DigestError),
    /// What it reported cannot be written.
    #[error("the sandbox's report cannot be written")]
    Document(#[from] CanonicalError),
}

/// The account of an attempt; `report` is the sandbox's, if there is one, `seen` what is known of its streams.
///
/// # Errors
/// When a digest of the sandbox is not one.
pub(super) fn execution(
    ticket: &JobTicket,
    verdict: &Verdict,
    (report, seen): (Option<&JobReport>, Option<ExecutorOutput>),
    recorded: &Recorded,
    artifacts: Vec<FileDigest>,
) -> Result<Execution, ReceiptError> {
    let asked = &ticket.asked;
    Ok(Execution {
        job_id: ticket.job.to_string(),
        requester: ticket.tenant.clone(),
        outcome: verdict.outcome,
        exit_code: verdict.exit_code,
        killed_by: verdict.killed_by.as_deref().map(str::to_owned),
        created_at_ms: ticket.created_wall_ms,
        started_at_ms: recorded.started_at_ms,
        finished_at_ms: recorded.finished_at_ms,
        duration_ms: recorded.duration_ms,
        evidence_complete: recorded.complete,
        requested_limits: asked.limits.into(),
        requirements: Requirements {
            minimum_isolation: asked.requirements.minimum_isolation.name().to_owned(),
        },
        language: asked.language.name().to_owned(),
        code_sha256: asked.code_sha256,
        stdin_sha256: asked.stdin_sha256,
        resource_usage: report.filter(|report| report.posture.is_some()).map(used),
        executor_output: seen,
        input_files: asked.input_files.clone(),
        artifacts,
        observed: report
            .and_then(|report| Some((report, report.posture.as_ref()?)))
            .map(observed)
            .transpose()?,
    })
}

const fn used(report: &JobReport) -> ResourceUsage {
    let usage = &report.resource_usage;
    ResourceUsage {
        wall_time_ms: usage.wall_time_ms,
        cpu_time_usec: usage.cpu_time_usec,
        memory_peak_bytes: usage.memory_peak_bytes,
    }
}

/// What is known of a job's streams: what the sandbox reports, and that one which never ran wrote nothing. Of one that
/// may have run, and of which no report is left, it is not known.
pub(super) fn seen(verdict: &Verdict, report: Option<&JobReport>) -> Option<ExecutorOutput> {
    if let Some(report) = report {
        return Some(ExecutorOutput { stdout: stream(&report.stdout)?, stderr: stream(&report.stderr)? });
    }
    let nothing = || StreamSeen { bytes_seen: 0, raw_sha256: Digest::of(&[]), truncated: false };
    (!verdict.may_have_run).then(|| ExecutorOutput { stdout: nothing(), stderr: nothing() })
}

fn stream(report: &StreamReport) -> Option<StreamSeen> {
    let raw_sha256 = report.raw_sha256.parse().ok()?;
    Some(StreamSeen { bytes_seen: report.bytes_seen, raw_sha256, truncated: report.truncated })
}

fn observed((report, posture): (&JobReport, &Posture)) -> Result<Observed, ReceiptError> {
    let observed = Observed {
        isolation_class: translation::isolation(posture.isolation_class).map(|class| class.name().to_owned()),
        bootstrap_ready: Some(posture.bootstrap_ready),
        seccomp: SECCOMP_FILTERS.contains(&posture.seccomp.as_str()).then_some(true),
        networking: Some(posture.networking.clone()),
        runtime_version: Some(posture.runtime_version.clone()),
        runtime_sha256: Some(posture.runtime_sha256.parse()?),
        rootfs_sha256: Some(posture.rootfs_sha256.parse()?),
        config_sha256: Some(posture.config_sha256.parse()?),
        effective_limits: Some(translation::limits_in_force(
            &report.effective_limits,
            report.limit_enforcement,
        )),
        limit_enforcement: Some(translation::enforcement(report.limit_enforcement)),
        runtime_pack: posture.runtime_pack.clone(),
        policy_sha256: None,
    };
    Ok(observed.sealed()?)
}
