//! `mesh-simulations members`: what a mesh of some size takes to join, to notice and to heal.

use std::time::Instant;

use anyhow::ensure;
use clap::Args;
use mesh_simulations::members::{Setting, crowd, measure};

/// The smallest mesh that can be split.
const NODES_MIN: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 100)]
    nodes: usize,
    /// Datagrams lost, in percent.
    #[arg(long, value_name = "P", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=50))]
    loss: u32,
    /// How long the halves are apart, in seconds.
    #[arg(long, value_name = "T", default_value_t = 60)]
    split_seconds: u64,
    /// Simulate only so many of them whole, and of the others what an idle neighbour shows: for a mesh too large for
    /// memory.
    #[arg(long, value_name = "N", conflicts_with_all = ["loss", "split_seconds"])]
    whole: Option<usize>,
    /// How many runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// The first one's seed; each later one's is one more.
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
}

/// Runs the meshes and prints their figures; whether all joined, healed and blamed nobody wrongly.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let Arguments { nodes, loss, split_seconds, whole, seeds, from } = *arguments;
    ensure!(nodes >= NODES_MIN, "a mesh to be split has {NODES_MIN} nodes at least");
    ensure!(split_seconds >= 1, "a split of no time is none");
    if let Some(whole) = whole {
        ensure!(
            (1..nodes.saturating_sub(1)).contains(&whole),
            "the whole ones are some of the nodes, and not all"
        );
        return Ok((from..from.saturating_add(seeds)).fold(true, |well, seed| well & few(nodes, whole, seed)));
    }
    let mut all_well = true;
    for seed in from..from.saturating_add(seeds) {
        println!("{nodes} nodes, {loss} % loss, a split of {split_seconds} s, seed {seed}");
        let (began, before) = (Instant::now(), resident_bytes());
        let mut most = 0;
        let mut last: Option<(&str, Instant)> = None;
        let setting = Setting { nodes, loss_percent: loss, split_s: split_seconds, seed };
        let figures = measure(setting, |phase| {
            most = most.max(resident_bytes());
            if let Some((name, since)) = last {
                println!("  {name:<8} took {:.1} s of real time", since.elapsed().as_secs_f64());
            }
            last = Some((phase, Instant::now()));
        });
        println!("{figures}");
        let each = most.saturating_sub(before) / nodes.max(1) as u64;
        println!("memory, a node      {} KB, with records of one content shared by all", each / 1_000);
        println!("real time           {:.1} s\n", began.elapsed().as_secs_f64());
        let well = figures.join_ms.is_some() && figures.heal_ms.is_some() && figures.false_verdicts == 0;
        if !well {
            println!(
                "replay: cargo run --release -p mesh-simulations -- members --nodes {nodes} --loss {loss} \
                 --split-seconds {split_seconds} --from {seed}"
            );
        }
        all_well &= well;
    }
    Ok(all_well)
}

/// Measures a few nodes of a mesh that is too large; whether all went well.
fn few(nodes: usize, whole: usize, seed: u64) -> bool {
    println!("{nodes} nodes, {whole} of them whole, seed {seed}");
    let mut phases: Vec<(&str, Instant, u64)> = Vec::new();
    let figures = crowd::measure(crowd::Setting { nodes, whole, seed }, |phase| {
        if let Some((name, since, _)) = phases.last() {
            println!("  {name:<10} took {:.1} s of real time", since.elapsed().as_secs_f64());
        }
        phases.push((phase, Instant::now(), resident_bytes()));
    });
    println!("{figures}");
    let of = |name: &str| phases.iter().position(|(phase, ..)| *phase == name);
    let resident = |name: &str| of(name).and_then(|at| phases.get(at)).map_or(0, |(_, _, bytes)| *bytes);
    let each = resident("idle").saturating_sub(resident("start")) / (whole * nodes).max(1) as u64;
    println!(
        "memory              {each} bytes a member at each node, with records of one content shared by all"
    );
    if let Some(at) = of("idle")
        && let (Some((_, began, _)), Some((_, ended, _))) = (phases.get(at), phases.get(at + 1))
    {
        let rate = figures.idle_events as f64 / (*ended - *began).as_secs_f64();
        println!("events              {rate:.0} a second of one core, while idle\n");
    }
    figures.linked_ms.is_some() && figures.noticed_ms.is_some() && figures.false_verdicts == 0
}

/// Memory of this process, or nothing where the system does not say.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * PAGE_BYTES
}
