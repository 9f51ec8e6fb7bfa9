//! A job that somebody hands in, looked at as far as that needs no state: so that the thread that decides hashes
//! nothing.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::job::JobError;

use super::outline::Outline;
use super::submit::KIND;
use crate::broker::receipt;
use crate::store::{Store, StoreError};

/// A checked request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The request.
    pub request: RunRequest,
    /// What two requests for the same job have in common.
    pub fingerprint: Digest,
    /// The job without its texts.
    pub asked: Outline,
}

impl Submission {
    /// Checks a request.
    ///
    /// # Errors
    /// The code of the first [`JobError`]. Nothing was stored.
    pub fn of(request: RunRequest) -> Result<Self, ApiError> {
        request.spec.check().map_err(|error| refused(&error))?;
        let fingerprint = request.spec.fingerprint().map_err(|error| {
            ApiError::new(
                ErrorKind::Internal,
                "internal_error",
                format!("the job has no fingerprint: {error}"),
            )
        })?;
        let asked = Outline::of(&request.spec);
        Ok(Self { request, fingerprint, asked })
    }

    /// Bytes of it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.request.spec.bytes()
    }
}

/// What is said of a job that is none, when its tenant used its idempotency key before: nothing that was accepted can
/// be the same as what cannot be. `None` when the key is new, and what is wrong with the job is what is wrong.
///
/// # Errors
/// [`StoreError`].
pub fn reused_key(
    store: &dyn Store,
    tenant: &str,
    idempotency_key: Option<&str>,
) -> Result<Option<ApiError>, StoreError> {
    let Some(key) = idempotency_key else { return Ok(None) };
    Ok(receipt::is_used(store, (KIND, tenant), key)?.then(|| receipt::reused(key)))
}

/// A job's error as the API says it.
#[must_use]
pub fn refused(error: &JobError) -> ApiError {
    let kind = match error {
        JobError::IsolationUnsatisfied { .. } => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    };
    ApiError { retryable: false, ..ApiError::new(kind, error.code(), error.to_string()) }
}
