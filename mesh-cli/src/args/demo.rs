//! Arguments of the demo, and of the agent in it.

use std::path::PathBuf;

use clap::Args;

use crate::input::Source;

/// `demo`
#[derive(Debug, Args)]
#[command(after_help = "\
Three nodes (atlas, nova, vega) are started as processes of their own in a temporary folder, on loopback only. An \
agent on vega is asked about a text and has it counted by a Python job in gVisor on nova; the job's evidence is \
verified; vega is killed, asked again, and started again. Your own nodes are not touched. Afterwards nothing is left.

Exit codes: 0 every step held, 1 a step failed, 2 the text cannot be used.")]
pub(crate) struct DemoArgs {
    /// The text the agent is asked about, or `-` for standard input; one comes with the program.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<Source>,
    /// Leave the nodes running, and say where they are and how to stop them.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// `demo-agent`: what vega's agent is, started by its node.
#[derive(Debug, Args)]
pub(crate) struct DemoAgentArgs {
    /// The node whose sandbox counts.
    #[arg(long, value_name = "NODE")]
    pub(crate) on: String,
    /// The file that gets a line for every run.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: PathBuf,
}
