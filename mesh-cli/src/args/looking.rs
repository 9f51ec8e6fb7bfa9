//! Arguments of the commands that look at the node, at evidence and at this machine.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use crate::input::Source;

/// `status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show it again every two seconds, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// `outbox`
#[derive(Debug, Args)]
pub(crate) struct OutboxArgs {
    /// Throw away what waits for this peer, by name or id.
    #[arg(long, value_name = "PEER")]
    pub(crate) discard: Option<String>,
    /// Do not ask before throwing it away.
    #[arg(short, long, requires = "discard")]
    pub(crate) yes: bool,
}

/// `logs`
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// How many lines, from the end.
    #[arg(short = 'n', long, default_value_t = 100, value_name = "LINES")]
    pub(crate) lines: usize,
}

/// `verify`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("trusted").args(["keys", "root"])))]
#[command(after_help = "\
Needs no node and no network. A valid signature says who claims what; it does not say that the \
job went well. The outcome that was signed is shown beside it.

Exit codes: 0 authentic and complete, 1 does not verify, 2 unreadable, 5 authentic but incomplete.")]
pub(crate) struct VerifyArgs {
    /// The evidence, as `run --evidence` saved it, or a signed envelope; `-` for standard input.
    pub(crate) file: Source,
    /// Trust this Ed25519 key: 64 hex digits, a node id, or a PEM file; may be given again.
    #[arg(long = "key", value_name = "KEY|FILE")]
    pub(crate) keys: Vec<String>,
    /// How many of the keys must have signed.
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "keys")]
    pub(crate) threshold: usize,
    /// Trust every node this mesh's root certificate (a PEM or DER file) let in; the root.crt of this machine's node
    /// when neither is given.
    #[arg(long, value_name = "FILE")]
    pub(crate) root: Option<PathBuf>,
    /// The job it must be about.
    #[arg(long, value_name = "ID")]
    pub(crate) expect_job: Option<String>,
    /// On whose behalf it must have run: `node/tenant`, as the receipt has it.
    #[arg(long, value_name = "TENANT")]
    pub(crate) expect_tenant: Option<String>,
    /// The result it must be about, in a file of its own.
    #[arg(long, value_name = "FILE")]
    pub(crate) artifact: Option<PathBuf>,
    /// The folder with the files the job left, each of which must be what was signed.
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
}

/// `setup`
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// What to set up.
    #[command(subcommand)]
    pub(crate) target: SetupTarget,
}

/// What can be set up.
#[derive(Debug, Subcommand)]
pub(crate) enum SetupTarget {
    /// Install gVisor and the languages jobs are written in.
    Gvisor {
        /// Do it without asking.
        #[arg(short, long)]
        yes: bool,
        /// Only print what would be done.
        #[arg(long, conflicts_with = "yes")]
        dry_run: bool,
    },
}

/// `ping`
#[derive(Debug, Args)]
#[command(after_help = "\
The question goes to the node itself and back, by the way everything else goes: directly, or \
relayed by another member.

Exit codes: 0 it answered, 1 there is no such node, 3 it cannot be reached now, 4 it is shut out.")]
pub(crate) struct PingArgs {
    /// The node, by name or id.
    pub(crate) node: String,
    /// How often to ask, a second apart.
    #[arg(short, long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
}

/// `explain`
#[derive(Debug, Args)]
#[command(after_help = "\
For a node: the way in use, what was tried and what came of it, what other members say when asked \
now, what waits for it, and the next command. A node that is called like a topic goes by its id.")]
pub(crate) struct ExplainArgs {
    /// A node, by name or id; or `exit-codes` or `environment`.
    #[arg(value_name = "NODE|TOPIC", value_parser = subject)]
    pub(crate) subject: Subject,
}

/// What `explain` is about.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// A table of this program's.
    Topic(Topic),
    /// A node.
    Node(String),
}

/// A topic, or else a node.
fn subject(text: &str) -> Result<Subject, std::convert::Infallible> {
    Ok(match Topic::from_str(text, false) {
        Ok(topic) => Subject::Topic(topic),
        Err(_) => Subject::Node(text.to_owned()),
    })
}

/// What can be explained without a node.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Topic {
    /// What each exit code means.
    ExitCodes,
    /// Which environment variables are read.
    Environment,
}

/// `completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell.
    pub(crate) shell: clap_complete::Shell,
}
