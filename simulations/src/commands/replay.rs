//! `mesh-simulations replay`: plays one seed again and prints what was done and what was broken.

use std::time::Instant;

use clap::Args;
use mesh_simulations::whole::scenario::{DEFAULT, Scenario};
use mesh_simulations::whole::{operations, simulate};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The seed.
    #[arg(long, value_name = "S")]
    seed: u64,
    /// The kind of world: a name, or a file.
    #[arg(long, value_name = "F", default_value = DEFAULT)]
    scenario: String,
}

/// Plays the seed; whether every invariant held.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let scenario = Scenario::find(&arguments.scenario)?;
    for operation in operations(arguments.seed, &scenario) {
        println!("{operation}");
    }
    let started = Instant::now();
    let outcome = simulate(arguments.seed, &scenario)?;
    let wall = started.elapsed().as_secs_f64();
    println!("trace  {}", outcome.trace);
    println!("{:?}", outcome.tally);
    println!("{:.0} virtual seconds a second", outcome.tally.virtual_ms as f64 / 1_000.0 / wall);
    for exit in &outcome.exits {
        println!("{exit}");
    }
    for broken in &outcome.broken {
        println!("BROKEN {broken}");
    }
    Ok(outcome.broken.is_empty())
}
