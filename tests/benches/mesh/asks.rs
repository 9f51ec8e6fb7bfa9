//! An ask and its answer across two nodes, beside the durable steps and round trips it cannot do without.
//!
//! The steps: accepted at `atlas`, taken by `nova`, its run ended at `nova`, its outcome applied at `atlas`; each is a
//! commit that must be on disk before the next begins. The round trips: the request and its outcome. A time includes
//! two HTTP exchanges on the Unix socket, and the agent's own process. Asks and floors take turns, so that each meets
//! the same disk.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mesh_protocol::api::ask::AskCommand;
use mesh_protocol::flight::FlightOutcome;

use crate::floor::{self, Commits};
use crate::mesh::Mesh;
use crate::report::{Report, percentile};

/// Asks made, one after another.
const ASKS: usize = 200;

/// Commits that follow each other between an ask and its answer.
const COMMITS: u32 = 4;

/// Ways to the other node and back.
const ROUND_TRIPS: u32 = 2;

/// Seconds an answer may take.
const ANSWER_SECONDS: u64 = 60;

/// Asks and waits for the answer, again and again.
pub(crate) async fn measure(report: &mut Report, mesh: &Mesh, root: &Path) -> anyhow::Result<()> {
    let mut floor = Commits::new(&root.join("asks.redb"))?;
    let (mut times, mut commits, mut processes, mut round_trips) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ASKS {
        times.push(ask(mesh).await?);
        let peers = mesh.atlas.client.status().await?.peers;
        round_trips.extend(peers.iter().filter_map(|peer| peer.rtt_us).map(Duration::from_micros));
        commits.push(tokio::task::block_in_place(|| floor.one())?);
        processes.push(floor::process().await?);
    }
    report.times("floor: one commit of a 1 KiB row", &commits)?;
    report.times("floor: /bin/cat started, fed, read, collected", &processes)?;
    report.times("floor: round trip of the link, as QUIC estimates it", &round_trips)?;
    report.times("ask another node's /bin/cat, answer read", &times)?;
    let [measured, commit, process, round_trip] =
        [&times, &commits, &processes, &round_trips].map(|times| percentile(times, 50));
    let steps = commit * COMMITS + round_trip * ROUND_TRIPS;
    report.ratio("ask / (4 commits + 2 round trips)", measured, steps)?;
    report.ratio("ask / (4 commits + 2 round trips + /bin/cat)", measured, steps + process)
}

async fn ask(mesh: &Mesh) -> anyhow::Result<Duration> {
    let task = "say this back";
    let command = AskCommand {
        to: "@echo".to_owned(),
        task: task.to_owned(),
        request_id: None,
        deadline_seconds: None,
    };
    let started = Instant::now();
    let receipt = mesh.atlas.client.ask(&command).await?;
    let flight = receipt.flight_id.context("an ask has a flight")?;
    let flight = mesh.atlas.client.flight(&flight.to_string(), ANSWER_SECONDS).await?;
    let took = started.elapsed();
    let expected = Some(FlightOutcome::Completed { reply: task.to_owned() });
    ensure!(flight.outcome == expected, "{:?}", flight.outcome);
    Ok(took)
}
