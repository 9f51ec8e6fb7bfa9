//! `block`: have nothing to do with a peer, on this node only.

use mesh_protocol::api::mesh::ExpelRequest;

use crate::args::BlockArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Blocks.
pub(crate) async fn block(invocation: &Invocation, args: BlockArgs) -> Result<Exit, Failure> {
    let request = ExpelRequest { peer: args.peer, reason: args.reason };
    let reply = invocation.client()?.block(&request).await?;
    invocation.printer.answer(&reply, |reply| render::expulsion::expelled(reply, "blocked"));
    Ok(Exit::Done)
}
