//! `invite`: a ticket for one more node. The line alone goes to standard output.

use mesh_protocol::api::mesh::InviteRequest;

use crate::args::InviteArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Has a ticket made.
pub(crate) async fn invite(invocation: &Invocation, args: &InviteArgs) -> Result<Exit, Failure> {
    let request = InviteRequest { ttl_seconds: args.ttl, trust: args.trust };
    let invitation = invocation.client()?.invite(&request).await?;
    invocation.printer.note(&render::invitation::advice(&invitation, invocation.wall_ms()));
    invocation.printer.answer(&invitation, |invitation| invitation.ticket.clone());
    Ok(Exit::Done)
}
