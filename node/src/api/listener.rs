//! What the APIs are served on: a Unix socket, and a TCP port of the loopback interface where the operator wants one.
//!
//! Knows connections, not requests. The caller holds the node's lock, so a socket file that is already there was left
//! by a node that died, unless something answers on it.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::serve::{Listener, ListenerExt};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use super::limits::{
    CONNECTION_WITHIN, CONNECTIONS_MAX, DRAIN_WITHIN, HEAD_BYTES_MAX, HEAD_WITHIN, HEADERS_MAX,
};
use crate::limits::SOCKET_PATH_BYTES_MAX;

/// Why there is no socket to serve on.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The system would cut the path.
    #[error("the socket's path has {bytes} bytes, {SOCKET_PATH_BYTES_MAX} are possible: {}", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// Something answers there.
    #[error("another process serves {}", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// There is a file that is not a socket. We did not put it there, so it stays.
    #[error("{} is there and is not a socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ListenError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::PathTooLong { .. } => "set MESH_HOME or XDG_RUNTIME_DIR to a shorter path".to_owned(),
            Self::Taken { .. } => "end that process, or set MESH_HOME to another directory".to_owned(),
            Self::NotASocket { path } => format!("move {} away", path.display()),
            Self::Bind { .. } => "check that the directory is writable and not on a full disk".to_owned(),
        }
    }
}

/// Listens on `path`, for this user only. Replaces a dead socket.
///
/// The folder must be this user's own (mode 0700): between `bind` and `chmod` the socket has the mode the umask gave.
///
/// # Errors
/// When the path cannot be used or something else is there. Must be called within a Tokio runtime.
pub fn bind(path: &Path) -> Result<UnixListener, ListenError> {
    let failed = |source| ListenError::Bind { path: path.to_owned(), source };
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(ListenError::PathTooLong { path: path.to_owned(), bytes });
    }
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(ListenError::NotASocket { path: path.to_owned() });
        }
        Ok(_) if BlockingStream::connect(path).is_ok() => {
            return Err(ListenError::Taken { path: path.to_owned() });
        }
        Ok(_) => std::fs::remove_file(path).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Listens on a TCP address. Packets are sent as they are written: answers are small.
///
/// # Errors
/// What the system says. Must be called within a Tokio runtime.
pub fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves a TCP port, as [`serve`] does.
pub async fn serve_tcp(listener: TcpListener, router: Router, stopping: CancellationToken) {
    let prompt = listener.tap_io(|stream| {
        // Refused only for a connection that is gone.
        let _ = stream.set_nodelay(true);
    });
    serve(prompt, router, stopping).await;
}

/// Serves until `stopping` is cancelled, then gives answers that are being written [`DRAIN_WITHIN`].
pub async fn serve(mut listener: impl Listener, router: Router, stopping: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, (stream, _)) = tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            accepted = accepted => accepted,
        };
        let (router, stopping) = (router.clone(), stopping.clone());
        connections.spawn(async move {
            converse(stream, router, stopping).await;
            drop(place);
        });
    }
    connections.close();
    connections.wait().await;
}

/// One connection, from its first request to its close. An error here is the caller's: it hung up, or sent what is
/// not HTTP, and has been told so where possible.
async fn converse<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: I,
    router: Router,
    stopping: CancellationToken,
) {
    let service = hyper::service::service_fn(move |request| router.clone().call(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stopping.cancelled() => {}
        () = tokio::time::sleep(CONNECTION_WITHIN) => {}
    }
    connection.as_mut().graceful_shutdown();
    let drained = tokio::time::timeout(DRAIN_WITHIN, connection).await;
    tracing::trace!(in_time = drained.is_ok(), "closed a connection");
}
