//! What a decision may know about its own node beside the store: who it is, what it runs, what it sees.
//!
//! Given at start and replaced whole by events that cannot fail; nothing here is durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_protocol::address::Name;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::job::JobLimits;
use mesh_protocol::policy::PermissionProfile;

use crate::limits::{JOB_QUEUE_MAX, JOB_RETAIN_MS};
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

/// What jobs may take on this node, as its operator decided. A tenant is who asks: the operator, an agent, a holder of
/// a key, or one of these on another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobPolicy {
    /// Jobs of one tenant that run at once.
    pub tenant_concurrency: usize,
    /// Jobs of one tenant that wait.
    pub tenant_queue_max: usize,
    /// Jobs that wait, of all tenants.
    pub queue_max: usize,
    /// Mebibytes that all running jobs may use together. The largest job alone always fits.
    pub memory_budget_mb: u32,
    /// Mebibytes one job may use, whatever it asks for.
    pub job_mem_mb_max: u32,
    /// Bytes kept for the jobs of one tenant.
    pub tenant_bytes_max: u64,
    /// Bytes kept for the jobs of all tenants.
    pub bytes_max: u64,
    /// Milliseconds a job that has ended is kept; for ever when absent.
    pub retain_ms: Option<u64>,
}

impl Default for JobPolicy {
    fn default() -> Self {
        const GIB: u64 = 1024 * 1024 * 1024;
        Self {
            tenant_concurrency: 2,
            tenant_queue_max: 64,
            queue_max: JOB_QUEUE_MAX,
            memory_budget_mb: 4096,
            job_mem_mb_max: JobLimits::MAX.mem_mb,
            tenant_bytes_max: 4 * GIB,
            bytes_max: 16 * GIB,
            retain_ms: Some(JOB_RETAIN_MS),
        }
    }
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
    /// What jobs may take here.
    pub jobs: JobPolicy,
    /// The mesh, as seen from here.
    pub view: Arc<View>,
}
