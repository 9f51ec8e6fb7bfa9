//! What a node takes that does nothing: disk, memory, and the time until it answers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::mesh::{Mesh, Node, PROGRAM};
use crate::report::Report;

/// How long a node does nothing before its memory is looked at.
const IDLE_FOR: Duration = Duration::from_secs(10);

/// Starts measured.
const STARTS: usize = 10;

/// Starts `atlas` again and again, then leaves both nodes alone and looks.
pub(crate) async fn measure(report: &mut Report, mesh: &mut Mesh) -> anyhow::Result<()> {
    report.bytes("the program, as built for release, stripped", fs::metadata(PROGRAM)?.len())?;
    let mut times = Vec::new();
    for _ in 0..STARTS {
        mesh.atlas.stop().await?;
        times.push(mesh.atlas.start().await?);
    }
    report.times("`up --foreground` until its socket answers", &times)?;
    mesh.linked().await?;
    tokio::time::sleep(IDLE_FOR).await;
    resident(report, "idle node with one peer, jobs off", &mesh.atlas)?;
    resident(report, "idle node with one peer, jobs on", &mesh.nova)
}

fn resident(report: &mut Report, what: &str, node: &Node) -> anyhow::Result<()> {
    let rollup = node.proc()?.join("smaps_rollup");
    report.bytes(format!("{what}: RSS"), kilobytes(&rollup, "Rss:")? * 1_024)?;
    report.bytes(format!("{what}: PSS"), kilobytes(&rollup, "Pss:")? * 1_024)
}

/// A field of `smaps_rollup` (proc_pid_smaps(5)), in KiB.
fn kilobytes(rollup: &Path, field: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(rollup)?;
    let line = text.lines().find(|line| line.starts_with(field)).context("a field of smaps_rollup")?;
    Ok(line.split_whitespace().nth(1).context("its value")?.parse()?)
}
