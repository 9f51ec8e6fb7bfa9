//! `unblock`: take a block back.

use crate::args::UnblockArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Unblocks.
pub(crate) async fn unblock(invocation: &Invocation, args: &UnblockArgs) -> Result<Exit, Failure> {
    let reply = invocation.client()?.unblock(&args.peer).await?;
    invocation.printer.answer(&reply, |reply| render::expulsion::expelled(reply, "not blocked"));
    Ok(Exit::Done)
}
