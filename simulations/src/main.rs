//! `mesh-simulations`: whole meshes and their parts in virtual time, by the thousand. One command a file.
//!
//! Exit code 0 when every invariant held, 1 when one was broken, 2 for arguments it does not know.

#![expect(clippy::print_stdout, reason = "a command line program")]

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Whole meshes and their parts in virtual time, on the shipped code.
#[derive(Debug, Parser)]
#[command(name = "mesh-simulations", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Whole meshes of membership: joining, noticing, healing, and what they cost.
    Members(commands::members::Arguments),
    /// Random schedules against one outbox and its inbox.
    Outbox(commands::outbox::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    let held = match Arguments::parse().command {
        Command::Members(arguments) => commands::members::run(&arguments)?,
        Command::Outbox(arguments) => commands::outbox::run(&arguments)?,
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
