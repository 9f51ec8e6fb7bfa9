//! A node and its peers: status, outboxes, health.

use serde::{Deserialize, Serialize};

use crate::id::{MeshId, NodeId};
use crate::isolation::IsolationClass;
use crate::peer::{DroppedCounts, OverQuota};
use crate::policy::Grant;

/// `GET /v1/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// This node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Its mesh; absent before `init` or `join`.
    pub mesh: Option<MeshId>,
    /// Whether it holds the mesh's root key.
    pub root: bool,
    /// The build.
    pub version: String,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Where members reach it.
    pub addresses: Vec<String>,
    /// What its sandbox offers.
    pub executor: ExecutorView,
    /// Agents configured here.
    pub agents: usize,
    /// Tickets that can still be used.
    pub open_tickets: usize,
    /// Every other member, as seen from here.
    pub peers: Vec<PeerStatus>,
    /// Flights that have not ended, here as origin.
    pub flights_open: usize,
    /// Jobs that have not ended, here as origin.
    pub jobs_open: usize,
    /// Whether this node itself seems cut off, and judges nobody.
    pub isolated: bool,
    /// Things someone should know: gaps, quarantined events, clock jumps.
    pub warnings: Vec<String>,
    /// Connections that came in since the start, and those that did not get so far.
    #[serde(default)]
    pub connections: ConnectionCounts,
}

/// What happened to those who dialled this node, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// Taken in.
    pub accepted: u64,
    /// Refused for their certificate or their Hello.
    pub refused: u64,
    /// Did not finish TLS or Hello in time, or left before.
    pub silent: u64,
    /// Asked to prove their address first.
    pub retried: u64,
    /// Turned away because there were too many.
    pub overloaded: u64,
}

/// What a node's sandbox offers, as observed at its start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecutorView {
    /// Isolation classes it can run.
    pub classes: Vec<IsolationClass>,
    /// Languages it has.
    pub languages: Vec<String>,
    /// Jobs it runs at once.
    pub slots: u32,
    /// Jobs running now.
    pub running: u32,
    /// Names of its runtime packs; absent for another node, which does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtimes: Option<Vec<String>>,
    /// Why it offers nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// One peer as seen from here. No other node's view is mixed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// The peer.
    pub node: NodeId,
    /// Its name, a label.
    pub name: String,
    /// `known`, `alive`, `suspect`, `unreachable`, `left`, `revoked`, `incompatible`, `duplicate`, `blocked`.
    pub state: String,
    /// Since when, wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Why it is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The last error met, with the address tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// `direct <address>` or `relayed via <name>` when there is a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Round trip in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// What it says its sandbox offers: its claim.
    pub executor: ExecutorView,
    /// What it may do here.
    pub grant: Grant,
    /// What this node may do there, as the peer says; absent while it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Grant>,
    /// What waits for it.
    pub outbox: OutboxView,
    /// Whether nothing is taken from it until its next link, because a message of it could not be handled.
    #[serde(default)]
    pub paused: bool,
    /// Records and datagrams of it that were refused for what they say.
    #[serde(default)]
    pub dropped: DroppedCounts,
    /// What it sent faster than it may.
    #[serde(default)]
    pub over_quota: OverQuota,
}

/// The outbox for one peer: `GET /v1/outbox`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutboxView {
    /// Parcels not acknowledged.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Milliseconds the oldest has waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_age_ms: Option<u64>,
    /// Why nothing is sent now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Gaps and rollbacks found, for ever.
    pub reports: Vec<String>,
}

/// `GET /v1/outbox`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerOutbox {
    /// The peer.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// What waits for it.
    pub outbox: OutboxView,
}

/// One check of `doctor`: `GET /v1/doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Short, stable, with hyphens: `sandbox-runsc`.
    pub name: String,
    /// `ok`, `warn` or `fail`.
    pub verdict: String,
    /// What was found.
    pub finding: String,
    /// The one thing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
