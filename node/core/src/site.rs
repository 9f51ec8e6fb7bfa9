//! What a decision may know about its own node beside the store: who it is, what it runs, what it sees.
//!
//! Given at start and replaced whole by events that cannot fail; nothing here is durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_protocol::address::Name;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::policy::PermissionProfile;

use crate::view::View;

/// What a node says of its sandbox while it is still finding out. Passing, unlike every other reason.
pub const STILL_LOOKING: &str = "the sandbox is still being looked at";

/// An agent configured on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSetting {
    /// What runs it: `command`, ...
    pub harness: String,
    /// How much its work may touch.
    pub profile: PermissionProfile,
    /// Whether other nodes may see and reach it.
    pub advertised: bool,
    /// Asks it works on at once; the rest wait in order.
    pub slots: usize,
    /// Why it cannot run now.
    pub offline: Option<String>,
    /// What it is for.
    pub description: String,
}

/// This node.
#[derive(Debug, Clone)]
pub struct Site {
    /// Its id.
    pub me: NodeId,
    /// Agents configured here.
    pub agents: BTreeMap<Name, AgentSetting>,
    /// What the sandbox here was observed to offer.
    pub executor: ExecutorView,
    /// Executors the operator named, by name or id, in order of preference, for jobs this node cannot run.
    pub named_executors: Vec<String>,
    /// The mesh, as seen from here.
    pub view: Arc<View>,
}
