//! Durable messages: from the request at one node until it answers that the other has the message on its disk.
//!
//! Each is one HTTP request on the Unix socket that waits for all of it, or one of many in such a request. What it should be compared with is taken in the same
//! run: one commit and one round trip of the link for a message alone, and [`crate::nats`] for many.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use mesh_node::client::Client;
use mesh_protocol::api::ask::{SendBatch, SendRequest, Sent};

use crate::floor::{BareCommits, Commits};
use crate::mesh::Mesh;
use crate::report::{Report, percentile};

/// Bytes of a message's text.
pub(crate) const BODY_BYTES: usize = 1_024;

pub(crate) const MEASURE_FOR: Duration = Duration::from_secs(5);

/// How long one may take, seconds.
const WITHIN_SECONDS: u64 = 60;

/// Requests at once when each has many messages.
const REQUESTS: usize = 4;

/// Messages sent alone.
const ALONE: usize = 500;

/// What was measured: how long each took, and the whole.
pub(crate) struct Rate {
    pub(crate) times: Vec<Duration>,
    pub(crate) took: Duration,
}

impl Rate {
    pub(crate) fn per_second(&self) -> f64 {
        u32::try_from(self.times.len()).map_or(f64::INFINITY, f64::from) / self.took.as_secs_f64()
    }
}

/// Keeps this many messages under way for a while.
pub(crate) async fn measure(report: &mut Report, mesh: &Mesh, in_flight: usize) -> anyhow::Result<Rate> {
    let begun = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..in_flight {
        callers.spawn(send_until(mesh.atlas.client.clone(), begun + MEASURE_FOR));
    }
    let mut times = Vec::new();
    while let Some(of_one) = callers.join_next().await {
        times.extend(of_one??);
    }
    let rate = Rate { times, took: begun.elapsed() };
    report.rated(name(in_flight), &rate.times, Some(rate.took))?;
    Ok(rate)
}

/// Keeps this many messages under way for a while, in a few requests of many messages each. The time of a message is that
/// of its request.
pub(crate) async fn in_batches(report: &mut Report, mesh: &Mesh, in_flight: usize) -> anyhow::Result<Rate> {
    let begun = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..REQUESTS {
        let client = mesh.atlas.client.clone();
        callers.spawn(send_batches_until(client, in_flight / REQUESTS, begun + MEASURE_FOR));
    }
    let mut times = Vec::new();
    while let Some(of_one) = callers.join_next().await {
        times.extend(of_one??);
    }
    let rate = Rate { times, took: begun.elapsed() };
    let each = in_flight / REQUESTS;
    let name = format!("the same, {REQUESTS} requests of {each} messages each");
    report.rated(name, &rate.times, Some(rate.took))?;
    Ok(rate)
}

async fn send_batches_until(client: Client, size: usize, end: Instant) -> anyhow::Result<Vec<Duration>> {
    let batch = SendBatch { messages: vec![message(); size] };
    let mut times = Vec::new();
    while Instant::now() < end {
        let started = Instant::now();
        let sent = client.send_batch(&batch, WITHIN_SECONDS).await?.messages;
        let arrived = |sent: &Sent| matches!(sent, Sent::Receipt(receipt) if receipt.state == "delivered");
        ensure!(sent.len() == size && sent.iter().all(arrived), "a message was not delivered in time");
        times.extend(std::iter::repeat_n(started.elapsed(), size));
    }
    Ok(times)
}

/// One message after another, each beside what it cannot do without: a commit, and a way there and back.
pub(crate) async fn alone(report: &mut Report, mesh: &Mesh, root: &Path) -> anyhow::Result<()> {
    let mut floor = Commits::new(&root.join("alone.redb"))?;
    let mut bare_floor = BareCommits::new(&root.join("bare.redb"))?;
    let (mut times, mut commits, mut bare, mut round_trips) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ALONE {
        times.push(send(&mesh.atlas.client).await?);
        commits.push(tokio::task::block_in_place(|| floor.one())?);
        bare.push(tokio::task::block_in_place(|| bare_floor.one())?);
        let peers = mesh.atlas.client.status().await?.peers;
        round_trips.extend(peers.iter().filter_map(|peer| peer.rtt_us).map(Duration::from_micros));
    }
    report.times("floor: one commit of redb, a 1 KiB row", &bare)?;
    report.times("one commit of ours, a 1 KiB row", &commits)?;
    report.times("floor: round trip of the link, as QUIC estimates it", &round_trips)?;
    report.times(name(1), &times)?;
    let [measured, bare, commit, round_trip] =
        [&times, &bare, &commits, &round_trips].map(|times| percentile(times, 50));
    report.ratio("send, 1 at once / (1 commit of redb + 1 round trip)", measured, bare + round_trip)?;
    report.ratio("send, 1 at once / (2 commits of ours + 1 round trip)", measured, 2 * commit + round_trip)
}

fn name(in_flight: usize) -> String {
    format!("send 1 KiB, durable at both, acknowledged: {in_flight} at once")
}

async fn send_until(client: Client, end: Instant) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    while Instant::now() < end {
        times.push(send(&client).await?);
    }
    Ok(times)
}

fn message() -> SendRequest {
    SendRequest { to: "@echo".to_owned(), body: "x".repeat(BODY_BYTES), request_id: None }
}

async fn send(client: &Client) -> anyhow::Result<Duration> {
    let request = message();
    let started = Instant::now();
    let receipt = client.send(&request, WITHIN_SECONDS).await?;
    ensure!(receipt.state == "delivered", "a message was not delivered in time: {}", receipt.state);
    Ok(started.elapsed())
}
