//! Hello and HelloAck: the step from "TLS is up" to "both ends talk".
//!
//! ```text
//!   dialler                                       listener
//!     TLS done, certificate of the peer checked
//!     Hello on its first stream ───────────────>  TLS done, certificate of the peer checked
//!                                                 Hello names the certificate's owner and this mesh, a common version
//!     HelloAck names the certificate's owner <──  HelloAck
//!     connected                                   connected
//! ```
//! Whoever finds a step wrong closes the connection with a [`CloseCode`]; the other end reads it as the reason.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use mesh_node_core::links::ConnectionKey;
use mesh_protocol::close::CloseCode;
use mesh_protocol::codec;
use mesh_protocol::hello::{Hello, HelloAck, MINORS, common_minor};
use mesh_protocol::id::{MeshId, NodeId};
use mesh_protocol::limits::CONTROL_FRAME_BYTES_MAX;
use mesh_protocol::record::RecordVersion;
use mesh_protocol::stream::StreamKind;

use super::Settings;
use super::connection::Agreement;
use super::line::Line;
use super::stream::{StreamError, halves};

/// What is said instead of an address where there is none.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// What this end says of itself in a greeting.
#[derive(Debug, Clone)]
pub(super) struct Introduction {
    pub(super) node: NodeId,
    pub(super) mesh: MeshId,
    pub(super) record: RecordVersion,
    /// Whether these are greetings of relayed connections.
    pub(super) relayed: bool,
    pub(super) settings: Settings,
}

/// Why a greeting failed.
#[derive(Debug)]
pub(super) enum GreetingError {
    /// This end does not like what it heard, and closes with this.
    Unfit(CloseCode),
    /// The connection or its first stream ended.
    Ended(StreamError),
}

impl From<StreamError> for GreetingError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::TooLong(_) | StreamError::Truncated => Self::Unfit(CloseCode::Protocol),
            other => Self::Ended(other),
        }
    }
}

impl Introduction {
    /// The dialler's side.
    pub(super) async fn greet(
        &self,
        line: &Arc<Line>,
        peer: NodeId,
        number: u64,
    ) -> Result<Agreement, GreetingError> {
        let opened = line.quic.open_bi().await;
        let stream = opened.map_err(|error| StreamError::Lost(line.reason(&error)))?;
        let (mut sender, mut receiver) = halves(line, stream, CONTROL_FRAME_BYTES_MAX);
        sender.send_raw(&[StreamKind::Control.byte()]).await?;
        sender.send_frame(&codec::encode(&self.hello(number)), CONTROL_FRAME_BYTES_MAX).await?;
        sender.finish()?;
        let bytes = receiver.receive_frame(CONTROL_FRAME_BYTES_MAX).await?.ok_or(StreamError::Truncated)?;
        let ack: HelloAck = codec::decode(&bytes).map_err(|_| GreetingError::Unfit(CloseCode::Protocol))?;
        self.judge_ack(&ack, peer, number)
    }

    /// The listener's side.
    pub(super) async fn answer(&self, line: &Arc<Line>, peer: NodeId) -> Result<Agreement, GreetingError> {
        let opened = line.quic.accept_bi().await;
        let stream = opened.map_err(|error| StreamError::Lost(line.reason(&error)))?;
        let (mut sender, mut receiver) = halves(line, stream, CONTROL_FRAME_BYTES_MAX);
        if receiver.receive_raw(1).await? != [StreamKind::Control.byte()] {
            return Err(GreetingError::Unfit(CloseCode::Protocol));
        }
        let bytes = receiver.receive_frame(CONTROL_FRAME_BYTES_MAX).await?.ok_or(StreamError::Truncated)?;
        let hello: Hello = codec::decode(&bytes).map_err(|_| GreetingError::Unfit(CloseCode::Protocol))?;
        let agreement = self.judge_hello(&hello, peer)?;
        // A path's address means nothing at the other end.
        let observed = if self.relayed { NOWHERE } else { line.quic.remote_address() };
        let ack = self.ack(&agreement, observed);
        sender.send_frame(&codec::encode(&ack), CONTROL_FRAME_BYTES_MAX).await?;
        sender.finish()?;
        Ok(agreement)
    }

    fn hello(&self, number: u64) -> Hello {
        Hello {
            minors: MINORS,
            features: self.settings.features,
            mesh: self.mesh,
            node: self.node,
            boot: self.settings.boot,
            dial: number,
            record: self.record,
            frame_bytes_max: self.settings.frame_bytes_max,
        }
    }

    fn ack(&self, agreement: &Agreement, observed: SocketAddr) -> HelloAck {
        HelloAck {
            minor: agreement.minor,
            features: agreement.features,
            node: self.node,
            boot: self.settings.boot,
            record: self.record,
            frame_bytes_max: self.settings.frame_bytes_max,
            observed,
        }
    }

    fn judge_hello(&self, hello: &Hello, peer: NodeId) -> Result<Agreement, GreetingError> {
        // Our own identity at the other end is a copy of this node's key, or this node itself.
        if hello.node != peer || hello.mesh != self.mesh || peer == self.node {
            return Err(GreetingError::Unfit(CloseCode::FalseHello));
        }
        let minor =
            common_minor(MINORS, hello.minors).ok_or(GreetingError::Unfit(CloseCode::Incompatible))?;
        Ok(Agreement {
            peer,
            key: ConnectionKey { dialler: peer, number: hello.dial, relayed: self.relayed },
            boot: hello.boot,
            minor,
            features: self.settings.features.common(hello.features),
            record: hello.record,
            frame_bytes_max: usize::try_from(hello.frame_bytes_max).unwrap_or(usize::MAX),
            observed: None,
        })
    }

    fn judge_ack(&self, ack: &HelloAck, peer: NodeId, number: u64) -> Result<Agreement, GreetingError> {
        if ack.node != peer {
            return Err(GreetingError::Unfit(CloseCode::FalseHello));
        }
        if !(MINORS.min..=MINORS.max).contains(&ack.minor) {
            return Err(GreetingError::Unfit(CloseCode::Incompatible));
        }
        Ok(Agreement {
            peer,
            key: ConnectionKey { dialler: self.node, number, relayed: self.relayed },
            boot: ack.boot,
            minor: ack.minor,
            features: self.settings.features.common(ack.features),
            record: ack.record,
            frame_bytes_max: usize::try_from(ack.frame_bytes_max).unwrap_or(usize::MAX),
            observed: Some(ack.observed).filter(|_| !self.relayed),
        })
    }
}
