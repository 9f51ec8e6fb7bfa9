//! Serves the capabilities of one run to a program: MCP by HTTP on loopback, behind a token of that run alone.
//!
//! The program needs no script and inherits no key. That it asked for the list of tools is noted: an engine whose program
//! never did has run without its capabilities, and its run fails.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any_service;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::CapabilityTool;
use super::surface::Surface;
use crate::limits::{SURFACE_REQUEST_BYTES, SURFACE_SESSIONS, SURFACE_TOKEN_BYTES};
use crate::secret::Secret;

/// Where the surface is below its address.
const PATH: &str = "/mcp";

/// The capabilities of one run, served. Dropping it closes it.
#[derive(Debug)]
pub struct CapabilityServer {
    address: SocketAddr,
    token: Secret,
    was_contacted: Arc<AtomicBool>,
    open: CancellationToken,
    serving: JoinHandle<()>,
}

impl CapabilityServer {
    /// Serves `tools` on a free port of loopback.
    ///
    /// # Errors
    /// What the system says when there is no port.
    pub async fn start(tools: Vec<CapabilityTool>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let token = new_token();
        let open = CancellationToken::new();
        let was_contacted = Arc::new(AtomicBool::new(false));
        let noted = was_contacted.clone();
        let surface = Surface::new(tools, move || noted.store(true, Ordering::SeqCst));
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(open.clone())
            .with_sse_retry(None)
            .with_max_request_body_bytes(SURFACE_REQUEST_BYTES);
        let seats = Arc::new(Semaphore::new(SURFACE_SESSIONS));
        let service =
            StreamableHttpService::new(move || surface.seated(&seats), Arc::new(sessions()), config);
        let gate = Gate { expected: Secret::new(format!("Bearer {}", token.expose())), open: open.clone() };
        let router =
            Router::new().route(PATH, any_service(service)).layer(from_fn_with_state(Arc::new(gate), pass));
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::debug!(%error, "a capability surface is not served any more");
            }
        });
        Ok(Self { address, token, was_contacted, open, serving })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// What a program has to show.
    #[must_use]
    pub fn token(&self) -> &Secret {
        &self.token
    }

    /// Whether somebody who showed the token has asked for the list of tools.
    #[must_use]
    pub fn was_contacted(&self) -> bool {
        self.was_contacted.load(Ordering::SeqCst)
    }
}

impl Drop for CapabilityServer {
    fn drop(&mut self) {
        // Connections outlive the listener; the gate lets nobody through them any more.
        self.open.cancel();
        self.serving.abort();
    }
}

/// Sessions that last as long as the run, however long a model thinks, and whose streams begin with a message: Gemini CLI
/// 0.61 takes the empty event, which tells clients when to come back, for a broken message and hangs up.
fn sessions() -> LocalSessionManager {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = None;
    sessions.session_config.sse_retry = None;
    sessions
}

/// Bytes nobody can guess, as text.
fn new_token() -> Secret {
    let bytes: [u8; SURFACE_TOKEN_BYTES] = rand::random();
    Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Who may come in, and until when.
struct Gate {
    expected: Secret,
    open: CancellationToken,
}

async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
    if gate.open.is_cancelled() {
        return StatusCode::GONE.into_response();
    }
    if !is_same(shown, gate.expected.expose().as_bytes()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    next.run(request).await
}

/// Whether two texts are the same, in a time that does not depend on where they differ.
fn is_same(shown: &[u8], expected: &[u8]) -> bool {
    let differing = shown.iter().zip(expected).fold(0, |differing, (a, b)| differing | (a ^ b));
    shown.len() == expected.len() && differing == 0
}
