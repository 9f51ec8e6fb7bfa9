//! The first page of help: every command once, by what people come to do.

use std::fmt::Write as _;

use clap::Command;

use crate::style::{self, KEY, LITERAL};

/// The groups, in the order people meet them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Make a mesh", &["init", "invite", "join", "up", "down"]),
    ("Work", &["ask", "send", "run", "cancel"]),
    (
        "Look",
        &[
            "status", "who", "flights", "jobs", "messages", "outbox", "ping", "explain", "whoami", "logs",
            "doctor",
        ],
    ),
    ("Trust", &["allow", "deny", "block", "unblock", "revoke", "keys", "verify"]),
    ("This machine", &["demo", "setup", "check", "mcp-server", "completions"]),
];

const EXAMPLES: [&str; 3] = [
    "mesh-cli init && mesh-cli up && mesh-cli invite",
    "mesh-cli ask @reviewer.node:atlas \"review the last commit\"",
    "echo 'print(6 * 7)' | mesh-cli run --language python -",
];

/// The parser with the overview as the first page of its help.
pub(crate) fn added_to(parser: Command) -> Command {
    let mut page = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        let _ = write!(page, "\n{}\n", style::paint(KEY, format_args!("{title}:")));
        for name in names {
            let about = parser.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(page, "  {}{about}", style::paint(LITERAL, format_args!("{name:13}")));
        }
    }
    let _ = write!(page, "\n{{options}}\n\n{}", style::paint(KEY, "Examples:"));
    for example in EXAMPLES {
        let _ = write!(page, "\n  {example}");
    }
    parser.help_template(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_the_overview_once() {
        let parser = <crate::args::Cli as clap::CommandFactory>::command();
        let mut shown: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut known: Vec<&str> = parser
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        shown.sort_unstable();
        known.sort_unstable();
        assert_eq!(shown, known);
    }
}
