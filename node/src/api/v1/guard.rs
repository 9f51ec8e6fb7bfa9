//! What every request to the job API passes before its handler, and what every answer gets on its way out.
//!
//! Nothing of a body is read here. The order is fixed: host and origin, room, credential, rate, scope, parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use hyper::body::Body as _;
use mesh_protocol::id::JobId;
use tokio::sync::Semaphore;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::Api;
use super::documents::{ErrorBody, ErrorDocument};
use super::failure::Refusal;
use super::keys::{Authority, Known, Tenancy};
use super::limits::BEARER_BYTES_MAX;
use super::route::{Access, Route};
use crate::api::Hosts;
use crate::api::gate::only;
use crate::service::Service;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is the same for every route, unknown ones included.
pub(super) struct Admission {
    hosts: Hosts,
    /// Requests that may still begin.
    requests: Semaphore,
}

impl Admission {
    pub(super) fn new(hosts: Hosts, requests_max: usize) -> Self {
        Self { hosts, requests: Semaphore::new(requests_max) }
    }
}

/// Whether the body of a request was read to its end. While it was not, the connection cannot be used again.
#[derive(Clone, Default)]
pub(super) struct BodyRead(Arc<AtomicBool>);

impl BodyRead {
    pub(super) fn note(parts: &Parts) {
        if let Some(Self(read)) = parts.extensions.get::<Self>() {
            read.store(true, Ordering::Relaxed);
        }
    }
}

