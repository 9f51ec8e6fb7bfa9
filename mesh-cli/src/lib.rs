//! The command line of a mesh: arguments in, calls of the node's API, text or JSON out.
//!
//! ```text
//!   args ──> commands ──> client of the node's Unix socket (mesh_node::client)
//!                │
//!                ├──> render   API types to text, pure
//!                ├──> printer  the only writer
//!                └──> exit     the only table of exit codes
//! ```
//!
//! Nothing is decided here that another way in could not decide too: what a peer may do, where a job runs and how an
//! ask ends are the node's. Two commands hold a node themselves: `up --foreground` runs it, `init` and `join` make it.

mod args;
mod commands;
mod daemon;
mod demo;
mod environment;
mod exit;
mod failure;
mod foreign;
mod founding;
mod input;
mod invocation;
mod job_files;
mod lines;
mod logging;
mod measure;
mod printer;
mod prompt;
mod render;
mod style;
mod table;
mod wrap;

use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::printer::{Printer, Stream, Verbosity};

/// Runs the program with the arguments and the environment of this process.
#[must_use]
pub fn main() -> ExitCode {
    match args::parse() {
        Ok(cli) => run(cli).into(),
        Err(error) => complain(&error).into(),
    }
}

/// Help and version are answers; everything else the parser says is wrong usage.
fn complain(error: &clap::Error) -> Exit {
    let printer = Printer::new(anstream::ColorChoice::Auto, Verbosity::Normal, false);
    let (stream, exit) =
        if error.use_stderr() { (Stream::Err, Exit::Usage) } else { (Stream::Out, Exit::Done) };
    printer.usage(stream, &error.render().ansi().to_string());
    exit
}

fn run(cli: Cli) -> Exit {
    let invocation = Invocation::new(&cli.global);
    logging::start(cli.global.verbosity(), cli.command.as_ref());
    let result = runtime(&cli).map_err(Failure::Runtime).and_then(|runtime| {
        let result = runtime.block_on(until_interrupted(&invocation, cli));
        // A thread may still be waiting for standard input; nothing else is left to wait for.
        runtime.shutdown_background();
        result
    });
    let exit = result.unwrap_or_else(|failure| {
        let report = failure.into_report();
        invocation.printer.failure(&report.error, &report.causes);
        report.exit
    });
    match invocation.printer.take_failure() {
        Some(error) => {
            let report = Failure::Output(error).into_report();
            invocation.printer.failure(&report.error, &report.causes);
            report.exit
        }
        None => exit,
    }
}

/// A node needs threads; one request does not, and starts sooner without.
fn runtime(cli: &Cli) -> std::io::Result<Runtime> {
    let mut builder = if cli.serves() { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.enable_all().build()
}

async fn until_interrupted(invocation: &Invocation, cli: Cli) -> Result<Exit, Failure> {
    let serves = cli.serves();
    let work = Box::pin(commands::dispatch(invocation, cli.command));
    // A node and an adapter stop in their own order.
    if serves {
        return work.await;
    }
    tokio::select! {
        result = work => result,
        Ok(()) = tokio::signal::ctrl_c() => {
            invocation.printer.leave_second_screen();
            if let Some(what) = invocation.left_running() {
                invocation.printer.note(&format!("\n{what}"));
            }
            Ok(Exit::Interrupted)
        }
    }
}
