//! What the loop itself costs a step, with a scripted provider and nobody listening:
//! `cargo bench -p mesh-harness --bench loop_overhead`. The bar is 50 microseconds.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_harness::agent_loop::{AgentRun, run_agent};
use mesh_harness::host::HostEnv;
use mesh_harness::message::{JsonObject, ToolCall, ToolSpec};
use mesh_harness::provider::{ScriptedProvider, ScriptedTurn};
use mesh_harness::tool::{SharedTool, tool_fn};
use serde_json::json;

/// What a step may cost.
const BAR: Duration = Duration::from_micros(50);

/// Runs of one length that are measured.
const RUNS: usize = 200;

/// One run of so many steps, each with one tool call. The script copies every request, which is in the figure.
async fn run(steps: u32, tool: &SharedTool) -> anyhow::Result<Duration> {
    let call = |step| ScriptedTurn::calls([ToolCall::new(format!("c{step}"), "look", JsonObject::new())]);
    let turns: Vec<ScriptedTurn> = (1..steps).map(call).chain([ScriptedTurn::text("done")]).collect();
    let mut run = AgentRun::new(Arc::new(ScriptedProvider::new(turns)));
    run.host = HostEnv::fixed::<String, String>([]);
    let run = run.with_tools([tool.clone()]).with_max_steps(steps);
    let started = Instant::now();
    run_agent(run, "go").await?;
    Ok(started.elapsed())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let spec = ToolSpec::new("look", "looks", json!({"type": "object"}));
    let tool: SharedTool = Arc::new(tool_fn(spec, |_, _| async { Ok("found") }));
    let mut worst = Duration::ZERO;
    for steps in [2, 12, 100] {
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            times.push(run(steps, &tool).await? / steps);
        }
        times.sort_unstable();
        let median = times.get(RUNS / 2).copied().unwrap_or_default();
        let late = times.get(RUNS * 99 / 100).copied().unwrap_or_default();
        println!("{steps:>4} steps: {median:>9.2?} a step (median), {late:>9.2?} (99th of 100)");
        worst = worst.max(median);
    }
    println!("bar: {BAR:?} a step: {}", if worst < BAR { "kept" } else { "missed" });
    anyhow::ensure!(worst < BAR, "a step costs {worst:?}");
    Ok(())
}
