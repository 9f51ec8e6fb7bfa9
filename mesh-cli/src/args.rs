//! What can be typed. Only the shape is here; what a command does is in [`crate::commands`].
//!
//! Secrets are never arguments, with one exception that has a way round it: `join` takes a ticket, and also reads it
//! from standard input.

mod asking;
mod demo;
mod duration;
mod founding;
mod keys;
mod looking;
mod overview;
mod running;
mod trusting;

pub(crate) use asking::{AskArgs, CancelArgs, FlightsArgs, MessagesArgs, SendArgs, WhoArgs};
pub(crate) use demo::{DemoAgentArgs, DemoArgs};
pub(crate) use founding::{InitArgs, InviteArgs, JoinArgs, UpArgs};
pub(crate) use keys::{KeyAddArgs, KeysArgs, KeysCommand};
pub(crate) use looking::{
    CompletionsArgs, ExplainArgs, LogsArgs, OutboxArgs, PingArgs, SetupArgs, SetupTarget, StatusArgs,
    Subject, Topic, VerifyArgs,
};
pub(crate) use running::{
    InputArg, JobAttestationArgs, JobListArgs, JobLogsArgs, JobResultArgs, JobsArgs, JobsCommand, RunArgs,
};
pub(crate) use trusting::{AllowArgs, BlockArgs, DenyArgs, RevokeArgs, UnblockArgs};

use std::path::PathBuf;

use anstream::ColorChoice;
use clap::{ArgAction, Args, FromArgMatches as _, Parser, Subcommand};

use crate::printer::{Printer, Verbosity};
use crate::wrap::WIDTH_MAX;

/// Ask agents and run code on any machine of your mesh.
#[derive(Debug, Parser)]
#[command(name = "mesh-cli", bin_name = "mesh-cli", version, max_term_width = WIDTH_MAX, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do; with nothing, show how things are and what comes next.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The node's directory.
    #[arg(long, global = true, env = crate::environment::MESH_HOME, hide_env = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print one JSON document, the same as the node's API gives.
    #[arg(long, global = true)]
    json: bool,
    /// Print answers and errors, nothing else.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Write logs to standard error; twice for more.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// When to use colour.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    color: clap::ColorChoice,
    /// Never ask anything; fail where a yes is needed.
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
}

impl Global {
    /// The voice these arguments choose.
    pub(crate) fn printer(&self) -> Printer {
        let color = match self.color {
            clap::ColorChoice::Auto => ColorChoice::Auto,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        };
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, _) => Verbosity::Verbose,
        };
        Printer::new(color, verbosity, self.json)
    }

    /// How often `-v` was given.
    pub(crate) const fn verbosity(&self) -> u8 {
        self.verbose
    }
}

/// The commands. Their first line is what the overview shows.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a mesh with this machine as its first node.
    Init(InitArgs),
    /// Print a ticket that lets one node join.
    Invite(InviteArgs),
    /// Join a mesh with a ticket.
    Join(JoinArgs),
    /// Start this machine's node.
    Up(UpArgs),
    /// Stop this machine's node.
    Down,
    /// Show this node, its peers and its work.
    Status(StatusArgs),
    /// Measure the way to a node, and say which way it is.
    Ping(PingArgs),
    /// List the agents that can be asked.
    Who(WhoArgs),
    /// Give an agent work and wait for its answer.
    Ask(AskArgs),
    /// Leave an agent a message, with no work to track.
    Send(SendArgs),
    /// List asks, or show or await one.
    Flights(FlightsArgs),
    /// List messages, newest first.
    Messages(MessagesArgs),
    /// Run a Python, Node.js or Bash program in a sandbox.
    Run(RunArgs),
    /// List jobs, or show, follow, stop or await one.
    Jobs(JobsArgs),
    /// Stop an ask or a job.
    Cancel(CancelArgs),
    /// Show what waits for peers that cannot be reached.
    Outbox(OutboxArgs),
    /// Let a peer do something here.
    Allow(AllowArgs),
    /// Stop letting a peer do something here.
    Deny(DenyArgs),
    /// Have nothing to do with a peer, on this node only.
    Block(BlockArgs),
    /// Take a block back.
    Unblock(UnblockArgs),
    /// Expel a node from the mesh, for everyone and for good.
    Revoke(RevokeArgs),
    /// Make, list or end keys of the job API.
    Keys(KeysArgs),
    /// Check the evidence of a job, offline.
    Verify(VerifyArgs),
    /// Find out what is wrong, and how to mend it.
    Doctor,
    /// Try whether this machine can run jobs; needs no node.
    Check,
    /// Show who you are to the node.
    Whoami,
    /// Show what the node in the background wrote.
    Logs(LogsArgs),
    /// Install what jobs need on this machine.
    Setup(SetupArgs),
    /// Show a mesh of three nodes at work, on this machine alone.
    Demo(DemoArgs),
    /// The agent of the demo.
    #[command(hide = true)]
    DemoAgent(DemoAgentArgs),
    /// Serve the Model Context Protocol on standard input and output.
    McpServer,
    /// Explain how a node is reached, exit codes or variables.
    Explain(ExplainArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
}

impl Cli {
    /// Whether this is a server that runs until it is stopped, in its own order.
    pub(crate) const fn serves(&self) -> bool {
        matches!(self.command, Some(Command::McpServer | Command::Up(UpArgs { foreground: true })))
    }
}

/// The parser, with its overview of commands by task.
pub(crate) fn parser() -> clap::Command {
    overview::added_to(<Cli as clap::CommandFactory>::command())
}

/// What was typed.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&parser().try_get_matches()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_consistent() {
        parser().debug_assert();
    }

    #[test]
    fn no_argument_is_a_command_too() {
        let matches = parser().try_get_matches_from(["mesh-cli"]).unwrap();
        assert!(Cli::from_arg_matches(&matches).unwrap().command.is_none());
    }
}
