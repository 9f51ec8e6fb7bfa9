//! What every request passes before its handler: request id, host and origin, room, who is calling, may they.
//!
//! Nothing of the body is read here. A refusal costs one look at the headers.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use mesh_protocol::api::SCHEMA_VERSION;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::failure::{self, Failure};
use super::limits::CREDENTIAL_BYTES_MAX;
use super::operation::Operation;
use super::tokens::Tokens;
use super::{Api, Hosts, SCHEMA_HEADER, Service};
use crate::service::Principal;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The part of the gate that is the same for every route, unknown ones included.
pub(crate) struct Gate {
    tokens: Arc<Tokens>,
    hosts: Hosts,
    /// Requests that may still begin.
    requests: Semaphore,
}

impl Gate {
    pub(crate) fn new(tokens: Arc<Tokens>, hosts: Hosts, requests_max: usize) -> Self {
        Self { tokens, hosts, requests: Semaphore::new(requests_max) }
    }

    /// The router behind this gate.
    pub(crate) fn before(self, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::new(self), admit)).layer(from_fn(stamp))
    }

    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Failure> {
        let host = only(headers, &header::HOST).ok_or_else(failure::foreign_host)?;
        // A request line may name a host of its own (RFC 9112, section 3.2.2).
        let elsewhere = uri.authority().is_some_and(|authority| !self.hosts.serves(authority.as_str()));
        if elsewhere || !self.hosts.serves(host) {
            return Err(failure::foreign_host());
        }
        if !headers.contains_key(header::ORIGIN) {
            return Ok(());
        }
        match only(headers, &header::ORIGIN) {
            Some(origin) if self.hosts.serves_origin(origin) => Ok(()),
            _ => Err(failure::foreign_origin()),
        }
    }

    /// Who is calling. A credential that is there and wrong is an error, not the same as none.
    fn identify(&self, headers: &HeaderMap) -> Result<Principal, Failure> {
        if !headers.contains_key(header::AUTHORIZATION) {
            return Ok(Principal::Anonymous);
        }
        let credential =
            only(headers, &header::AUTHORIZATION).filter(|text| text.len() <= CREDENTIAL_BYTES_MAX);
        let token = credential
            .and_then(|text| text.split_once(' '))
            .and_then(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()));
        token.and_then(|token| self.tokens.principal(token)).ok_or_else(failure::credential_unknown)
    }
}

/// The value of a header that must be there exactly once.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

async fn admit(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Result<Response, Failure> {
    gate.check_host(request.headers(), request.uri())?;
    let _room = gate.requests.try_acquire().map_err(|_| failure::busy("too many requests are at work"))?;
    let principal = gate.identify(request.headers())?;
    request.extensions_mut().insert(principal);
    Ok(next.run(request).await)
}

/// Gives the answer its id (the caller's own is not used: it would be a way to forge log lines) and the headers every
/// answer has.
async fn stamp(request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().to_string();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(SCHEMA_HEADER, HeaderValue::from(SCHEMA_VERSION));
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    tracing::debug!(request = %id, %method, %path, status, ms, "answered");
    response
}

/// The handler of an operation behind its rule.
pub(crate) fn guard<S: Service>(
    operation: Operation,
    handler: MethodRouter<Arc<Api<S>>>,
) -> MethodRouter<Arc<Api<S>>> {
    handler.route_layer(from_fn_with_state(operation, check))
}

async fn check(State(operation): State<Operation>, request: Request, next: Next) -> Response {
    match may_begin(operation, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn may_begin(operation: Operation, request: &Request) -> Result<(), Failure> {
    let principal = request.extensions().get::<Principal>().unwrap_or(&Principal::Anonymous);
    if !operation.allows(principal) {
        return Err(match principal {
            Principal::Anonymous => failure::credential_missing(),
            Principal::Agent { .. } | Principal::Tenant { .. } | Principal::Operator => {
                failure::not_for_agents(operation.name())
            }
        });
    }
    let query = request.uri().query().unwrap_or_default();
    let names =
        query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap_or(pair));
    for name in names {
        if !operation.parameters().contains(&name) {
            let name: String = name.chars().take(40).collect();
            return Err(failure::parameter(format!("this route has no parameter `{name}`")));
        }
    }
    Ok(())
}
