//! `mcp-server`: the Model Context Protocol on standard input and output, for an agent's host.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Serves until the host closes standard input.
pub(crate) async fn mcp_server(_: &Invocation) -> Result<Exit, Failure> {
    Err(Failure::NotBuilt { command: "mcp-server" })
}
