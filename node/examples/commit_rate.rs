//! How many events a second the writer makes durable on this disk, beside what one flush costs.
//!
//! `cargo run --release -p mesh-node --example commit_rate -- [directory]`
//!
//! An event writes a row of 1 KiB and removes the one a thousand before it, as an outbox does. The floor is a write of
//! 4 KiB and an `fdatasync` on the same disk; a commit is two flushes. Disks of shared machines vary: compare only
//! figures of one run.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_node::clock::NodeClock;
use mesh_node::storage::Database;
use mesh_node::writer::{Perform, WriterCore, WriterHandle, start};
use mesh_node_core::handler::{Handled, Handler};
use mesh_node_core::store::{Overlay, Record, StoreError, Table};
use mesh_node_core::time::Now;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

const MEASURE_FOR: Duration = Duration::from_secs(5);
const ROW_BYTES: usize = 1_024;

#[derive(Serialize, Deserialize)]
struct Parcel(#[serde(with = "serde_bytes")] Vec<u8>);

impl Record for Parcel {
    const TABLE: Table = Table::OutboxParcels;
    type Key = u64;
}

/// Keeps the newest thousand parcels.
struct Outbox {
    next: u64,
}

impl Handler for Outbox {
    type Event = ();
    type Action = ();
    type Reply = u64;

    fn handle(
        &mut self,
        tx: &mut Overlay<'_>,
        _: Now,
        rng: &mut dyn Rng,
        (): &(),
    ) -> Result<Handled<(), u64>, StoreError> {
        let mut body = vec![0; ROW_BYTES];
        rng.fill_bytes(&mut body);
        tx.put(&self.next, &Parcel(body));
        if let Some(old) = self.next.checked_sub(1_000) {
            tx.delete::<Parcel>(&old);
        }
        self.next += 1;
        Ok(Handled::reply(self.next))
    }

    fn describe((): &()) -> &'static str {
        "parcel"
    }
}

struct NoActions;

impl Perform<Outbox> for NoActions {
    fn perform(&mut self, (): ()) {}
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = tempfile::TempDir::new_in(parent)?;
    println!("{:<22} {:>9} {:>11} {:>11} {:>11}", "", "per s", "p50", "p99", "per commit");
    report("fdatasync of 4 KiB", flush_floor(directory.path())?, None);
    for in_flight in [1, 64, 256] {
        let path = directory.path().join(format!("{in_flight}.redb"));
        let database = Arc::new(Database::create_file(&path)?);
        let rng = Box::new(rand_chacha::ChaCha8Rng::seed_from_u64(1));
        let clock = Arc::new(NodeClock::start(None)?);
        let core = WriterCore::new(database, Outbox { next: 0 }, clock, rng, Box::new(NoActions));
        let (handle, mut writer) = start(core)?;
        let latencies = submit(&handle, in_flight).await?;
        let counts = handle.counts();
        report(&format!("{in_flight} in flight"), latencies, Some(counts.events / counts.commits.max(1)));
        handle.stop();
        writer.ended().await?;
    }
    Ok(())
}

fn flush_floor(directory: &Path) -> anyhow::Result<Vec<Duration>> {
    let file = File::create(directory.join("floor"))?;
    let page = [0x5a; 4_096];
    let end = Instant::now() + MEASURE_FOR;
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        file.write_all_at(&page, 4_096 * (latencies.len() as u64 % 256))?;
        file.sync_data()?;
        latencies.push(begin.elapsed());
    }
    Ok(latencies)
}

async fn submit(handle: &WriterHandle<Outbox>, in_flight: usize) -> anyhow::Result<Vec<Duration>> {
    let end = Instant::now() + MEASURE_FOR;
    let submitters: Vec<_> = (0..in_flight)
        .map(|_| {
            let handle = handle.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < end {
                    let begin = Instant::now();
                    handle.submit((), ROW_BYTES).await?;
                    latencies.push(begin.elapsed());
                }
                anyhow::Ok(latencies)
            })
        })
        .collect();
    let mut all = Vec::new();
    for submitter in submitters {
        all.extend(submitter.await??);
    }
    Ok(all)
}

fn report(what: &str, mut latencies: Vec<Duration>, per_commit: Option<u64>) {
    latencies.sort_unstable();
    let at = |percent: usize| latencies.get(latencies.len() * percent / 100).copied().unwrap_or_default();
    let per_second = latencies.len() as u64 / MEASURE_FOR.as_secs();
    let per_commit = per_commit.map_or_else(String::new, |events| events.to_string());
    println!("{what:<22} {per_second:>9} {:>11.2?} {:>11.2?} {per_commit:>11}", at(50), at(99));
}
