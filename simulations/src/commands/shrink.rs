//! `mesh-simulations shrink`: finds a short list of operations that still breaks what a seed breaks.

use clap::Args;
use mesh_simulations::whole::scenario::{DEFAULT, Scenario};
use mesh_simulations::whole::{replay_command, shrink};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The seed.
    #[arg(long, value_name = "S")]
    seed: u64,
    /// The kind of world: a name, or a file.
    #[arg(long, value_name = "F", default_value = DEFAULT)]
    scenario: String,
    /// How many lists to play at most.
    #[arg(long, value_name = "N", default_value_t = 500)]
    tries: usize,
}

/// Shrinks the failure; whether there was none.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let scenario = Scenario::find(&arguments.scenario)?;
    let Some(shrunk) = shrink(arguments.seed, &scenario, arguments.tries)? else {
        println!("seed {} breaks nothing", arguments.seed);
        return Ok(true);
    };
    for (place, operation) in &shrunk.operations {
        println!("{place:>4}  {operation}");
    }
    println!("{} of {} operations after {} tries", shrunk.operations.len(), shrunk.of, shrunk.tries);
    println!("BROKEN {}: {}", shrunk.invariant, shrunk.how);
    let places: Vec<String> = shrunk.operations.iter().map(|(place, _)| place.to_string()).collect();
    let command = replay_command(arguments.seed, &arguments.scenario);
    println!("replay: {command} --keep {}", places.join(","));
    Ok(false)
}
