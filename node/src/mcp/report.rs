//! What the tools give back: one document a tool, the same as structure and as text.
//!
//! The documents follow the node's API and claim nothing it does not say. Long texts are cut, and say so. An optional
//! member that has no value is absent.

pub(crate) mod flight;
pub(crate) mod job;

use mesh_protocol::api::ask::{AgentView, Held, Receipt, Whoami};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Serialize;

/// The call that makes sense next.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Next {
    /// The tool.
    pub(crate) tool: &'static str,
    /// Its arguments.
    pub(crate) arguments: JsonObject,
    /// Why.
    pub(crate) reason: String,
}

/// Of `whoami`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhoamiReport {
    /// `operator`, or the agent this session belongs to.
    principal: String,
    /// The node's id.
    node: String,
    /// The node's name.
    node_name: String,
    /// What you may do there.
    may: Vec<String>,
}

impl From<Whoami> for WhoamiReport {
    fn from(whoami: Whoami) -> Self {
        let Whoami { principal, node, node_name, may } = whoami;
        Self { principal, node: node.to_string(), node_name, may }
    }
}

/// An agent an address means, or could mean.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentReport {
    /// The shortest address that means only this one.
    pub(crate) address: String,
    /// The full address, with its node.
    pub(crate) full: String,
    /// `online`, `offline` (it cannot run on its node) or `unreachable` (its node cannot be reached from here).
    pub(crate) reachability: String,
    /// Why it is not online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) harness: Option<String>,
    /// What its operator says it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
}

impl From<AgentView> for AgentReport {
    fn from(view: AgentView) -> Self {
        Self {
            address: view.address.to_string(),
            full: view.full.to_string(),
            reachability: view.reachability,
            reason: view.reason,
            harness: Some(view.harness),
            description: Some(view.description),
        }
    }
}

/// What an address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResolveKind {
    /// One agent.
    Resolved,
    /// Several could be meant.
    Ambiguous,
    /// None known here.
    Unknown,
    /// It is not an address.
    Unparseable,
}

/// Of `agents_resolve`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResolveReport {
    /// What the address means.
    pub(crate) kind: ResolveKind,
    /// The one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) candidate: Option<AgentReport>,
    /// Those it could mean.
    pub(crate) candidates: Vec<AgentReport>,
    /// Why it is not resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What to do about that.
    pub(crate) hints: Vec<String>,
}

/// That a node cannot be reached now. What was accepted waits, and goes out when the node is back.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeldReport {
    /// What is seen of the node: `unreachable`, `suspect`, `known`.
    state: String,
    /// Why.
    cause: String,
    /// Since when, milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_ms: Option<u64>,
    /// Parcels waiting for that node, this one included.
    queued: u64,
}

impl From<Held> for HeldReport {
    fn from(held: Held) -> Self {
        Self { state: held.state, cause: held.cause, since_ms: held.since_ms, queued: held.queued }
    }
}

/// The ids of a message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MessageIds {
    /// The message.
    message_id: String,
    /// Its conversation.
    conversation_id: String,
}

/// Of `messages_send`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SendReport {
    /// Whether the message is recorded; it is, or the call is an error.
    ok: bool,
    /// `accepted`: durable here.
    state: String,
    /// Its ids.
    ids: MessageIds,
    /// The agent, in full.
    target: String,
    /// The agent's node.
    target_node: String,
    /// Present when that node cannot be reached now.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<HeldReport>,
    /// Whether an earlier call with the same request id had sent it.
    replayed: bool,
}

impl From<Receipt> for SendReport {
    fn from(receipt: Receipt) -> Self {
        Self {
            ok: true,
            state: receipt.state,
            ids: MessageIds {
                message_id: receipt.message_id.to_string(),
                conversation_id: receipt.conversation_id.to_string(),
            },
            target: receipt.target.to_string(),
            target_node: receipt.target_node.to_string(),
            held: receipt.held.map(HeldReport::from),
            replayed: receipt.replayed,
        }
    }
}