/// Gives the answer its id (the caller's own is not used: it would be a way to forge log lines), its headers, and its
/// body if it is a refusal.
pub(super) async fn stamp(mut request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().to_string();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let has_body = request.body().size_hint().upper() != Some(0);
    let read = BodyRead::default();
    request.extensions_mut().insert(read.clone());
    let began = Instant::now();
    let mut response = next.run(request).await;
    let refused = response.extensions_mut().remove::<Refusal>();
    if let Some(refusal) = &refused {
        write(&mut response, refusal, &id);
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    if refused.is_some() && has_body && !read.0.load(Ordering::Relaxed) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    tracing::debug!(request = %id, %method, %path, status, ms, "answered");
    response
}

fn write(response: &mut Response, refusal: &Refusal, id: &str) {
    let error = ErrorDocument {
        code: refusal.code.clone(),
        message: refusal.message.clone(),
        request_id: id.to_owned(),
        retryable: refusal.retryable(),
    };
    let (parts, body) = Json(ErrorBody { error }).into_response().into_parts();
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        response.headers_mut().remove(&name);
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    *response.body_mut() = body;
}

/// Lets nothing in that was meant for another host or comes from another's page.
pub(super) async fn admit(
    State(admission): State<Arc<Admission>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    let host = only(headers, &header::HOST).filter(|host| admission.hosts.serves(host));
    let elsewhere =
        request.uri().authority().is_some_and(|authority| !admission.hosts.serves(authority.as_str()));
    if host.is_none() || elsewhere {
        return Err(Refusal::foreign("the request names a host that is not served here"));
    }
    let origin = only(headers, &header::ORIGIN).is_some_and(|origin| admission.hosts.serves_origin(origin));
    if headers.contains_key(header::ORIGIN) && !origin {
        return Err(Refusal::foreign("the request comes from a page of another origin"));
    }
    let full = |_| Refusal::unavailable("request_capacity", "too many requests are at work");
    let _room = admission.requests.try_acquire().map_err(full)?;
    Ok(next.run(request).await)
}

/// The handler of a route behind its rule.
pub(super) fn guard<S: Service>(
    route: Route,
    api: &Arc<Api<S>>,
    handler: MethodRouter<Arc<Api<S>>>,
) -> MethodRouter<Arc<Api<S>>> {
    handler.route_layer(from_fn_with_state((route, Arc::clone(api)), check::<S>))
}

async fn check<S: Service>(
    State((route, api)): State<(Route, Arc<Api<S>>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut tenant = None;
    let response = match let_in(route, &api, &mut request, &mut tenant).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    api.metrics.count(route, response.status(), tenant.as_deref());
    response
}

/// Whether a request may go on to its handler; on whose behalf is then with it.
async fn let_in<S: Service>(
    route: Route,
    api: &Api<S>,
    request: &mut Request,
    tenant: &mut Option<String>,
) -> Result<(), Refusal> {
    let known = match route.access() {
        Access::Anyone | Access::MetricsToken => None,
        Access::Key(scope) => Some((identify(&api.authorities, request.headers()).await?, scope)),
        Access::KeyOrTicket(scope) => {
            let by_ticket =
                ticket(request).filter(|_| !request.headers().contains_key(header::AUTHORIZATION));
            let tenancy = match by_ticket {
                Some((ticket, job)) => redeemed(api, ticket, job)?,
                None => identify(&api.authorities, request.headers()).await?,
            };
            Some((tenancy, scope))
        }
    };
    if let Some((tenancy, scope)) = known {
        *tenant = Some(tenancy.tenant.clone());
        if tenancy.rated && !api.rates.admits(&tenancy.tenant, Instant::now()) {
            let message = "this tenant has asked too often in the last minute";
            return Err(Refusal::too_many("rate_limit_exceeded", message));
        }
        if !tenancy.scopes.contains(&scope) {
            return Err(Refusal::insufficient(scope));
        }
        request.extensions_mut().insert(tenancy);
    }
    let query = request.uri().query().unwrap_or_default();
    let mut names =
        query.split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| pair.split('=').next());
    if let Some(unknown) = names.find(|name| !route.parameters().contains(name)) {
        let name: String = unknown.chars().take(40).collect();
        let message = format!("this route has no parameter `{name}`");
        return Err(Refusal::invalid("unknown_query_parameter", message));
    }
    Ok(())
}

/// The ticket in a query, and the job of the path it came with.
fn ticket(request: &Request) -> Option<(&str, Option<JobId>)> {
    let query = request.uri().query().unwrap_or_default();
    let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket="))?;
    let job = request.uri().path().split('/').nth(3).and_then(|id| id.parse().ok());
    Some((ticket, job))
}

fn redeemed<S>(api: &Api<S>, ticket: &str, job: Option<JobId>) -> Result<Tenancy, Refusal> {
    let tenancy = job.and_then(|job| api.tickets.redeem(ticket, job, Instant::now()));
    let message = "the ticket is not good for this job, or no longer";
    tenancy.ok_or_else(|| Refusal::unauthorized("invalid_stream_ticket", message, Some("invalid_token")))
}

/// Whose key the request carries. A credential that is there and wrong is another error than none.
async fn identify(authorities: &[Arc<dyn Authority>], headers: &HeaderMap) -> Result<Tenancy, Refusal> {
    if !headers.contains_key(header::AUTHORIZATION) {
        return Err(Refusal::unauthorized("missing_api_key", "this needs a key", None));
    }
    let text = only(headers, &header::AUTHORIZATION).filter(|text| text.len() <= BEARER_BYTES_MAX);
    let bearer = text.and_then(|text| text.split_once(' ')).map(|(scheme, token)| (scheme, token.trim()));
    let token = bearer.filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty());
    let Some((_, token)) = token else {
        let message = "the `Authorization` header is not one bearer token";
        return Err(Refusal::unauthorized("invalid_authorization", message, Some("invalid_request")));
    };
    // Whoever knows keys may look into files. No more do so at once than there may be requests.
    let (authorities, token) = (authorities.to_vec(), Zeroizing::new(token.to_owned()));
    let found = tokio::task::spawn_blocking(move || tenancy(&authorities, &token)).await;
    let refused =
        || Refusal::unauthorized("invalid_api_key", "the key is not good here", Some("invalid_token"));
    found.map_err(|_| Refusal::internal())?.ok_or_else(refused)
}

/// Whose token it is, by the first authority that knows its kind.
fn tenancy(authorities: &[Arc<dyn Authority>], token: &str) -> Option<Tenancy> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    for authority in authorities {
        match authority.look_up(token, now_ms) {
            Known::Tenancy(tenancy) => return Some(tenancy),
            Known::Refused => return None,
            Known::NotOurs => {}
        }
    }
    None
}
