//! What a handler takes from a request, with refusals in our shape: a JSON body, a part of the path, parameters.
//!
//! Invariant: nothing is read beyond its bound, and what is wrong is named (the field, the parameter, the id).

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::{self, Failure};
use super::limits::{BODY_BYTES_MAX, SEGMENT_BYTES_MAX, WAIT_SECONDS_MAX};
use super::{Api, Service};
use crate::service::{LIST_ROWS_DEFAULT, LIST_ROWS_MAX};

/// The body, as JSON of one known shape.
pub(crate) struct Document<T>(pub(crate) T);

impl<S: Service, T: DeserializeOwned> FromRequest<Arc<Api<S>>> for Document<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, api: &Arc<Api<S>>) -> Result<Self, Failure> {
        if !is_json(request.headers()) {
            return Err(failure::content_type());
        }
        let _room = api.bodies.try_acquire().map_err(|_| failure::busy("too many bodies are being read"))?;
        let bytes = read(request.into_body(), api.limits.body_within).await?;
        parse(&bytes).map(Self)
    }
}

/// Whether the one content type is JSON, whatever its parameters: JSON is UTF-8 (RFC 8259, section 8.1).
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next().map(HeaderValue::to_str), types.next()) else { return false };
    let essence = only.ok().and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

pub(super) async fn read(body: axum::body::Body, within: Duration) -> Result<Bytes, Failure> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > BODY_BYTES_MAX {
        return Err(failure::body_too_large(BODY_BYTES_MAX));
    }
    let whole = tokio::time::timeout(within, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    match whole.map_err(|_| failure::body_too_slow())? {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(failure::body_too_large(BODY_BYTES_MAX)),
        Err(_) => Err(failure::body_cut_short()),
    }
}

pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let reason = error.inner().to_string();
        match error.inner().is_data() {
            true => failure::field(&error.path().to_string(), &reason),
            false => failure::body_not_json(&reason),
        }
    })?;
    reader.end().map_err(|error| failure::body_not_json(&error.to_string()))?;
    Ok(value)
}

/// The one part of the path that varies.
pub(crate) struct Segment<T>(pub(crate) T);

impl<S: Service, T> FromRequestParts<Arc<Api<S>>> for Segment<T>
where
    T: FromStr<Err: Display>,
{
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api<S>>) -> Result<Self, Failure> {
        let text = Path::<String>::from_request_parts(parts, api).await;
        let Path(text) = text.map_err(|_| failure::path_segment("the path is not UTF-8"))?;
        if text.len() > SEGMENT_BYTES_MAX {
            return Err(failure::path_segment("a part of the path is too long to name anything"));
        }
        text.parse().map(Self).map_err(|error: T::Err| failure::path_segment(&error.to_string()))
    }
}

/// Query parameters of one known shape. The gate has refused unknown ones.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<S: Service, T: DeserializeOwned> FromRequestParts<Arc<Api<S>>> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api<S>>) -> Result<Self, Failure> {
        query(parts).map(Self)
    }
}

fn query<T: DeserializeOwned>(parts: &Parts) -> Result<T, Failure> {
    let parsed = axum::extract::Query::<T>::try_from_uri(&parts.uri);
    parsed.map(|axum::extract::Query(value)| value).map_err(|rejection| {
        let reason = std::error::Error::source(&rejection).map_or_else(String::new, ToString::to_string);
        failure::parameter(reason)
    })
}

/// How long the caller wants to wait: `wait_seconds`, 0 to [`WAIT_SECONDS_MAX`], 0 when absent.
pub(crate) struct Wait(pub(crate) Duration);

impl<S: Service> FromRequestParts<Arc<Api<S>>> for Wait {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api<S>>) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Given {
            #[serde(default)]
            wait_seconds: u64,
        }
        let Given { wait_seconds } = query(parts)?;
        if wait_seconds > WAIT_SECONDS_MAX {
            return Err(failure::parameter(format!("wait_seconds: 0 to {WAIT_SECONDS_MAX} are allowed")));
        }
        Ok(Self(Duration::from_secs(wait_seconds)))
    }
}

/// How many rows the caller wants: `limit`, 1 to [`LIST_ROWS_MAX`], [`LIST_ROWS_DEFAULT`] when absent.
pub(crate) struct Limit(pub(crate) usize);

impl<S: Service> FromRequestParts<Arc<Api<S>>> for Limit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api<S>>) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Given {
            limit: Option<usize>,
        }
        let limit = query::<Given>(parts)?.limit.unwrap_or(LIST_ROWS_DEFAULT);
        if !(1..=LIST_ROWS_MAX).contains(&limit) {
            return Err(failure::parameter(format!("limit: 1 to {LIST_ROWS_MAX} are allowed")));
        }
        Ok(Self(limit))
    }
}
