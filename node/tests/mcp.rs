//! The MCP adapter as a host meets it: lines of JSON-RPC in, lines out, a node (scripted here) behind a Unix socket.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it unwraps")]

#[path = "mcp/eras.rs"]
mod eras;
#[path = "mcp/host.rs"]
mod host;
#[path = "mcp/jobs.rs"]
mod jobs;
#[path = "mcp/leaving.rs"]
mod leaving;
#[path = "mcp/node.rs"]
mod node;
#[path = "mcp/policy.rs"]
mod policy;
#[path = "mcp/reconciliation.rs"]
mod reconciliation;
#[path = "mcp/tools.rs"]
mod tools;
