//! Who belongs to the mesh and what they may do here.

use std::collections::BTreeMap;

use mesh_node_core::broker::resolve::resolve_node;
use mesh_node_core::event::{Command, Reply};
use mesh_node_core::policy::GrantChange;
use mesh_node_core::roster::Revocations;
use mesh_node_core::store::get;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::mesh::{
    ExpelReply, ExpelRequest, GrantReply, GrantRequest, InviteReply, InviteRequest,
};
use mesh_protocol::api::node::PeerOutbox;
use mesh_protocol::id::{NodeId, TicketId};
use mesh_protocol::revocation::{REASON_BYTES_MAX, Revocation, RevocationList};
use mesh_protocol::ticket::Ticket;

use super::{Local, mismatch, status, storage};
use crate::clock::Clock;

/// Makes a ticket and opens the join port for it.
pub(super) async fn invite(local: &Local, request: &InviteRequest) -> Result<InviteReply, ApiError> {
    if local.root.is_none() {
        let message = "this node does not hold the mesh's root key and cannot let nodes in";
        return Err(ApiError::new(ErrorKind::Refused, "not_the_root", message)
            .hint("run `mesh-cli invite` on the node where the mesh was founded"));
    }
    // Open first: a ticket whose port does not open would be a line that leads nowhere.
    let addresses = local.door.open().await?;
    let id = TicketId::mint(local.clock.now().wall_ms, rand::random());
    let life_ms = request.ttl_seconds.saturating_mul(1_000);
    let Reply::Invited(expires_wall_ms) =
        local.command(Command::Invite(id, life_ms, request.trust), 0).await?
    else {
        return Err(mismatch());
    };
    local.door.tickets_changed();
    let secret = local.ticket_key.secret_of(id, expires_wall_ms, local.root_key.mesh());
    let root = local.root_key.fingerprint();
    let ticket = Ticket { id, root, issuer: local.me, addresses, expires_wall_ms, secret };
    Ok(InviteReply { ticket_id: id, ticket: ticket.to_line().to_string(), expires_at_ms: expires_wall_ms })
}

/// Changes what a peer may do here.
pub(super) async fn grant(local: &Local, request: GrantRequest) -> Result<GrantReply, ApiError> {
    let (node, name) = peer(local, &request.peer)?;
    let GrantRequest { trust, allow, deny, agents, .. } = request;
    match local.command(Command::Grant(node, GrantChange { trust, allow, deny, agents }), 0).await? {
        Reply::Grant(grant) => Ok(GrantReply { node, name, grant }),
        _ => Err(mismatch()),
    }
}

/// Expels a node from the mesh: in force here at once, then durable, then told to everybody.
pub(super) async fn revoke(local: &Local, request: &ExpelRequest) -> Result<ExpelReply, ApiError> {
    let (node, name) = peer(local, &request.peer)?;
    let Some(root) = &local.root else {
        let message = "only the node that holds the mesh's root key can revoke";
        return Err(ApiError::new(ErrorKind::Refused, "not_the_root", message)
            .hint(format!("`mesh-cli block {name}` shuts it out of this node alone")));
    };
    let _making = local.revoking.lock().await;
    let known = newest_list(local)?;
    let links_closed = usize::from(local.network.path(node).is_some());
    if known.as_ref().is_some_and(|list| list.names(node)) {
        return Ok(ExpelReply { node, name, already: true, links_closed: 0 });
    }
    let ver = known.as_ref().map_or(0, RevocationList::ver).saturating_add(1);
    let reason = reason_of(&request.reason);
    let new = Revocation { node, reason, at_wall_ms: local.clock.now().wall_ms };
    let before = known.iter().flat_map(|list| list.entries().iter().cloned());
    let list = root
        .revoke(ver, before.chain(std::iter::once(new)).collect())
        .map_err(|error| ApiError::new(ErrorKind::Invalid, "revocation_refused", error.to_string()))?;
    local.admission.apply(&list);
    local.command(Command::Revoke(list.clone()), list.as_bytes().len()).await?;
    local.network.revoke(list).await;
    Ok(ExpelReply { node, name, already: false, links_closed })
}

/// The newest list there is: the one on disk, or one that a peer brought and that is on its way there.
fn newest_list(local: &Local) -> Result<Option<RevocationList>, ApiError> {
    let stored = get::<Revocations>(&local.snapshot()?, &()).map_err(|error| storage(&error))?;
    let stored = stored.and_then(|list| RevocationList::verify(&list.0, &local.root_key).ok());
    Ok(stored.into_iter().chain(local.network.revocations()).max_by_key(RevocationList::ver))
}

/// What a list keeps of a reason: on one line, cut to what its format allows.
fn reason_of(text: &str) -> String {
    let mut reason: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    reason
}

/// Has nothing more to do with a peer, for this node only.
pub(super) async fn block(local: &Local, request: &ExpelRequest) -> Result<ExpelReply, ApiError> {
    let (node, name) = peer(local, &request.peer)?;
    let already = local.admission.check(node).is_err();
    let links_closed = usize::from(local.network.path(node).is_some());
    local.admission.block(node);
    local.command(Command::Block(node, reason_of(&request.reason)), 0).await?;
    local.network.look_again();
    Ok(ExpelReply { node, name, already, links_closed })
}

/// Takes a block back.
pub(super) async fn unblock(local: &Local, text: &str) -> Result<ExpelReply, ApiError> {
    let (node, name) = peer(local, text)?;
    let already = local.admission.check(node).is_ok();
    local.command(Command::Unblock(node), 0).await?;
    local.admission.unblock(node);
    local.network.retry(node).await;
    local.network.look_again();
    Ok(ExpelReply { node, name, already, links_closed: 0 })
}

/// Drops what waits for a peer, and ends what depended on it.
pub(super) async fn discard(local: &Local, text: &str) -> Result<PeerOutbox, ApiError> {
    let (node, name) = peer(local, text)?;
    let before: BTreeMap<NodeId, PeerOutbox> =
        status::outboxes(local)?.into_iter().map(|outbox| (outbox.node, outbox)).collect();
    local.command(Command::Discard(node), 0).await?;
    let none = || PeerOutbox { node, name, outbox: mesh_protocol::api::node::OutboxView::default() };
    Ok(before.get(&node).cloned().unwrap_or_else(none))
}

/// The peer a text means.
pub(super) fn peer(local: &Local, text: &str) -> Result<(NodeId, String), ApiError> {
    let view = local.view();
    let node = resolve_node(&view, text)?;
    if node == local.me {
        return Err(ApiError::new(ErrorKind::Invalid, "not_a_peer", "that is this node itself")
            .hint("`mesh-cli status` lists the others"));
    }
    Ok((node, view.label(node).to_string()))
}
