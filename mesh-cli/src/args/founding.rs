//! Arguments of the commands that make a mesh and its nodes.

use clap::Args;
use mesh_protocol::address::Name;
use mesh_protocol::policy::Trust;

use super::duration;

/// `init`
#[derive(Debug, Args)]
#[command(after_help = "Safe to repeat: a home that has a mesh is left as it is.")]
pub(crate) struct InitArgs {
    /// What this node is called; this machine's name when absent.
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// What other nodes may do here unless a ticket or `mesh-cli allow` says otherwise: mine, team or
    /// none.
    #[arg(long, default_value = "none")]
    pub(crate) trust: Trust,
}

/// `invite`
#[derive(Debug, Args)]
#[command(after_help = "\
The ticket is a secret: whoever has the line can join, once. On the other machine type \
`mesh-cli join -` and paste it, or send it through a pipe, so that it is in no shell history:

  mesh-cli invite --quiet | ssh atlas mesh-cli join -

Trust: `mine` lets the node do everything here; `team` lets it find, message and ask agents of \
this node, and run no jobs; `none` nothing until `mesh-cli allow` says so.")]
pub(crate) struct InviteArgs {
    /// How long the ticket can be used: 90s, 15m, 1h, 7d.
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = duration::seconds)]
    pub(crate) ttl: u64,
    /// What the node that joins may do here: mine, team or none.
    #[arg(long, default_value = "none")]
    pub(crate) trust: Trust,
}

/// `join`
#[derive(Debug, Args)]
#[command(after_help = "\
`mesh-cli join -` reads the ticket from standard input. Prefer it: arguments can be read by other \
users of this machine and stay in the shell's history.")]
pub(crate) struct JoinArgs {
    /// The ticket that `mesh-cli invite` printed, or `-` to read it from standard input.
    pub(crate) ticket: String,
    /// What this node is called; this machine's name when absent.
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// What other nodes may do here unless `mesh-cli allow` says otherwise: mine, team or none.
    #[arg(long, default_value = "none")]
    pub(crate) trust: Trust,
}

/// `up`
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Run here until stopped, for a service manager; logs go to standard error.
    #[arg(long)]
    pub(crate) foreground: bool,
}
