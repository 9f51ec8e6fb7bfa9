//! What the service is: its key, what jobs may be here, how it is, whose key the caller has.

use axum::extract::State;
use axum::{Extension, Json};
use ed25519_dalek::VerifyingKey;
use ed25519_dalek::pkcs8::EncodePublicKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use mesh_protocol::api::job::JobCapabilities;
use mesh_protocol::isolation::IsolationClass;

use super::documents::{
    Capabilities, Execution, Features, Health, PublicKey, Scheduler, Service as ServiceDocument,
    SignedAttestations, Whoami,
};
use super::failure::Refusal;
use super::request::{Caller, Shared};
use crate::service::{Principal, Service};

/// The key that this node signs with.
pub(super) async fn public_key<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
) -> Result<Json<PublicKey>, Refusal> {
    let attestations = api.answer(api.service.job_capabilities(&tenancy.who)).await?.attestations;
    let key = VerifyingKey::from_bytes(attestations.node.as_bytes()).map_err(|_| Refusal::internal())?;
    Ok(Json(PublicKey {
        algorithm: "Ed25519",
        key_id: attestations.key_id,
        public_key_pem: key.to_public_key_pem(LineEnding::LF).map_err(|_| Refusal::internal())?,
        notice: "to find the key, not to trust it: pin a key that reached you another way",
    }))
}

fn execution(capabilities: &JobCapabilities) -> Execution {
    let class = capabilities.isolation_classes.iter().max().copied();
    Execution {
        backend: match class {
            Some(IsolationClass::GvisorApplicationKernel) => Some("gvisor"),
            Some(IsolationClass::LinuxSharedKernel) => Some("namespaces"),
            _ => None,
        },
        isolation_class: class.map(IsolationClass::name),
        isolated: class.is_some(),
        networking: "disabled",
        unavailable: capabilities.unavailable.clone(),
    }
}

/// What jobs may be here.
pub(super) async fn capabilities<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
) -> Result<Json<Capabilities>, Refusal> {
    let known = api.answer(api.service.job_capabilities(&tenancy.who)).await?;
    Ok(Json(Capabilities {
        execution: execution(&known),
        version: known.version,
        languages: known.languages,
        limits: known.limits,
        features: Features {
            result_wait: true,
            cancellation: true,
            event_cursors: true,
            stream_tickets: true,
            receipts: true,
            signed_attestations: true,
        },
        attestations: SignedAttestations {
            enabled: true,
            algorithm: known.attestations.algorithm,
            key_id: known.attestations.key_id,
        },
        runtime_packs: known.runtimes,
    }))
}

/// How the service is.
pub(super) async fn status<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
) -> Result<Json<ServiceDocument>, Refusal> {
    let known = api.answer(api.service.job_capabilities(&tenancy.who)).await?;
    let status = api.answer(api.service.status(&tenancy.who)).await;
    let load = api.answer(api.service.job_load(&tenancy.who)).await?;
    Ok(Json(ServiceDocument {
        execution: execution(&known),
        version: known.version,
        uptime_ms: status.as_ref().map_or(0, |status| status.uptime_ms),
        environment: "production",
        scheduler: Scheduler {
            workers: known.slots,
            queue_capacity: load.queued_max,
            queue_depth: load.queued,
            running: load.running,
            storage_bytes: load.bytes,
            storage_bytes_max: load.bytes_max,
            shutting_down: api.stopping.is_cancelled(),
        },
        storage_ready: status.is_ok(),
    }))
}

/// Whose key this is.
pub(super) async fn whoami(Extension(tenancy): Caller) -> Json<Whoami> {
    Json(Whoami {
        tenant: tenancy.tenant,
        principal_id: tenancy.principal_id,
        credential_id: tenancy.credential_id,
        auth_method: tenancy.method,
        scopes: tenancy.scopes,
        expires_at_ms: tenancy.expires_at_ms,
    })
}

/// Signed tokens are not built, and those that look for them are told so.
pub(super) async fn no_identity_provider() -> Refusal {
    Refusal::missing("oauth_not_configured", "no identity provider is configured")
}

/// The process answers.
pub(super) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether jobs can be taken in. A listener is opened only when what an earlier process left was recovered.
pub(super) async fn ready<S: Service>(State(api): Shared<S>) -> Result<Json<Health>, Refusal> {
    if api.stopping.is_cancelled() {
        return Err(Refusal::shutting_down());
    }
    let unreadable = |_| Refusal::unavailable("storage_unavailable", "the node's state cannot be read now");
    api.answer(api.service.status(&Principal::Anonymous)).await.map_err(unreadable)?;
    Ok(Json(Health { status: "ready" }))
}
