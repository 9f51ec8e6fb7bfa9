//! Many runs at once, and what they leave behind: nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_harness::agent_loop::{AgentRun, run_agent};
use mesh_harness::provider::{ScriptedProvider, ScriptedTurn};
use mesh_harness::tool::{SharedTool, tool_fn};

use crate::stand_ins::{calling, no_host, spec};

/// Runs at once.
const RUNS: usize = 1000;

/// Memory that this process holds, KiB.
fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or_else(|| anyhow::anyhow!("no VmRSS"))?.trim().parse()?)
}

/// Open files of this process.
fn open_files() -> anyhow::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// A thousand runs that are all under way before any may end.
async fn round() -> anyhow::Result<()> {
    let barrier = Arc::new(tokio::sync::Barrier::new(RUNS));
    let met = Arc::new(AtomicUsize::new(0));
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..RUNS {
        let (barrier, met) = (barrier.clone(), met.clone());
        let meet = tool_fn(spec("meet"), move |_, _| {
            let (barrier, met) = (barrier.clone(), met.clone());
            async move {
                barrier.wait().await;
                met.fetch_add(1, Ordering::SeqCst);
                Ok("x".repeat(1024))
            }
        });
        let turns = [calling("a", "meet"), ScriptedTurn::text("done")];
        let mut run = AgentRun::new(Arc::new(ScriptedProvider::new(turns)));
        run.host = no_host();
        runs.spawn(run_agent(run.with_tools([Arc::new(meet) as SharedTool]), "go"));
    }
    while let Some(ended) = runs.join_next().await {
        assert_eq!(ended??, "done");
    }
    assert_eq!(met.load(Ordering::SeqCst), RUNS, "all were under way at once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_runs_at_once_leave_nothing_behind() -> anyhow::Result<()> {
    // The allocator keeps what the first rounds needed; what later ones add would be a leak.
    for _ in 0..8 {
        round().await?;
    }
    let (memory, files) = (resident()?, open_files()?);
    for _ in 0..12 {
        round().await?;
    }
    let grown = resident()?.saturating_sub(memory);
    // 12,000 runs that kept a tool's answer each would be 12 MiB more.
    assert!(grown < 4096, "{grown} KiB more after 12 rounds");
    assert_eq!(open_files()?, files);
    Ok(())
}
