//! `mesh-simulations crash-points`: stops machines at operations of their disks and prints what became of it.

use clap::Args;
use mesh_simulations::crash::{self, Campaign, Control, Point, Prepared};

/// Failures shown with the command that replays them.
const SHOWN: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many points.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    points: usize,
    /// The seed whose points come first.
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
    /// Only every n-th point.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    stride: u32,
    /// One point of the first seed: `a:operation:7`, `b:commit:7`.
    #[arg(long, value_name = "POINT")]
    at: Option<Point>,
    /// Both disks lie about syncs, which must be noticed.
    #[arg(long)]
    lying_disks: bool,
}

/// Runs the points; whether every invariant held.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let control = if arguments.lying_disks { Control::LyingDisks } else { Control::Honest };
    if let Some(point) = arguments.at {
        let outcome = crash::simulate(&Prepared::new()?, arguments.from, Some(point), control)?;
        println!("{outcome:#?}");
        return Ok(outcome.violations.is_empty());
    }
    let stride = usize::try_from(arguments.stride)?;
    let campaign = Campaign { seed: arguments.from, points: arguments.points, stride, step: 1, control };
    let report = crash::run(campaign)?;
    println!("{report}");
    for failure in report.failures.iter().take(SHOWN) {
        let lying = if arguments.lying_disks { " --lying-disks" } else { "" };
        let at = failure.point.map(|point| format!(" --at {point}"));
        // Without a point no machine stops: any number beyond the last does that.
        let at = at.unwrap_or_else(|| " --at a:commit:1000000".to_owned());
        println!(
            "BROKEN {:?}; replay: cargo run -p mesh-simulations -- crash-points --from {}{at}{lying}",
            failure.violation, failure.seed
        );
    }
    if report.failures.len() > SHOWN {
        println!("and {} more", report.failures.len() - SHOWN);
    }
    Ok(report.failures.is_empty())
}
