//! Servers outside that bring more tools: how they are reached, and the tools that come of it.
//!
//! Only servers of the Model Context Protocol bring tools. They are reached as a program on its standard input and
//! output, by streamable HTTP, or by the older HTTP with server-sent events. What a server answers is data of a
//! stranger: bounded, and shown to the model as it is. Their tools are not subject to a run's list of tools; a run that
//! names a connector wants what it brings.

mod error;
mod http;
mod mcp;
mod program;
mod sse;
mod tools;

use std::collections::BTreeMap;

use crate::secret::Secret;

pub use error::ConnectorError;
pub use mcp::{McpConnection, connect_mcp};
pub use tools::{ConnectedTools, ConnectorOptions, Connectors, ToolNaming, connector_tools};

/// A server with tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectorConfig {
    /// What the run calls it; the first part of its tools' names.
    pub name: String,
    /// What it speaks.
    pub kind: ConnectorKind,
    /// How it is reached, as the caller wrote it: `stdio`, `streamable_http` or `sse`.
    pub transport: String,
    /// Its address, of a server behind HTTP.
    pub endpoint: Option<String>,
    /// Its program, of a server on standard input and output.
    pub command: Option<String>,
    /// That program's arguments.
    pub args: Vec<String>,
    /// That program's variables, as the caller gives them.
    pub env: BTreeMap<String, Secret>,
    /// Headers, as the caller gives them.
    pub headers: BTreeMap<String, Secret>,
    /// A token.
    pub auth: ConnectorAuth,
}

/// What a connector speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectorKind {
    /// The Model Context Protocol.
    #[default]
    Mcp,
    /// Plain HTTP: for the application, no tools come of it.
    Http,
}

/// How a connector is authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ConnectorAuth {
    /// Not at all.
    #[default]
    None,
    /// By a bearer token: a header, or `MCP_AUTH_TOKEN` for a program.
    Bearer(Secret),
}
