//! Durable messages: from the request at one node until that node knows that the other has it on its disk.
//!
//! A message is accepted with a commit at `atlas`, sent, applied with a commit at `nova`, and acknowledged; then it
//! leaves the outbox, whose count is what is looked at. So a time includes two HTTP exchanges on the Unix socket (the
//! request, and the look that found it gone) and at most one pause between looks. With many under way, which of them
//! was acknowledged is known by order: an outbox acknowledges from its front.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mesh_node::client::{Client, ClientError};
use mesh_protocol::api::ask::SendRequest;
use mesh_protocol::api::error::ErrorKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::mesh::Mesh;
use crate::report::Report;

/// Bytes of a message's text.
pub(crate) const BODY_BYTES: usize = 1_024;

/// How long messages are sent.
const MEASURE_FOR: Duration = Duration::from_secs(5);

/// The pause between looks, and before a request that found the API full is made again.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// A message that was accepted: when its request began, and its place among those under way.
type Accepted = (Instant, OwnedSemaphorePermit);

/// Keeps this many messages under way for a while.
pub(crate) async fn measure(report: &mut Report, mesh: &Mesh, in_flight: usize) -> anyhow::Result<()> {
    let (accepted, arrivals) = mpsc::channel(in_flight);
    let begun = Instant::now();
    let sending = tokio::spawn(send_all(mesh.atlas.client.clone(), in_flight, accepted));
    let times = watch(&mesh.atlas.client, arrivals).await?;
    let took = begun.elapsed();
    sending.await??;
    report.rated(
        format!("send 1 KiB, durable at both, acknowledged: {in_flight} at once"),
        &times,
        Some(took),
    )
}

async fn send_all(client: Client, in_flight: usize, accepted: mpsc::Sender<Accepted>) -> anyhow::Result<()> {
    let room = Arc::new(Semaphore::new(in_flight));
    let mut requests = tokio::task::JoinSet::new();
    let end = Instant::now() + MEASURE_FOR;
    while Instant::now() < end {
        let place = Arc::clone(&room).acquire_owned().await?;
        let (client, accepted) = (client.clone(), accepted.clone());
        requests.spawn(async move {
            let started = Instant::now();
            send(&client).await?;
            accepted.send((started, place)).await.context("somebody watches")
        });
        while let Some(done) = requests.try_join_next() {
            done??;
        }
    }
    while let Some(done) = requests.join_next().await {
        done??;
    }
    Ok(())
}

/// Sends one message. A node takes a bounded number of requests at once; one more is made again.
async fn send(client: &Client) -> anyhow::Result<()> {
    let request = SendRequest { to: "@echo".to_owned(), body: "x".repeat(BODY_BYTES), request_id: None };
    loop {
        match client.send(&request).await {
            Err(ClientError::Refused(error)) if error.kind == ErrorKind::Busy => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            answer => return Ok(answer.map(drop)?),
        }
    }
}

/// Looks at the outbox until all that was accepted is acknowledged; how long each message took.
async fn watch(client: &Client, mut arrivals: mpsc::Receiver<Accepted>) -> anyhow::Result<Vec<Duration>> {
    let (mut waiting, mut times) = (VecDeque::new(), Vec::new());
    loop {
        if waiting.is_empty() {
            match arrivals.recv().await {
                Some(message) => waiting.push_back(message),
                None => return Ok(times),
            }
        }
        while let Ok(message) = arrivals.try_recv() {
            waiting.push_back(message);
        }
        // What was accepted before the look and is not in the outbox then, is acknowledged. Messages whose request is
        // still under way may be counted too: that errs to the long side.
        let outboxes = client.outboxes().await?;
        let unacknowledged = usize::try_from(outboxes.iter().map(|peer| peer.outbox.count).sum::<u64>())?;
        let now = Instant::now();
        while waiting.len() > unacknowledged {
            times.extend(waiting.pop_front().map(|(started, _place)| now - started));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
