//! A refusal as HTTP: which status each error has, and the one shape of its body.
//!
//! The service's errors and the API's own meet here, so a caller never sees a second format. The texts name what is
//! wrong and never repeat a credential.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use serde::{Deserialize, Serialize};

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Why.
    pub error: ApiError,
}

/// An error on its way out.
#[derive(Debug)]
pub(crate) struct Failure(ApiError);

impl Failure {
    /// The error itself, for who says it in another way.
    pub(super) fn into_error(self) -> ApiError {
        self.0
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

/// No credential, and the operation needs one.
const CREDENTIAL_MISSING: &str = "credential_missing";
/// A credential that is none of ours, or no longer.
const CREDENTIAL_UNKNOWN: &str = "credential_unknown";
const METHOD_NOT_ALLOWED: &str = "method_not_allowed";
const BODY_TOO_SLOW: &str = "body_too_slow";
const BODY_TOO_LARGE: &str = "body_too_large";
const CONTENT_TYPE: &str = "content_type_unsupported";

/// The status of an error: by its code where HTTP has a status of its own for it, otherwise by its kind.
fn status_of(error: &ApiError) -> StatusCode {
    match error.code.as_str() {
        CREDENTIAL_MISSING | CREDENTIAL_UNKNOWN => return StatusCode::UNAUTHORIZED,
        METHOD_NOT_ALLOWED => return StatusCode::METHOD_NOT_ALLOWED,
        BODY_TOO_SLOW => return StatusCode::REQUEST_TIMEOUT,
        BODY_TOO_LARGE => return StatusCode::PAYLOAD_TOO_LARGE,
        CONTENT_TYPE => return StatusCode::UNSUPPORTED_MEDIA_TYPE,
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

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let status = status_of(&error);
        let retryable = error.retryable;
        let mut response = (status, Json(ErrorBody { error })).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if retryable {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

fn failure(kind: ErrorKind, code: &str, message: impl Into<String>) -> Failure {
    Failure(ApiError::new(kind, code, message))
}

pub(crate) async fn no_such_route() -> Failure {
    failure(ErrorKind::NotFound, "no_such_route", "there is no such route")
}

pub(crate) async fn no_such_method() -> Failure {
    failure(ErrorKind::Invalid, METHOD_NOT_ALLOWED, "this route does not know that method")
}

pub(crate) fn foreign_host() -> Failure {
    failure(ErrorKind::Refused, "foreign_host", "the request names a host that is not served here")
}

pub(crate) fn foreign_origin() -> Failure {
    failure(ErrorKind::Refused, "foreign_origin", "the request comes from a page of another origin")
}

pub(crate) fn credential_missing() -> Failure {
    let error = ApiError::new(ErrorKind::Refused, CREDENTIAL_MISSING, "this needs a credential");
    Failure(error.hint("send the token of `tokens/operator` in the node's home, or the one in `MESH_TOKEN`"))
}

pub(crate) fn credential_unknown() -> Failure {
    let error =
        ApiError::new(ErrorKind::Refused, CREDENTIAL_UNKNOWN, "the credential is not one of this node's");
    Failure(
        error.hint("an agent's token ends with its run; the operator's is in `tokens/operator` of the home"),
    )
}

pub(crate) fn not_for_agents(operation: &str) -> Failure {
    let message = format!("an agent may not use `{operation}`");
    Failure(ApiError::new(ErrorKind::Refused, "operator_only", message).hint("ask the node's operator"))
}

pub(crate) fn busy(message: &str) -> Failure {
    failure(ErrorKind::Busy, "busy", message)
}

pub(crate) fn no_answer_in_time() -> Failure {
    failure(
        ErrorKind::Unavailable,
        "no_answer_in_time",
        "the node did not finish in time; it may still do so",
    )
}

pub(crate) fn stopping() -> Failure {
    failure(ErrorKind::Unavailable, "stopping", "the node is stopping")
}

pub(crate) fn content_type() -> Failure {
    failure(ErrorKind::Invalid, CONTENT_TYPE, "the body must be `application/json`")
}

pub(crate) fn body_too_large(max: usize) -> Failure {
    failure(ErrorKind::Invalid, BODY_TOO_LARGE, format!("the body has more than {max} bytes"))
}

pub(crate) fn body_too_slow() -> Failure {
    failure(ErrorKind::Unavailable, BODY_TOO_SLOW, "the body did not arrive in time")
}

pub(crate) fn body_cut_short() -> Failure {
    failure(ErrorKind::Invalid, "body_cut_short", "the body ended early")
}

pub(crate) fn body_not_json(reason: &str) -> Failure {
    failure(ErrorKind::Invalid, "body_not_json", format!("the body is not JSON: {reason}"))
}

pub(crate) fn field(path: &str, reason: &str) -> Failure {
    failure(ErrorKind::Invalid, "field_invalid", format!("`{path}`: {reason}"))
}

pub(crate) fn path_segment(reason: &str) -> Failure {
    failure(ErrorKind::Invalid, "path_invalid", reason)
}

pub(crate) fn parameter(reason: impl Into<String>) -> Failure {
    failure(ErrorKind::Invalid, "parameter_invalid", reason)
}
