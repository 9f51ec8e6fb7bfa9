//! Membership and trust: tickets, grants, revocation; and how a peer is reached.

use serde::{Deserialize, Serialize};

use super::node::OutboxView;
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

/// `GET /v1/peers/{peer}/route`: how a peer is reached, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteView {
    /// The peer.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// What this node makes of it.
    pub state: String,
    /// Since when, wall clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The way in use: `direct <address>` or `relayed via <name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Round trip in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// Where it says it is.
    pub addresses: Vec<String>,
    /// What was tried since this node started, the newest first.
    pub tried: Vec<TriedView>,
    /// What the other members say, asked just now.
    pub seen_by: Vec<SightingView>,
    /// What others lately said by themselves, by node: in a mesh of more than 32 also those that are not linked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<HearsayView>,
    /// What waits for it.
    pub outbox: OutboxView,
    /// The last error met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Milliseconds until it is next dialled directly, when that is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_in_ms: Option<u64>,
    /// The one thing to do now.
    pub next: String,
}

/// One way that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedView {
    /// The way, as in [`RouteView::path`]; absent when none was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// What came of it.
    pub outcome: String,
    /// When last, wall clock.
    pub at_ms: u64,
    /// How often with this outcome.
    pub times: u64,
}

/// What another member says of a peer: its word, not this node's finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SightingView {
    /// Who was asked.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Whether it answered in time. When not, the rest says nothing.
    pub answered: bool,
    /// Whether the peer is alive to it.
    pub alive: bool,
    /// Whether it reaches the peer directly.
    pub direct: bool,
    /// Whether it lets this node relay.
    pub carries: bool,
    /// Its round trip to the peer, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
}

/// What a member said of a peer when it lost it, found it, or looked at it for somebody: its word, as it was heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HearsayView {
    /// Who said it.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Whether the peer answers it.
    pub answers: bool,
    /// When it was heard, wall clock.
    pub at_ms: u64,
}

/// `POST /v1/peers/{peer}/ping`: the peer answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingReply {
    /// The peer.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The way the question went.
    pub path: String,
    /// Microseconds from the question to its answer, through both nodes.
    pub took_us: u64,
}
