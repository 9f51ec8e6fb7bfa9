//! `mesh-simulations`: whole meshes and their parts in virtual time, by the thousand. One command a file.
//!
//! Exit code 0 when every invariant held, 1 when one was broken, 2 for arguments it does not know.

#![expect(clippy::print_stdout, reason = "a command line program")]

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A seed makes and drops whole nodes, and each thread has its own: the system's allocator asks the kernel for memory
/// much more often, a page at a time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whole meshes and their parts in virtual time, on the shipped code.
#[derive(Debug, Parser)]
#[command(name = "mesh-simulations", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Two durable sides, stopped at every operation of their disks.
    CrashPoints(commands::crash_points::Arguments),
    /// Pairs that dial each other in the same moment, over real QUIC.
    Dials(commands::dials::Arguments),
    /// Whole meshes of membership: joining, noticing, healing, and what they cost.
    Members(commands::members::Arguments),
    /// Random schedules against one outbox and its inbox.
    Outbox(commands::outbox::Arguments),
    /// Seeds of whole nodes: real QUIC, TLS and database, on a network and disks in memory.
    Run(commands::run::Arguments),
    /// One of these seeds again.
    Replay(commands::replay::Arguments),
    /// A failing seed with as few operations as will do.
    Shrink(commands::shrink::Arguments),
    /// The same seeds as before, and what differs.
    Report(commands::report::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    let held = match Arguments::parse().command {
        Command::CrashPoints(arguments) => commands::crash_points::run(&arguments)?,
        Command::Dials(arguments) => commands::dials::run(&arguments)?,
        Command::Members(arguments) => commands::members::run(&arguments)?,
        Command::Outbox(arguments) => commands::outbox::run(&arguments)?,
        Command::Run(arguments) => commands::run::run(&arguments)?,
        Command::Replay(arguments) => commands::replay::run(&arguments)?,
        Command::Shrink(arguments) => commands::shrink::run(&arguments)?,
        Command::Report(arguments) => commands::report::run(&arguments)?,
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
