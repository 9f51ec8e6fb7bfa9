//! The pipe to the host: JSON-RPC lines in and out, as `rmcp` frames them, with two things it lacks.
//!
//! - The end of input is announced, so that running calls can be given a moment and then stopped.
//! - Before a lifecycle is chosen, `rmcp` takes anything but a request as a broken handshake and quits. A host that
//!   probes with `server/discover` may well cancel the probe, so until the first request that chooses one, everything
//!   that is not a request is dropped.

use std::future::Future;
use std::io;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetMeta, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::server::VERSIONS;

/// The pipe.
pub(crate) struct HostPipe<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    lines: AsyncRwTransport<RoleServer, R, W>,
    opened: bool,
    ended: CancellationToken,
}

impl<R, W> HostPipe<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A pipe that cancels `ended` at the end of input.
    pub(crate) fn new(reader: R, writer: W, ended: CancellationToken) -> Self {
        Self { lines: AsyncRwTransport::new(reader, writer), opened: false, ended }
    }
}

/// Whether this request chooses a lifecycle, as `rmcp` sees it.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().is_some_and(|version| VERSIONS.contains(&version))
        }
    }
}

impl<R, W> Transport<RoleServer> for HostPipe<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let Some(message) = self.lines.receive().await else {
                self.ended.cancel();
                return None;
            };
            if self.opened {
                return Some(message);
            }
            match &message {
                JsonRpcMessage::Request(request) => {
                    self.opened = opens(&request.request);
                    return Some(message);
                }
                _ => tracing::debug!("dropped a message that came before any request"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}
