//! What the node knows of a job, as the documents of this API.
//!
//! What was observed comes from the signed receipt and from nowhere else; without one it is `null`.

use mesh_protocol::api::job::{JobView, OutputView};
use mesh_protocol::evidence::dsse::Envelope;
use mesh_protocol::evidence::receipt::{Observed, Receipt};
use mesh_protocol::evidence::statement::Statement;

use super::documents::{
    Artifact, Attestation, Detail, EffectiveSpec, ExecutionPolicy, Outcome, RequestedSpec, Requirements,
    Summary,
};

impl Summary {
    pub(super) fn of(view: &JobView) -> Self {
        let result = view.result.as_ref();
        Self {
            job_id: view.job_id,
            language: view.language,
            status: view.status,
            terminal: view.terminal,
            principal_id: view.principal.clone(),
            minimum_isolation: view.minimum_isolation.name(),
            exit_code: result.and_then(|result| result.exit_code),
            killed_by: result.and_then(|result| result.killed_by.clone()),
            duration_ms: result.map(|result| result.duration_ms),
            created_at_ms: view.created_at_ms,
            updated_at_ms: view.updated_at_ms,
        }
    }
}

impl Detail {
    pub(super) fn of(view: JobView, envelope: Option<&[u8]>, tenant: String) -> Self {
        let receipt = envelope.and_then(receipt);
        let here = format!("/v1/jobs/{}", view.job_id);
        let observed = receipt.as_ref().and_then(|receipt| receipt.execution.observed.clone());
        let limits = observed.as_ref().and_then(|observed| observed.effective_limits.clone());
        Self {
            summary: Summary::of(&view),
            effective_spec: limits.or(view.effective_limits).map(|limits| EffectiveSpec {
                language: view.language,
                limits,
                runtime: view.runtime.clone(),
            }),
            requested_spec: RequestedSpec {
                language: view.language,
                limits: view.requested_limits,
                requirements: Requirements { minimum_isolation: view.minimum_isolation.name() },
                files: view.input_files,
                outputs: view.outputs,
                runtime: view.runtime,
            },
            execution_policy: observed.map(ExecutionPolicy::of).unwrap_or_default(),
            receipt_sha256: receipt.as_ref().map(|receipt| receipt.receipt_sha256.to_string()),
            receipt: receipt.and_then(|receipt| serde_json::to_value(receipt).ok()),
            attestation: Attestation {
                view: view.attestation,
                tenant,
                attestation_url: format!("{here}/attestation"),
                result_artifact_url: format!("{here}/result-artifact"),
            },
        }
    }
}

/// The receipt in an envelope that was verified when it arrived.
fn receipt(envelope: &[u8]) -> Option<Receipt> {
    let envelope = Envelope::parse(envelope).ok()?;
    Some(Statement::parse(&envelope.payload).ok()?.predicate.receipt)
}

impl ExecutionPolicy {
    fn of(observed: Observed) -> Self {
        Self {
            isolation_class: observed.isolation_class,
            bootstrap_ready: observed.bootstrap_ready,
            seccomp: observed.seccomp,
            networking: observed.networking,
            limit_enforcement: observed.limit_enforcement.and_then(|each| serde_json::to_value(each).ok()),
            runtime_version: observed.runtime_version,
            runtime_pack: observed.runtime_pack,
            policy_sha256: observed.policy_sha256.map(|digest| digest.to_string()),
        }
    }
}

impl Outcome {
    pub(super) fn of(view: JobView, artifacts: Vec<Artifact>) -> Self {
        let (job_id, status) = (view.job_id, view.status);
        let result = view.result.filter(|_| view.terminal);
        let violations = result.as_ref().and_then(|result| serde_json::to_value(&result.violations).ok());
        Self {
            job_id,
            status,
            violations: violations.unwrap_or_else(|| serde_json::Value::Array(Vec::new())),
            exit_code: result.as_ref().and_then(|result| result.exit_code),
            killed_by: result.as_ref().and_then(|result| result.killed_by.clone()),
            duration_ms: result.as_ref().map(|result| result.duration_ms),
            truncated: result.as_ref().is_some_and(|result| result.truncated),
            stdout: result.as_ref().map_or_else(String::new, |result| lines(&result.stdout)),
            stderr: result.map_or_else(String::new, |result| lines(&result.stderr)),
            artifacts,
        }
    }
}

/// The lines of an output joined by line feeds: the last one ends none.
fn lines(text: &str) -> String {
    text.strip_suffix('\n').unwrap_or(text).to_owned()
}

impl Artifact {
    pub(super) fn of(file: OutputView) -> Self {
        Self {
            path: file.path,
            content_base64: file.content_base64,
            size_bytes: file.size_bytes,
            sha256: file.sha256.to_string(),
        }
    }
}
