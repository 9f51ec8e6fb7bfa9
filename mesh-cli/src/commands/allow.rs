//! `allow`: let a peer do something here.

use mesh_protocol::api::mesh::GrantRequest;

use crate::args::AllowArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Adds permissions, or starts over from a preset.
pub(crate) async fn allow(invocation: &Invocation, args: AllowArgs) -> Result<Exit, Failure> {
    let agents = Some(args.agent).filter(|agents| !agents.is_empty());
    let request = GrantRequest {
        peer: args.peer,
        trust: args.trust,
        allow: args.permissions,
        deny: Vec::new(),
        agents,
    };
    let reply = invocation.client()?.grant(&request).await?;
    invocation.printer.answer(&reply, render::grant::changed);
    Ok(Exit::Done)
}
