//! `mesh-simulations report`: runs the same seeds as at an earlier time and prints what differs from then.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use mesh_simulations::whole::scenario::Scenario;
use mesh_simulations::whole::{Baseline, Campaign, Figures, run as play};

/// What is compared when nothing is named.
const SCENARIOS: [&str; 3] = ["whole", "calm", "lossy"];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The file with the earlier numbers.
    #[arg(long, value_name = "FILE", default_value = "simulations/baseline.toml")]
    baseline: PathBuf,
    /// How many seeds of each scenario.
    #[arg(long, value_name = "N", default_value_t = 10)]
    seeds: u64,
    /// The kinds of world: names, or files.
    #[arg(long, value_name = "F", default_values = SCENARIOS)]
    scenario: Vec<String>,
    /// Keep the new numbers in the file.
    #[arg(long)]
    write: bool,
}

/// Runs and compares; whether every invariant held.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let Arguments { baseline: file, seeds, scenario, write } = arguments;
    let mut baseline: Baseline = match fs::read_to_string(file) {
        Ok(text) => toml::from_str(&text).with_context(|| format!("{} is no baseline", file.display()))?,
        Err(_) if *write => Baseline::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let mut held = true;
    for name in scenario {
        let report = play(&Campaign { scenario: Scenario::find(name)?, from: 0, seeds: *seeds })?;
        println!("{report}");
        held &= report.failures().next().is_none();
        let figures = Figures::from(&report);
        match baseline.get(name).map(|before| figures.differences(before)) {
            None => println!("nothing to compare with"),
            Some(differences) if differences.is_empty() => println!("as before"),
            Some(differences) => differences.iter().for_each(|line| println!("{line}")),
        }
        println!();
        baseline.insert(name.clone(), figures);
    }
    if *write {
        let text = toml::to_string(&baseline)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(held)
}
