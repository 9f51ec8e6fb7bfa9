//! The connections to one node between their requests.
//!
//! A connection is used again only when the last answer on it was read to its end. A request that a connection could
//! not take any more was not sent, and goes over a new one; one that was sent and not answered is never sent twice.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;

use super::error::ClientError;
use crate::api::limits::{CONNECTION_WITHIN, HEAD_WITHIN};

/// Connections kept between requests. More are closed after theirs.
const IDLE_MAX: usize = 128;
/// A connection that rested longer is not used again: the node may be closing it at this moment.
const IDLE_WITHIN: Duration = Duration::from_secs(HEAD_WITHIN.as_secs() / 3);
/// Nor is one that is older, for the same reason.
const AGE_MAX: Duration = Duration::from_secs(CONNECTION_WITHIN.as_secs() / 2);

/// A connection, with the task that moves its bytes. Dropped, it is closed.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    begun: Instant,
    _moving: AbortOnDropHandle<hyper::Result<()>>,
}

impl Connection {
    pub(super) async fn over(stream: UnixStream) -> Result<Self, ClientError> {
        let (sender, moving) = handshake(TokioIo::new(stream)).await.map_err(ClientError::Broken)?;
        Ok(Self { sender, begun: Instant::now(), _moving: AbortOnDropHandle::new(tokio::spawn(moving)) })
    }

    /// Sends a request and gives the head of its answer; or the request back, when it was not sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Result<Response<Incoming>, Request<Full<Bytes>>>, ClientError> {
        if self.sender.ready().await.is_err() {
            return Ok(Err(request));
        }
        match self.sender.try_send_request(request).await {
            Ok(response) => Ok(Ok(response)),
            Err(mut error) => match error.take_message() {
                Some(request) => Ok(Err(request)),
                None => Err(ClientError::Broken(error.into_error())),
            },
        }
    }
}

/// Connections that rest, the last used on top.
#[derive(Default)]
pub(super) struct Connections(Mutex<Vec<(Instant, Connection)>>);

impl Connections {
    /// One that may still be good.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, connection)| {
            since.elapsed() < IDLE_WITHIN
                && connection.begun.elapsed() < AGE_MAX
                && !connection.sender.is_closed()
        });
        idle.pop().map(|(_, connection)| connection)
    }

    /// Keeps one whose last answer was read to its end.
    pub(super) fn keep(&self, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push((Instant::now(), connection));
        }
    }
}
