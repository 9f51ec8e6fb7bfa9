//! `mesh-simulations dials`: pairs that dial each other in the same moment.

use clap::Args;
use mesh_simulations::whole::dials::meet;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many pairs.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    seeds: u64,
    /// The first one's seed; each later one's is one more.
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
}

/// Lets them meet; whether each pair ended with one connection.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let meetings = meet(arguments.from, arguments.seeds)?;
    println!("{meetings}");
    Ok(meetings.failures().next().is_none())
}
