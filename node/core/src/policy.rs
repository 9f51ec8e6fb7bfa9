//! What peers may do here, as rows, and the one place it is checked.
//!
//! Deny by default: a peer without a row has the preset the operator chose, which is nothing unless they chose more.
//! The node itself may do everything. Not here: what a permission means, which is for whoever asks.

use mesh_protocol::api::error::ApiError;
use mesh_protocol::id::{NodeId, TicketId};
use mesh_protocol::policy::{Grant, Permission, PermissionProfile, Trust};
use serde::{Deserialize, Serialize};

use crate::site::Site;
use crate::store::{Overlay, Record, Store, StoreError, Table, get};
use crate::time::Now;

/// The grant of one peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerGrant(pub Grant);

impl Record for PeerGrant {
    const TABLE: Table = Table::Policy;
    type Key = NodeId;
}

/// The preset new members get when nothing else was said: what the operator chose at `init` or `join`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultTrust(pub Trust);

impl Record for DefaultTrust {
    const TABLE: Table = Table::DefaultTrust;
    type Key = ();
}

/// What the node that joins with a ticket may do here; gone once it joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketTrust(pub Trust);

impl Record for TicketTrust {
    const TABLE: Table = Table::TicketTrusts;
    type Key = TicketId;
}

/// What a peer may do here: its own row, or else the preset for members without one.
///
/// # Errors
/// [`StoreError`].
pub fn grant_of(store: &dyn Store, peer: NodeId) -> Result<Grant, StoreError> {
    if let Some(PeerGrant(grant)) = get(store, &peer)? {
        return Ok(grant);
    }
    let DefaultTrust(trust) = get(store, &())?.unwrap_or(DefaultTrust(Trust::None));
    Ok(Grant::from(trust))
}

/// Whether a peer may do this here.
///
/// # Errors
/// [`StoreError`].
pub fn permits(
    store: &dyn Store,
    site: &Site,
    now: Now,
    peer: NodeId,
    permission: Permission,
) -> Result<bool, StoreError> {
    Ok(peer == site.me || grant_of(store, peer)?.permits(permission, now.wall_ms))
}

/// Whether a peer may reach this agent: the permission, the agent and its profile.
///
/// # Errors
/// [`StoreError`].
pub fn permits_agent(
    store: &dyn Store,
    site: &Site,
    now: Now,
    peer: NodeId,
    permission: Permission,
    agent: (&str, PermissionProfile),
) -> Result<bool, StoreError> {
    if peer == site.me {
        return Ok(true);
    }
    let grant = grant_of(store, peer)?;
    Ok(grant.permits(permission, now.wall_ms) && grant.covers(agent.0, agent.1))
}

/// One change an operator makes to a peer's grant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantChange {
    /// Start from this preset instead of what is there.
    pub trust: Option<Trust>,
    /// Add these.
    pub allow: Vec<Permission>,
    /// Take these away.
    pub deny: Vec<Permission>,
    /// Only these agents from now on.
    pub agents: Option<Vec<String>>,
}

/// Changes a peer's grant and returns what it is now.
///
/// # Errors
/// [`StoreError`].
pub fn change(tx: &mut Overlay<'_>, peer: NodeId, change: &GrantChange) -> Result<Grant, StoreError> {
    let mut grant = match change.trust {
        Some(trust) => Grant::from(trust),
        None => grant_of(tx, peer)?,
    };
    grant.permissions.extend(&change.allow);
    grant.permissions.retain(|permission| !change.deny.contains(permission));
    grant.permissions.sort_unstable();
    grant.permissions.dedup();
    if let Some(agents) = &change.agents {
        grant.agents = Some(agents.clone());
    }
    tx.put(&peer, &PeerGrant(grant.clone()));
    Ok(grant)
}

/// The words for a refusal by policy: what to do, and on which node.
#[must_use]
pub fn refusal(site: &Site, permission: Permission) -> String {
    format!("node {} does not let this node {permission}", site.view.label(site.me))
}

/// The hint that goes with [`refusal`], for the operator of the node that refused.
#[must_use]
pub fn remedy(site: &Site, peer: NodeId, permission: Permission) -> String {
    let (here, peer) = (site.view.label(site.me), site.view.label(peer));
    format!("on node {here}: `mesh-cli allow {peer} {permission}`")
}

/// An operator's command from someone who is not.
#[must_use]
pub fn operator_only(what: &str) -> ApiError {
    use mesh_protocol::api::error::ErrorKind;
    ApiError::new(ErrorKind::Refused, "not_authorized", format!("{what} needs the operator's credential"))
        .hint("the operator types it in a shell of their own, where `MESH_TOKEN` is not set")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OrderedStore;

    const PEER: NodeId = NodeId::from_bytes([7; 32]);

    #[test]
    fn a_peer_without_a_row_may_do_nothing() {
        let store = OrderedStore::default();
        assert_eq!(grant_of(&store, PEER).unwrap(), Grant::from(Trust::None));
    }

    #[test]
    fn allow_and_deny_change_only_what_they_name() {
        let store = OrderedStore::default();
        let mut tx = Overlay::new(&store);
        let team = GrantChange { trust: Some(Trust::Team), ..GrantChange::default() };
        change(&mut tx, PEER, &team).unwrap();
        let jobs = GrantChange {
            allow: vec![Permission::Job],
            deny: vec![Permission::Ask],
            ..GrantChange::default()
        };
        let grant = change(&mut tx, PEER, &jobs).unwrap();
        assert_eq!(grant.permissions, [Permission::Resolve, Permission::Message, Permission::Job]);
        assert_eq!(grant_of(&tx, PEER).unwrap(), grant);
    }

    #[test]
    fn the_preset_of_this_node_applies_to_members_without_a_row() {
        let store = OrderedStore::default();
        let mut tx = Overlay::new(&store);
        tx.put(&(), &DefaultTrust(Trust::Mine));
        assert!(grant_of(&tx, PEER).unwrap().permits(Permission::Job, 0));
    }
}
