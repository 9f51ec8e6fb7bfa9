//! What this node knows of the mesh, at one moment: its members, their sandboxes and their agents.
//!
//! Made on the network side from the directory and from this node's own observations, handed to the durable machine
//! whole, and read by everything that lists or resolves, so that `who`, `ask`, `resolve` and `status` cannot disagree.
//! It is not durable and nobody else's view is mixed in.

use std::collections::BTreeMap;

use mesh_protocol::address::{AgentAddress, Name};
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::policy::PermissionProfile;

/// How this node sees another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// It is this node.
    Here,
    /// It answers.
    Reachable,
    /// No route to it now: never met, suspected or given up on for the moment. Work for it is held.
    NotNow,
    /// It left the mesh, was revoked or is blocked here. Work for it is refused.
    Gone,
}

/// One member, this node included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its label. Two members may carry the same.
    pub name: Name,
    /// Whether it can be reached.
    pub contact: Contact,
    /// The state's published name: `alive`, `unreachable`, ...
    pub state: String,
    /// Since when, wall clock.
    pub since_wall_ms: Option<u64>,
    /// Why.
    pub cause: String,
    /// What it says its sandbox offers.
    pub executor: ExecutorView,
    /// When it last told us, by its own clock.
    pub as_of_ms: Option<u64>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAgent {
    /// Its name.
    pub name: Name,
    /// Its home.
    pub node: NodeId,
    /// What runs it.
    pub harness: String,
    /// How much its work may touch; `None` for one on another node, which does not say.
    pub profile: Option<PermissionProfile>,
    /// Why it cannot run on its node; `None` when it can.
    pub offline: Option<String>,
    /// What it is for.
    pub description: String,
}

/// Members and agents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Members by id.
    pub members: BTreeMap<NodeId, Member>,
    /// Agents, sorted by name and node.
    pub agents: Vec<KnownAgent>,
}

impl View {
    /// The members a name or the beginning of an id (six characters at least) could mean. An exact name wins over
    /// the beginning of an id.
    #[must_use]
    pub fn members_called(&self, text: &Name) -> Vec<NodeId> {
        let named: Vec<NodeId> =
            self.members.iter().filter(|(_, member)| member.name == *text).map(|(id, _)| *id).collect();
        if !named.is_empty() || text.as_str().len() < 6 {
            return named;
        }
        self.members.keys().filter(|id| id.to_string().starts_with(text.as_str())).copied().collect()
    }

    /// The label of a member; the beginning of its id when it is unknown or when another member has the same label.
    #[must_use]
    pub fn label(&self, node: NodeId) -> Name {
        let name = self.members.get(&node).map(|member| &member.name);
        match name {
            Some(name) if self.members.values().filter(|member| member.name == *name).count() == 1 => {
                name.clone()
            }
            // Base32 in lower case is always a name.
            _ => node.short().parse().unwrap_or_else(|_| unreachable!("base32 is a name")),
        }
    }

    /// The full address of an agent: its name and its node's label.
    #[must_use]
    pub fn full_address(&self, agent: &KnownAgent) -> AgentAddress {
        AgentAddress { agent: agent.name.clone(), node: Some(self.label(agent.node)) }
    }

    /// The shortest address that means only this agent.
    #[must_use]
    pub fn address(&self, agent: &KnownAgent) -> AgentAddress {
        if self.agents.iter().filter(|other| other.name == agent.name).count() == 1 {
            AgentAddress { agent: agent.name.clone(), node: None }
        } else {
            self.full_address(agent)
        }
    }

    /// `online`, `offline`, `unreachable` or `gone`: its node's state first, then what its node says of it.
    #[must_use]
    pub fn reachability(&self, agent: &KnownAgent) -> &'static str {
        match self.members.get(&agent.node).map(|member| member.contact) {
            Some(Contact::Here | Contact::Reachable) if agent.offline.is_some() => "offline",
            Some(Contact::Here | Contact::Reachable) => "online",
            Some(Contact::NotNow) => "unreachable",
            Some(Contact::Gone) | None => "gone",
        }
    }
}
