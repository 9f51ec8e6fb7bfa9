//! `mesh-simulations run`: runs seeds of whole nodes and prints what they came to.

use clap::Args;
use mesh_simulations::whole::scenario::{DEFAULT, Scenario};
use mesh_simulations::whole::{Campaign, run as play};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many seeds.
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// The first seed; each later one's is one more.
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
    /// The kind of world: a name, or a file.
    #[arg(long, value_name = "F", default_value = DEFAULT)]
    scenario: String,
}

/// Runs the seeds; whether every invariant held.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let scenario = Scenario::find(&arguments.scenario)?;
    let report = play(&Campaign { scenario, from: arguments.from, seeds: arguments.seeds })?;
    println!("{report}");
    Ok(report.failures().next().is_none())
}
