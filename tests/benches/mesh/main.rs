//! What the shipped product costs, measured between real processes on loopback and put beside what the machine itself
//! takes for the same.
//!
//! ```text
//!   this program ── Unix socket, HTTP ──> atlas ── QUIC on 127.0.0.1 ──> nova ──> /bin/cat, gVisor
//!        └── floors: fdatasync, one commit, one process, a bare runsc
//! ```
//! Both nodes are `up --foreground` of the same `main` as the installed program, each with a home of its own; homes and
//! floors share a file system, and everything shares the processors. Figures of two runs can be compared only when the
//! machine was as busy: the load average stands beside each. Nothing here passes or fails.
//!
//! `cargo bench -p mesh-tests --bench mesh [-- --json] [-- --messages]`, the last for messages alone.

#![expect(clippy::print_stdout, reason = "measurements are printed")]

mod asks;
mod floor;
mod jobs;
mod mesh;
mod messages;
mod nats;
mod report;
mod resident;

use anyhow::Context as _;

use mesh::Mesh;
use report::Report;

/// Messages under way at once, for which the rate is measured.
const IN_FLIGHT: [usize; 2] = [64, 128];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` says so; a test runner that starts every target must not wait minutes for this one.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut report = Report::new(arguments.iter().any(|argument| argument == "--json"))?;
    let root = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;

    let mut mesh = Mesh::found(root.path()).await.context("a mesh of two processes")?;
    resident::measure(&mut report, &mut mesh).await?;
    floor::fdatasync(&mut report, root.path())?;
    messages::alone(&mut report, &mesh, root.path()).await?;
    for in_flight in IN_FLIGHT {
        let alone = messages::measure(&mut report, &mesh, in_flight).await?;
        let together = messages::in_batches(&mut report, &mesh, in_flight).await?;
        nats::compare(&mut report, root.path(), in_flight, [&alone, &together]).await?;
    }
    if !arguments.iter().any(|argument| argument == "--messages") {
        asks::measure(&mut report, &mesh, root.path()).await?;
        jobs::measure(&mut report, &mesh, root.path()).await?;
    }
    mesh.stop().await?;
    report.finish()
}
