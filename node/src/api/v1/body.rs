//! What a handler takes from a request: the body of a job, its idempotency key, a job's id, query parameters.
//!
//! Invariant: nothing is read beyond its bound, and what is wrong has a code of its own.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use mesh_protocol::id::JobId;
use mesh_protocol::job::JobDocument;

use super::Api;
use super::failure::Refusal;
use super::guard::BodyRead;
use super::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use crate::api::{extract, failure as node_failure};
use crate::service::Service;

/// The job in a body, and the headers it came with.
pub(super) async fn job<S: Service>(
    request: Request,
    api: &Api<S>,
) -> Result<(JobDocument, HeaderMap), Refusal> {
    let (parts, body) = request.into_parts();
    if !extract::is_json(&parts.headers) {
        return Err(node_failure::content_type().into());
    }
    let bytes = extract::read(body, api.limits.body_within).await?;
    BodyRead::note(&parts);
    Ok((extract::parse(&bytes)?, parts.headers))
}

/// The caller's own key for this submission, if it gave one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bytes = value.as_bytes();
    let plain =
        (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    match value.to_str() {
        Ok(text) if plain && values.next().is_none() => Ok(Some(text.to_owned())),
        _ => {
            let message = format!(
                "`Idempotency-Key` is given once, with 1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible ASCII characters"
            );
            Err(Refusal::invalid("invalid_idempotency_key", message))
        }
    }
}

/// The job a path names. What is no id names no job.
pub(super) struct Job(pub(super) JobId);

impl<S: Service> FromRequestParts<Arc<Api<S>>> for Job {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api<S>>) -> Result<Self, Refusal> {
        let text = Path::<String>::from_request_parts(parts, api).await;
        let id = text.ok().and_then(|Path(text)| text.parse().ok());
        id.map(Self).ok_or_else(Refusal::no_such_job)
    }
}

/// Query parameters, each at most once.
pub(super) struct Query(Vec<(String, String)>);

impl<S: Service> FromRequestParts<Arc<Api<S>>> for Query {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api<S>>) -> Result<Self, Refusal> {
        let unreadable =
            || Refusal::invalid("invalid_query", "the query cannot be read, or names something twice");
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Ok(axum::extract::Query(pairs)) = pairs else { return Err(unreadable()) };
        let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
            return Err(unreadable());
        }
        Ok(Self(pairs))
    }
}

impl Query {
    /// The text of a parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter within bounds, or the error `invalid_<name>`.
    pub(super) fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        name: &str,
        code: &str,
        (least, most): (T, T),
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse::<T>() {
            Ok(number) if (&least..=&most).contains(&&number) => Ok(Some(number)),
            _ => Err(Refusal::invalid(code, format!("`{name}` is a number from {least} to {most}"))),
        }
    }
}
