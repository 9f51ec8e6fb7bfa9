//! One node: its two machines, its key, what its disk holds, and what it cost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use ed25519_dalek::SigningKey;
use mesh_node_core::directory::exchange::Exchange;
use mesh_node_core::links::Links;
use mesh_node_core::membership::Membership;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;
use mesh_protocol::record::VerifiedRecord;

use super::queue::End;

/// What a node sent, as really encoded, without what UDP and QUIC add to each packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of datagrams.
    pub datagram_bytes: u64,
    /// Bytes of exchanges.
    pub exchange_bytes: u64,
    /// Packets: datagrams to one peer at one moment share one, a frame has one for each 1,200 bytes.
    pub packets: u64,
    /// Dials begun.
    pub dials: u64,
}

/// One node.
#[derive(Debug)]
pub struct Host {
    /// Its identity.
    pub id: NodeId,
    /// Its membership; `None` while it is down or asleep.
    pub machine: Option<Membership>,
    /// Where it can be dialled. A change counts from its next start.
    pub address: SocketAddr,
    /// What it sent since it exists.
    pub cost: Cost,
    /// The process that runs, or the last one that did.
    pub boot: BootId,
    pub(super) key: SigningKey,
    pub(super) asleep: Option<Membership>,
    pub(super) links: Links,
    pub(super) epoch: u64,
    pub(super) disk: BTreeMap<NodeId, VerifiedRecord>,
    pub(super) revoked: BTreeSet<NodeId>,
    pub(super) exchanges: BTreeMap<(u64, bool), Exchange>,
    pub(super) dialling: BTreeSet<u64>,
    pub(super) wake_at: Option<u64>,
}

impl Host {
    pub(super) fn end(&self, host: usize) -> End {
        End { host, boot: self.boot }
    }
}

impl std::ops::Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            datagram_bytes: self.datagram_bytes - before.datagram_bytes,
            exchange_bytes: self.exchange_bytes - before.exchange_bytes,
            packets: self.packets - before.packets,
            dials: self.dials - before.dials,
        }
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            datagram_bytes: self.datagram_bytes + other.datagram_bytes,
            exchange_bytes: self.exchange_bytes + other.exchange_bytes,
            packets: self.packets + other.packets,
            dials: self.dials + other.dials,
        }
    }
}
