//! `whoami`: the caller as the node sees it.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Shows the caller.
pub(crate) async fn whoami(invocation: &Invocation) -> Result<Exit, Failure> {
    let whoami = invocation.client()?.whoami().await?;
    invocation.printer.answer(&whoami, render::agent::whoami);
    Ok(Exit::Done)
}
