//! The HTTP API of a node: one router, put on whatever listener.
//!
//! ```text
//! listener -> gate: request id, host and origin, room, who is calling -> operation: may they, which parameters
//!          -> routes: body, path, query -> Service -> answer or `{"error": ...}`
//! ```
//! Everything a caller sends is hostile until it went through here. The API keeps no state of its own but the session
//! tokens, and decides nothing that is not about HTTP: the [`Service`] does.
//!
//! Invariants: every route comes from the table of [`operation`], so none is without its access rule; a body is read
//! only after its sender was allowed in; every refusal, from wherever, has the one error shape.

mod extract;
mod failure;
mod gate;
pub mod limits;
pub mod listener;
pub mod operation;
mod routes;
pub mod tokens;
pub mod v1;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use mesh_protocol::api::error::ApiError;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::service::Service;
use failure::Failure;
use limits::Limits;
use operation::Operation;
use tokens::Tokens;

pub use failure::ErrorBody;

/// The host a client names on the Unix socket, where there is no real one.
pub const UNIX_HOST: &str = "mesh.local";

/// The header that tells which version of the documents a node speaks, on every answer.
pub const SCHEMA_HEADER: &str = "mesh-schema";

/// The hosts a listener serves. A request for any other, or sent by a page of any other origin, is refused: this is
/// what keeps web pages, and names that were rebound to this machine, out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// What a Unix socket serves.
    #[must_use]
    pub fn unix() -> Self {
        Self(vec![UNIX_HOST.to_owned()])
    }

    /// One host of this name.
    #[must_use]
    pub fn named(host: &str) -> Self {
        Self(vec![host.to_owned()])
    }

    /// What a listener on the loopback interface serves.
    #[must_use]
    pub fn loopback(port: u16) -> Self {
        Self(vec![format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("localhost:{port}")])
    }

    fn serves(&self, host: &str) -> bool {
        self.0.iter().any(|served| served.eq_ignore_ascii_case(host))
    }

    fn serves_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.serves(host))
    }
}

/// What one listener of the API is made of.
#[derive(Debug)]
pub struct Surface {
    /// The credentials it knows.
    pub tokens: Arc<Tokens>,
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
    limits: Limits,
    /// Bodies that may still be read into memory.
    bodies: Semaphore,
    /// Requests that may still begin to wait.
    waits: Semaphore,
    stopping: CancellationToken,
}

impl<S: Service> Api<S> {
    /// The service's answer, if it comes within `wait` and the usual time, and before the node stops.
    async fn answer<T>(
        &self,
        wait: Duration,
        answer: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, Failure> {
        let waits = !wait.is_zero();
        let _room = if waits {
            Some(self.waits.try_acquire().map_err(|_| failure::busy("too many callers are waiting"))?)
        } else {
            None
        };
        tokio::select! {
            biased;
            answered = tokio::time::timeout(wait + self.limits.answer_within, answer) => {
                answered.map_err(|_| failure::no_answer_in_time())?.map_err(Failure::from)
            }
            () = self.stopping.cancelled(), if waits => Err(failure::stopping()),
        }
    }
}

/// The router of every operation of [`Operation::ALL`], for one listener.
pub fn router<S: Service>(service: Arc<S>, surface: Surface) -> Router {
    let Surface { tokens, hosts, limits, stopping } = surface;
    let (bodies, waits) = (Semaphore::new(limits.bodies), Semaphore::new(limits.waits));
    let api = Arc::new(Api { service, limits, bodies, waits, stopping });
    let mut router = Router::new();
    for operation in Operation::ALL {
        let handler = gate::guard(operation, routes::handler::<S>(operation));
        router = router.route(operation.path(), handler);
    }
    let router = router.fallback(failure::no_such_route).method_not_allowed_fallback(failure::no_such_method);
    gate::Gate::new(tokens, hosts, limits.requests).before(router.with_state(api))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_only_this_port_of_this_machine_is_served() {
        let hosts = Hosts::loopback(4711);
        for host in ["127.0.0.1:4711", "[::1]:4711", "LocalHost:4711"] {
            assert!(hosts.serves(host) && hosts.serves_origin(&format!("http://{host}")), "{host}");
        }
        for host in ["localhost", "localhost:47110", "localhost:4711.example.org", "mesh.local", ""] {
            assert!(!hosts.serves(host) && !hosts.serves_origin(&format!("http://{host}")), "{host}");
        }
    }
}
