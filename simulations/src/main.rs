//! `mesh-simulations outbox [--schedules N] [--seed S] [--mutant NAME]`: runs schedules and prints what they came to.
//! Exit code 1 when an invariant was broken, 2 for arguments it does not know.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::process::ExitCode;

use mesh_simulations::outbox::{Campaign, Mutant, run};

const USAGE: &str = "usage: mesh-simulations outbox [--schedules N] [--seed S] [--mutant NAME]";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(campaign) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    let report = run(campaign)?;
    println!("{report}");
    for (_, seed) in report.violations.values() {
        let mutant = campaign.mutant.map(|mutant| format!(" --mutant {mutant:?}")).unwrap_or_default();
        println!("replay: cargo run -p mesh-simulations -- outbox --schedules 1 --seed {seed}{mutant}");
    }
    Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> Option<Campaign> {
    let (command, options) = arguments.split_first()?;
    let mut campaign = Campaign { seed: 0, schedules: 20_000, mutant: None };
    for pair in options.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--schedules" => campaign.schedules = value.parse().ok()?,
            "--seed" => campaign.seed = value.parse().ok()?,
            "--mutant" => campaign.mutant = Some(Mutant::named(value)?),
            _ => return None,
        }
    }
    (command == "outbox").then_some(campaign)
}
