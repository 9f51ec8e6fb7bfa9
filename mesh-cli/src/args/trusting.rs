//! Arguments of the commands about what peers may do.

use clap::Args;
use mesh_protocol::policy::{Permission, Trust};

/// `allow`
#[derive(Debug, Args)]
#[command(after_help = "\
Permissions: message, ask, job (run code in the sandbox here), relay (have its packets to other \
members carried here). resolve and observe can be granted and permit nothing yet: every member \
sees the agents that are advertised.
Presets: mine (everything), team (resolve, message, ask), none.

  mesh-cli allow atlas ask job
  mesh-cli allow atlas --trust team --agent reviewer")]
pub(crate) struct AllowArgs {
    /// The peer, by name or id.
    pub(crate) peer: String,
    /// What it may do.
    #[arg(value_name = "PERMISSION", required_unless_present_any = ["trust", "agent"])]
    pub(crate) permissions: Vec<Permission>,
    /// Start from a preset instead of from what it may do now.
    #[arg(long)]
    pub(crate) trust: Option<Trust>,
    /// Let it reach only this agent; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Vec<String>,
}

/// `deny`
#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The peer, by name or id.
    pub(crate) peer: String,
    /// What it may not do any more.
    #[arg(value_name = "PERMISSION", required = true)]
    pub(crate) permissions: Vec<Permission>,
}

/// `block`
#[derive(Debug, Args)]
pub(crate) struct BlockArgs {
    /// The peer, by name or id.
    pub(crate) peer: String,
    /// Why, for whoever reads it later.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// `unblock`
#[derive(Debug, Args)]
pub(crate) struct UnblockArgs {
    /// The peer, by name or id.
    pub(crate) peer: String,
}

/// `revoke`
#[derive(Debug, Args)]
#[command(after_help = "Cannot be taken back: to return, the machine needs a new identity and a new ticket.")]
pub(crate) struct RevokeArgs {
    /// The node, by name or id.
    pub(crate) peer: String,
    /// Why, for whoever reads it later.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Do not ask for the name to be typed.
    #[arg(short, long)]
    pub(crate) yes: bool,
}
