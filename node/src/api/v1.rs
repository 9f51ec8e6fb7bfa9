//! The job API, version 1: what programs with a tenant's key use to run code, on a TCP port of the loopback interface
//! and, under a host name of its own, on the Unix socket.
//!
//! ```text
//! listener -> stamp: request id, headers, the one error shape -> admit: host, origin, room
//!          -> guard: whose key, rate, scope, parameters -> handler: room, body, Service -> answer
//! ```
//! It is another surface of the same [`Service`] as the node's own API and decides nothing about jobs. Its documents
//! are its own (`documents`), so that the node's may change without them.
//!
//! Invariants: every route comes from the table of [`route`], with who may use it; a body is read only after its sender
//! was let in and has room; what is another tenant's is answered exactly as what does not exist; every refusal has a
//! code, and only those that may pass with time say `Retry-After`.

mod account;
mod body;
mod documents;
mod failure;
mod guard;
mod handlers;
mod jobs;
pub mod keys;
pub mod limits;
pub mod metrics;
mod openapi;
mod rate;
mod request;
mod room;
pub mod route;
pub mod scope;
mod service;
mod stream;
mod tickets;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::Hosts;
use crate::service::Service;
use keys::Authority;
use limits::Limits;
use metrics::{Metrics, MetricsToken};
use rate::Rates;
use room::Room;
use route::Route;
use tickets::Tickets;

/// The host that means this API on the Unix socket, where [`super::UNIX_HOST`] means the node's own.
pub const UNIX_HOST: &str = "jobs.mesh.local";

/// What one listener of this API is made of.
#[derive(Debug)]
pub struct Surface {
    /// Who knows which credentials, asked in this order.
    pub authorities: Vec<Arc<dyn Authority>>,
    /// Who may see the figures of all; nobody when there is none.
    pub metrics_token: Option<MetricsToken>,
    /// The hosts it serves.
    pub hosts: Hosts,
    /// How much it does at once, and how patiently.
    pub limits: Limits,
    /// Cancelled when the node stops: waits end then.
    pub stopping: CancellationToken,
}

/// What the handlers share.
struct Api<S> {
    service: Arc<S>,
    authorities: Vec<Arc<dyn Authority>>,
    limits: Limits,
    rates: Rates,
    /// Bodies that may still be read into memory.
    bodies: Arc<Room>,
    /// Requests that may still wait for a job's end.
    waits: Arc<Room>,
    /// Large answers that may still be under way.
    answers: Arc<Room>,
    /// Streams that may still be open.
    streams: Arc<Room>,
    tickets: Tickets,
    metrics: Metrics,
    metrics_token: Option<MetricsToken>,
    stopping: CancellationToken,
}

/// The router of every route of [`Route::ALL`], for one listener.
pub fn router<S: Service>(service: Arc<S>, surface: Surface) -> Router {
    let Surface { authorities, metrics_token, hosts, limits, stopping } = surface;
    let api = Arc::new(Api {
        service,
        authorities,
        rates: Rates::new(limits.requests_per_minute),
        bodies: Room::new("submit_body_capacity", limits.bodies),
        waits: Room::new("result_wait_capacity", limits.waits),
        answers: Room::new("response_capacity", limits.answers),
        streams: Room::new("stream_capacity", limits.streams),
        tickets: Tickets::default(),
        metrics: Metrics::default(),
        metrics_token,
        limits,
        stopping,
    });
    let mut router = Router::new();
    for route in Route::ALL {
        let handler = guard::guard(route, &api, handlers::handler::<S>(route));
        router = router.route(route.path(), handler);
    }
    let admission = Arc::new(guard::Admission::new(hosts, limits.requests));
    router
        .fallback(failure::no_such_route)
        .method_not_allowed_fallback(failure::no_such_method)
        .layer(from_fn_with_state(admission, guard::admit))
        .layer(from_fn(guard::stamp))
        .with_state(api)
}

/// The node's own API, and this one beside it for requests to [`UNIX_HOST`].
pub fn beside(node: Router, jobs: Router) -> Router {
    node.layer(from_fn_with_state(jobs, by_host))
}

async fn by_host(State(mut jobs): State<Router>, request: Request, next: Next) -> Response {
    let ours = |host: &axum::http::HeaderValue| host.as_bytes().eq_ignore_ascii_case(UNIX_HOST.as_bytes());
    if !request.headers().get(header::HOST).is_some_and(ours) {
        return next.run(request).await;
    }
    match jobs.call(request).await {
        Ok(response) => response,
        Err(never) => never.into_response(),
    }
}
