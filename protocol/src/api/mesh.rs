//! Membership and trust: tickets, grants, revocation.

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, TicketId};
use crate::policy::{Grant, Permission, Trust};

/// `POST /v1/tickets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// Seconds the ticket can be used.
    pub ttl_seconds: u64,
    /// What the node that joins with it may do here.
    pub trust: Trust,
}

/// A ticket to hand over. Whoever has the line can join once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteReply {
    /// Which ticket, for listings.
    pub ticket_id: TicketId,
    /// The line: a secret.
    pub ticket: String,
    /// When it stops working, by this node's clock.
    pub expires_at_ms: u64,
}

impl std::fmt::Debug for InviteReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InviteReply").field("ticket_id", &self.ticket_id).finish_non_exhaustive()
    }
}

/// `POST /v1/grants`: change what a peer may do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// The peer, by name or id.
    pub peer: String,
    /// Start from this preset instead of what is there.
    #[serde(default)]
    pub trust: Option<Trust>,
    /// Add these.
    #[serde(default)]
    pub allow: Vec<Permission>,
    /// Take these away.
    #[serde(default)]
    pub deny: Vec<Permission>,
    /// Only these agents.
    #[serde(default)]
    pub agents: Option<Vec<String>>,
}

/// The grant after the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantReply {
    /// The peer.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// What it may do here now.
    pub grant: Grant,
}

/// `POST /v1/revocations` (the whole mesh) and `POST /v1/blocks` (this node only).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpelRequest {
    /// The node, by name or id.
    pub peer: String,
    /// Why, for the people who read it later.
    #[serde(default)]
    pub reason: String,
}

/// What it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpelReply {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Whether it was so before.
    pub already: bool,
    /// Links cut.
    pub links_closed: usize,
}
