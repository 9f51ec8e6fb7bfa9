//! Connections to other members: QUIC (RFC 9000) with TLS 1.3 at both ends, over one UDP socket given from outside.
//!
//! ```text
//!   dial(peer, number, plan) ──> TLS ──> Hello ──> HelloAck ──> Connection <── accept()
//!                                 │        │          │
//!                                 └────────┴──────────┴──> DialError: not reached, refused here, refused there
//! ```
//! A [`Connection`] exists only after Hello and HelloAck crossed, so nobody holds one to a peer that is about to refuse
//! it. Its streams start with a kind byte and carry length-prefixed frames; its datagrams carry probes. When a peer is
//! revoked or blocked its connections end at once.
//!
//! A connection is a *link*, for everything two nodes say to each other, or a *carrier*, for nothing but packets of other
//! connections; the protocol negotiated in TLS says which. A link is direct, or *relayed*: then its packets travel on a
//! stream of a carrier to the member between ([`Paths`]). Relayed connections have an [`Endpoint`] of their own, which
//! takes no carriers, so nothing is relayed twice.
//!
//! Not here: which of several connections to a peer is used (`mesh_node_core::links`), when to dial, and what frames
//! mean. No type of the QUIC library is visible outside, so that another way to carry a connection can take its place.

mod accept;
mod bytes;
mod close;
mod connection;
mod dial;
mod endpoint;
mod greeting;
mod inbound;
mod line;
mod packets;
mod paths;
mod settings;
mod socket;
mod stream;

pub use close::CloseReason;
pub use connection::{Connection, DatagramError, Purpose};
pub use dial::{DialCause, DialError, PeerRefusal};
pub use endpoint::{BindError, Counts, Endpoint};
pub(crate) use line::certified_peer;
pub use packets::{PacketError, PacketReader, send_packets};
pub use paths::{PathCounts, Paths, PathsFull};
pub use settings::{Profile, Settings};
pub(crate) use socket::endpoint_config;
pub use socket::{PacketSocket, Socket};
pub use stream::{Receiver, Sender, StreamError};
