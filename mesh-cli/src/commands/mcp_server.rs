//! `mcp-server`: the Model Context Protocol on standard input and output, for an agent's host.

use mesh_node::mcp::{self, Options};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Serves until the host closes standard input.
pub(crate) async fn mcp_server(invocation: &Invocation) -> Result<Exit, Failure> {
    let options = Options::from_environment(|name| invocation.variable(name))?;
    mcp::serve_stdio(options).await?;
    Ok(Exit::Done)
}
