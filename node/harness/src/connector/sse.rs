//! The older HTTP transport of MCP: a stream of server-sent events for one way, and requests for the other.
//!
//! ```text
//!   GET endpoint ──> event "endpoint": where to send ──> event "message": what the server says, one by one
//!   POST there   <── what we say, answered by 202 and nothing else
//! ```
//!
//! The address that the server names has to be of its own origin: our credentials go there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use eventsource_stream::{Event, Eventsource as _};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use reqwest::Client;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use thiserror::Error;
use url::Url;

use crate::limits::SERVER_MESSAGE_BYTES;

/// Why nothing comes or goes.
#[derive(Debug, Error)]
pub(super) enum SseError {
    /// A request failed.
    #[error("the request failed")]
    Request(#[source] reqwest::Error),
    /// The server refuses.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// What came is no stream of events, or ended too soon.
    #[error("the server did not say where to send messages")]
    NoEndpoint,
    /// It would have us send to somebody else.
    #[error("the server wants messages sent to another origin")]
    Elsewhere,
    /// Something it sends is too large, or cut off.
    #[error("the stream of the server broke")]
    Broken,
}

/// A connection.
pub(super) struct SseTransport {
    client: Client,
    headers: HeaderMap,
    /// Where to send.
    target: Url,
    events: BoxStream<'static, Result<Event, SseError>>,
}

impl SseTransport {
    /// Opens the stream and waits until the server says where to send.
    pub(super) async fn connect(client: Client, headers: HeaderMap, endpoint: Url) -> Result<Self, SseError> {
        let request =
            client.get(endpoint.clone()).headers(headers.clone()).header(ACCEPT, "text/event-stream");
        let response = request.send().await.map_err(|error| SseError::Request(error.without_url()))?;
        if !response.status().is_success() {
            return Err(SseError::Status(response.status().as_u16()));
        }
        let mut events = bounded(response.bytes_stream()).boxed();
        while let Some(event) = events.next().await {
            let event = event?;
            if event.event == "endpoint" {
                let target =
                    endpoint.join(event.data.trim()).map_err(|_not_an_address| SseError::NoEndpoint)?;
                if target.origin() != endpoint.origin() {
                    return Err(SseError::Elsewhere);
                }
                return Ok(Self { client, headers, target, events });
            }
        }
        Err(SseError::NoEndpoint)
    }
}

/// The events of a stream, none of which is larger than a message may be.
fn bounded<B: AsRef<[u8]>>(
    bytes: impl Stream<Item = Result<B, reqwest::Error>>,
) -> impl Stream<Item = Result<Event, SseError>> {
    // Counts what was read since the last event.
    let pending = Arc::new(AtomicUsize::new(0));
    let counted = pending.clone();
    let bytes = bytes.map(move |chunk| {
        let chunk = chunk.map_err(|_broken| SseError::Broken)?;
        let length = chunk.as_ref().len();
        let before = counted.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) > SERVER_MESSAGE_BYTES { Err(SseError::Broken) } else { Ok(chunk) }
    });
    bytes.eventsource().map(move |event| {
        pending.store(0, Ordering::Relaxed);
        event.map_err(|_broken| SseError::Broken)
    })
}

impl Transport<RoleClient> for SseTransport {
    type Error = SseError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let request = self.client.post(self.target.clone()).headers(self.headers.clone());
        let body = serde_json::to_vec(&message);
        async move {
            let body = body.map_err(|_never| SseError::Broken)?;
            let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
            let status = response.map_err(|error| SseError::Request(error.without_url()))?.status();
            if status.is_success() { Ok(()) } else { Err(SseError::Status(status.as_u16())) }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = self.events.next().await?.ok()?;
            if event.event != "message" {
                continue;
            }
            match serde_json::from_str(&event.data) {
                Ok(message) => return Some(message),
                Err(error) => tracing::debug!(%error, "a server sent what is no message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}
