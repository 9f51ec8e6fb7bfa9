//! `deny`: stop letting a peer do something here.

use mesh_protocol::api::mesh::GrantRequest;

use crate::args::DenyArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Takes permissions away.
pub(crate) async fn deny(invocation: &Invocation, args: DenyArgs) -> Result<Exit, Failure> {
    let DenyArgs { peer, permissions } = args;
    let request = GrantRequest { peer, trust: None, allow: Vec::new(), deny: permissions, agents: None };
    let reply = invocation.client()?.grant(&request).await?;
    invocation.printer.answer(&reply, render::grant::changed);
    Ok(Exit::Done)
}
