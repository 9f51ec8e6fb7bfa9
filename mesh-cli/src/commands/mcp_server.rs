//! `mcp-server`: the Model Context Protocol on standard input and output, for an agent's host.

use mesh_node::home::Home;
use mesh_node::mcp::{self, Credential, Daemon, Options, Policy};

use crate::environment::MESH_TOKEN;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Serves until the host closes standard input. The adapter has a runtime of its own: this is called outside of one.
pub(crate) fn mcp_server(invocation: &Invocation) -> Result<std::process::ExitCode, Failure> {
    let policy = Policy::from_environment(|name| std::env::var_os(name))?;
    let root = invocation.home()?;
    // A home that is not there is not made by an adapter: its tools then say what to do.
    let socket = match root.exists() {
        true => Home::open(&root)?.socket(|name| std::env::var_os(name))?,
        false => root.join("run/mesh.sock"),
    };
    let token = root.join("tokens/operator");
    let credential = match std::env::var(MESH_TOKEN) {
        Ok(text) if !text.is_empty() => Credential::Token(mesh_node::api::tokens::Token::parse(&text)?),
        _ => Credential::File(token),
    };
    let daemon = Daemon { lock: root.join("mesh.lock"), home: root, socket, credential };
    Ok(mcp::serve_stdio(Options { daemon, policy }))
}
