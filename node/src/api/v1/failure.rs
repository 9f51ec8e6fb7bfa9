//! A refusal of the job API: status, code, sentence. Its body is written last, with the request's id.
//!
//! Where a status and a code are one is said here and nowhere else.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::job::JobError;

use super::scope::Scope;
use crate::api::failure::Failure;

/// Why not.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
    /// How to prove who one is, where that is what is missing (RFC 6750, section 3).
    challenge: Option<String>,
}

impl Refusal {
    fn new(status: StatusCode, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), challenge: None }
    }

    /// Whether the same request may succeed later.
    pub(super) fn retryable(&self) -> bool {
        self.status.is_server_error()
            || matches!(self.status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
    }

    pub(super) fn invalid(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(super) fn missing(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(super) fn too_many(code: impl Into<String>, message: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code, message)
    }

    pub(super) fn unavailable(code: &str, message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the node could not do this")
    }

    pub(super) fn shutting_down() -> Self {
        Self::unavailable("shutting_down", "the node is stopping")
    }

    /// What is not there, and what is another tenant's.
    pub(super) fn no_such_job() -> Self {
        Self::missing("job_not_found", "there is no such job")
    }

    pub(super) fn foreign(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "foreign_origin", message)
    }

    /// No credential, or one that is not good.
    pub(super) fn unauthorized(code: &str, message: &str, error: Option<&str>) -> Self {
        let challenge =
            error.map_or_else(|| "Bearer".to_owned(), |error| format!("Bearer error=\"{error}\""));
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, code, message) }
    }

    /// A good one that is not for this.
    pub(super) fn insufficient(scope: Scope) -> Self {
        let name = scope.name();
        let message = format!("the key does not have the scope `{name}`");
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{name}\"");
        Self { challenge: Some(challenge), ..Self::new(StatusCode::FORBIDDEN, "insufficient_scope", message) }
    }
}

impl From<JobError> for Refusal {
    fn from(error: JobError) -> Self {
        let status = match &error {
            JobError::IsolationUnsatisfied { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            sized if sized.is_about_size() => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.code(), error.to_string())
    }
}

/// The status of what the node says, where its code has one of its own.
fn status_of(error: &ApiError) -> StatusCode {
    match error.code.as_str() {
        "minimum_isolation_unsatisfied"
        | "runtime_unavailable"
        | "runtime_pack_unavailable"
        | "runtime_pack_requires_isolation"
        | "idempotency_key_reused" => return StatusCode::UNPROCESSABLE_ENTITY,
        code if code.starts_with("tenant_") => return StatusCode::TOO_MANY_REQUESTS,
        "storage_reserve" | "disk_full" => return StatusCode::INSUFFICIENT_STORAGE,
        _ => {}
    }
    match error.kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Refused => StatusCode::FORBIDDEN,
        ErrorKind::Ambiguous | ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Busy | ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        match error.code.as_str() {
            "job_not_found" => Self::no_such_job(),
            "node_busy" => Self::unavailable("scheduler_unavailable", "the node takes in no more work now"),
            "disk_full" => Self::new(status_of(&error), "storage_reserve", error.message),
            _ => Self::new(status_of(&error), error.code, error.message),
        }
    }
}

/// What reading a body met, under the names it has here.
impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let ApiError { code, message, .. } = failure.into_error();
        let (status, code) = match code.as_str() {
            "body_too_large" => (StatusCode::PAYLOAD_TOO_LARGE, "request_body_too_large"),
            "body_too_slow" => (StatusCode::REQUEST_TIMEOUT, "request_body_timeout"),
            "content_type_unsupported" => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            _ => (StatusCode::BAD_REQUEST, "invalid_json"),
        };
        Self::new(status, code, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        let challenge = self.challenge.as_ref().and_then(|text| HeaderValue::from_str(text).ok());
        challenge.map(|challenge| response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge));
        if self.retryable() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

pub(super) async fn no_such_route() -> Refusal {
    Refusal::missing("not_found", "there is no such route")
}

pub(super) async fn no_such_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this route does not know that method")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_node_says_has_the_status_of_its_code() {
        use ErrorKind::{Busy, Conflict, Internal, Invalid, NotFound, Unavailable};
        for (kind, code, status, retryable) in [
            (Unavailable, "minimum_isolation_unsatisfied", 422, false),
            (Unavailable, "runtime_unavailable", 422, false),
            (Unavailable, "runtime_pack_unavailable", 422, false),
            (Conflict, "idempotency_key_reused", 422, false),
            (Busy, "tenant_queue_saturated", 429, true),
            (Busy, "tenant_storage_quota", 429, true),
            (Busy, "queue_saturated", 503, true),
            (Busy, "storage_capacity", 503, true),
            (Unavailable, "shutting_down", 503, true),
            (Unavailable, "storage_reserve", 507, true),
            (NotFound, "job_not_found", 404, false),
            (NotFound, "attestation_unavailable", 404, false),
            (Invalid, "invalid_cursor", 400, false),
            (Internal, "internal_error", 500, true),
        ] {
            let refusal = Refusal::from(ApiError::new(kind, code, "no"));
            assert_eq!((refusal.status.as_u16(), refusal.code.as_str()), (status, code));
            assert_eq!(refusal.retryable(), retryable, "{code}");
            let after = refusal.into_response().headers().contains_key(header::RETRY_AFTER);
            assert_eq!(after, retryable, "{code}");
        }
    }
}
