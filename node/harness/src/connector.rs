//! Servers outside that bring more tools, and how to reach them.
//!
//! Only the configuration is here so far: clients are still to come, and a run with a connector is refused until then.

use std::collections::BTreeMap;

use crate::secret::Secret;

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
