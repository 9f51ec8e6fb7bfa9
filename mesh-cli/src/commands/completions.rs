//! `completions`: a script that lets a shell complete this program's commands and flags.

use clap_complete::generate;

use crate::args::{self, CompletionsArgs};
use crate::exit::Exit;
use crate::invocation::Invocation;

/// Prints the script.
pub(crate) fn completions(invocation: &Invocation, args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    generate(args.shell, &mut args::parser(), "mesh-cli", &mut script);
    invocation.printer.text(&String::from_utf8_lossy(&script));
    Exit::Done
}
