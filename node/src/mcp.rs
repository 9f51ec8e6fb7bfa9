//! The MCP adapter: how an agent's host (Claude Code, Codex, OpenCode, an editor) reaches the mesh.
//!
//! ```text
//! host ⇄ stdin/stdout ⇄ host pipe ⇄ server ⇄ call ⇄ client ⇄ Unix socket ⇄ node
//! ```
//! A process of its own that the host starts and ends. It keeps nothing but the keys of job submissions whose answer
//! got lost, decides nothing the node decides, and needs the node only when a tool is called: discovery and the list
//! of tools are answered while the node is down, a call then says what to do. Model Context Protocol, revisions
//! 2024-11-05 to 2026-07-28.
//!
//! Invariants:
//! - Arguments of a tool never choose an endpoint, a credential, a node or an isolation class.
//! - What the node accepted is never reported as an error: a wait that is over, or that broke, gives the id.
//! - Standard output carries JSON-RPC and nothing else; the log goes to standard error.
//! - Once the host closes our input or sends SIGTERM, the process is gone within a second.

mod arguments;
mod call;
mod daemon;
mod excerpt;
mod host;
pub mod limits;
mod options;
mod policy;
pub mod reconciliation;
mod report;
mod schema;
mod server;
mod submission;
mod tool;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use daemon::Daemon;
pub use options::{Options, OptionsError};
pub use policy::{Policy, PolicyError};

use call::Adapter;
use host::HostPipe;
use limits::{FINISH_WITHIN, STOP_WITHIN};
use server::Server;
use submission::Submissions;

/// Why a conversation with a host did not come about or broke.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The system has no randomness for keys.
    #[error("the system's random generator failed")]
    Random(#[source] rand::rngs::SysError),
    /// The system does not let us hear its signals.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
    /// The host and we could not agree to speak.
    #[error("the host's first messages make no session")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The server's own task failed.
    #[error("the server failed")]
    Task(#[source] tokio::task::JoinError),
}

/// Serves the host on standard input and output until it leaves or SIGTERM or SIGINT comes; all three are success.
///
/// The log goes where the process sends it, which must not be standard output. A read of standard input that cannot be
/// interrupted may be left behind, so the caller shuts its runtime down without waiting for it.
///
/// # Errors
/// As [`serve`].
pub async fn serve_stdio(options: Options) -> Result<(), ServeError> {
    let leave = CancellationToken::new();
    let mut term = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    let (reader, writer) = stdio_pipes();
    let mut served = std::pin::pin!(serve(options, reader, writer, leave.clone()));
    tokio::select! {
        served = served.as_mut() => return served,
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    leave.cancel();
    served.await
}

/// Serves one host on a pair of pipes until it closes `reader` or `leave` is cancelled, and is back within a second
/// of either. Leaving before anything was said, or after nothing but refusals, is no error.
///
/// # Errors
/// When the first messages make no session, or the process lacks something it needs.
pub async fn serve<R, W>(
    options: Options,
    reader: R,
    writer: W,
    leave: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let submissions = Submissions::new().map_err(ServeError::Random)?;
    let adapter = Adapter { daemon: options.daemon, policy: options.policy, submissions };
    let (ended, stop) = (CancellationToken::new(), CancellationToken::new());
    let pipe = HostPipe::new(reader, writer, ended.clone());
    let mut conversation = std::pin::pin!(converse(Server::new(adapter, stop.clone()), pipe));
    tokio::select! {
        biased;
        served = conversation.as_mut() => return served,
        () = leave.cancelled() => {}
        () = ended.cancelled() => {
            if let Ok(served) = timeout(FINISH_WITHIN, conversation.as_mut()).await {
                return served;
            }
        }
    }
    stop.cancel();
    // A host that left is owed nothing more; the calls only get to tell the node.
    let _ = timeout(STOP_WITHIN, conversation).await;
    Ok(())
}

async fn converse<R, W>(server: Server, pipe: HostPipe<R, W>) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    match server.serve(pipe).await {
        Ok(running) => running.waiting().await.map(drop).map_err(ServeError::Task),
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(ServeError::Handshake(Box::new(error))),
    }
}
