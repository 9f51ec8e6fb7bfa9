//! `mesh-simulations outbox`: runs schedules and prints what they came to.

use clap::Args;
use mesh_simulations::outbox::{self, Campaign, Mutant};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many schedules.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    schedules: u64,
    /// The first one's seed; each later one's is one more.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// A mistake to make on purpose, which must be noticed.
    #[arg(long, value_name = "NAME", value_parser = mutant)]
    mutant: Option<Mutant>,
}

fn mutant(name: &str) -> Result<Mutant, String> {
    let known = || Mutant::ALL.map(|mutant| format!("{mutant:?}")).join(", ");
    Mutant::named(name).ok_or_else(|| format!("no such mutant; there are {}", known()))
}

/// Runs the schedules; whether every invariant held.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let Arguments { schedules, seed, mutant } = *arguments;
    let report = outbox::run(Campaign { seed, schedules, mutant })?;
    println!("{report}");
    for (_, seed) in report.violations.values() {
        let mutant = mutant.map(|mutant| format!(" --mutant {mutant:?}")).unwrap_or_default();
        println!("replay: cargo run -p mesh-simulations -- outbox --schedules 1 --seed {seed}{mutant}");
    }
    Ok(report.violations.is_empty())
}
