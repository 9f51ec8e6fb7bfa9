//! Logs: for whoever looks into a fault, on standard error, off unless asked for. A node in the foreground says what it
//! does without being asked, and the adapter of an agent's host what goes wrong.
//!
//! Logs are not the program's voice: what a user must know is printed by [`crate::printer`].

use tracing_subscriber::EnvFilter;

use crate::args::{Command, UpArgs};

/// Starts writing logs; `verbosity` is how often `-v` was given. `RUST_LOG` wins.
pub(crate) fn start(verbosity: u8, command: Option<&Command>) {
    let foreground = matches!(command, Some(Command::Up(UpArgs { foreground: true })));
    let level = match (verbosity, foreground) {
        (0, true) => "info",
        (0, false) if matches!(command, Some(Command::McpServer)) => "warn",
        (0, false) => "off",
        (1, _) => "mesh=debug,info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // Fails only where a program around this one logs already; then it decides.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}
