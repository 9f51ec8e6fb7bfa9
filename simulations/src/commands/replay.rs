//! `mesh-simulations replay`: plays one seed again and prints what was done and what was broken.

use std::time::Instant;

use clap::Args;
use mesh_simulations::whole::scenario::{DEFAULT, Scenario};
use mesh_simulations::whole::{Operation, operations, play};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The seed.
    #[arg(long, value_name = "S")]
    seed: u64,
    /// The kind of world: a name, or a file.
    #[arg(long, value_name = "F", default_value = DEFAULT)]
    scenario: String,
    /// Of its operations, only those at these places; all of them when absent.
    #[arg(long, value_name = "PLACES", value_delimiter = ',')]
    keep: Vec<usize>,
    /// Have the nodes say on standard error what they log.
    #[arg(long)]
    log: bool,
}

/// Plays the seed; whether every invariant held.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let scenario = Scenario::find(&arguments.scenario)?;
    let kept = |(place, _): &(usize, Operation)| arguments.keep.is_empty() || arguments.keep.contains(place);
    let list: Vec<_> = operations(arguments.seed, &scenario).into_iter().enumerate().filter(kept).collect();
    for (place, operation) in &list {
        println!("{place:>4}  {operation}");
    }
    let list: Vec<Operation> = list.into_iter().map(|(_, operation)| operation).collect();
    if arguments.log {
        let filter = tracing_subscriber::EnvFilter::new(
            std::env::var("RUST_LOG").unwrap_or_else(|_| "info,quinn=warn,quinn_proto=warn".to_owned()),
        );
        tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stderr).init();
    }
    let started = Instant::now();
    let outcome = play(arguments.seed, &scenario, &list)?;
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
