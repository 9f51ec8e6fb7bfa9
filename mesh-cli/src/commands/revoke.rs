//! `revoke`: expel a node from the mesh, for everyone and for good.

use mesh_protocol::api::mesh::ExpelRequest;

use crate::args::RevokeArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::foreign;
use crate::invocation::Invocation;
use crate::{prompt, render};

/// Revokes, once the name was typed again.
pub(crate) async fn revoke(invocation: &Invocation, args: RevokeArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    if !args.yes {
        let peer = foreign::line(&args.peer);
        invocation
            .printer
            .warning(&format!("{peer} will be expelled by every node, and cannot come back as it is"));
        prompt::name(invocation, &args.peer, "--yes").await?;
    }
    let reply = client.revoke(&ExpelRequest { peer: args.peer, reason: args.reason }).await?;
    invocation.printer.answer(&reply, |reply| render::expulsion::expelled(reply, "revoked"));
    Ok(Exit::Done)
}
