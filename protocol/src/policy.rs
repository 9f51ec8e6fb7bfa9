//! What a node lets a peer do. Being a member is not a permission: nothing is allowed that is not granted here.
//!
//! A grant is one node's own record about one peer; no peer can change it, and no message carries one.

use serde::{Deserialize, Serialize};

/// What a peer may ask of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// See which agents are here. Nothing asks for it yet: an agent is advertised to every member or to none.
    Resolve,
    /// Leave a message.
    Message,
    /// Give an agent work.
    Ask,
    /// Run a job in the sandbox.
    Job,
    /// Have its connection to a third member carried.
    Relay,
    /// Read this node's status. Nothing asks for it yet.
    Observe,
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Resolve, Self::Message, Self::Ask, Self::Job, Self::Relay, Self::Observe];

    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Message => "message",
            Self::Ask => "ask",
            Self::Job => "job",
            Self::Relay => "relay",
            Self::Observe => "observe",
        }
    }
}

impl std::fmt::Display for Permission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Permission {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|permission| permission.name() == text);
        found.ok_or_else(|| format!("`{text:.40}` is not one of resolve, message, ask, job, relay, observe"))
    }
}

/// How much an agent's work may touch, from reading to anything. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionProfile {
    /// Look, change nothing.
    Observe,
    /// Read and comment.
    #[default]
    Review,
    /// Change files of its own workspace.
    WorkspaceWrite,
    /// Anything its operator could do.
    TrustedLocal,
}

/// Where a new grant starts from, chosen when a node joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// One person's machines: everything.
    Mine,
    /// Colleagues: resolve, message, and ask agents advertised to the mesh with at most `review`. No jobs.
    Team,
    /// Nothing until allowed.
    None,
}

impl std::str::FromStr for Trust {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mine" => Ok(Self::Mine),
            "team" => Ok(Self::Team),
            "none" => Ok(Self::None),
            _ => Err(format!("`{text:.40}` is not one of mine, team, none")),
        }
    }
}

/// What one peer may do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What it may do at all, sorted, each once.
    pub permissions: Vec<Permission>,
    /// Agents it may reach, by name; `None` for every agent advertised to the mesh.
    pub agents: Option<Vec<String>>,
    /// The most an agent's profile may allow for this peer to ask it.
    pub profile: PermissionProfile,
    /// Wall-clock milliseconds after which nothing is granted; `None` for no end. Display and coarse expiry only.
    pub expires_wall_ms: Option<u64>,
}

impl From<Trust> for Grant {
    fn from(trust: Trust) -> Self {
        let (permissions, profile) = match trust {
            Trust::Mine => (Permission::ALL.to_vec(), PermissionProfile::TrustedLocal),
            Trust::Team => {
                (vec![Permission::Resolve, Permission::Message, Permission::Ask], PermissionProfile::Review)
            }
            Trust::None => (Vec::new(), PermissionProfile::Observe),
        };
        Self { permissions, agents: None, profile, expires_wall_ms: None }
    }
}

impl Grant {
    /// Whether this is granted at this wall-clock time.
    #[must_use]
    pub fn permits(&self, permission: Permission, wall_ms: u64) -> bool {
        self.permissions.contains(&permission) && self.expires_wall_ms.is_none_or(|end| wall_ms < end)
    }

    /// Whether it covers this agent.
    #[must_use]
    pub fn covers(&self, agent: &str, profile: PermissionProfile) -> bool {
        profile <= self.profile
            && self.agents.as_ref().is_none_or(|agents| agents.iter().any(|name| name == agent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_member_may_ask_and_may_not_run_jobs() {
        let grant = Grant::from(Trust::Team);
        assert!(grant.permits(Permission::Ask, 0));
        assert!(!grant.permits(Permission::Job, 0));
        assert!(grant.covers("reviewer", PermissionProfile::Review));
        assert!(!grant.covers("deployer", PermissionProfile::WorkspaceWrite));
    }

    #[test]
    fn no_trust_grants_nothing() {
        assert!(Permission::ALL.iter().all(|&permission| !Grant::from(Trust::None).permits(permission, 0)));
    }

    #[test]
    fn an_expired_grant_grants_nothing() {
        let grant = Grant { expires_wall_ms: Some(10), ..Grant::from(Trust::Mine) };
        assert!(grant.permits(Permission::Job, 9));
        assert!(!grant.permits(Permission::Job, 10));
    }
}
