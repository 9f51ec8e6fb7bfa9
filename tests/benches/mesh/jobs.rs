//! A job through the mesh, beside the sandbox alone and a bare `runsc` with the same bundle.
//!
//! The three take turns, so that each meets the same machine. The node keeps sandboxes ready, as it does for anyone; the
//! other two start theirs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::job::{JobSpec, JobStatus};
use mesh_sandbox::{Cancel, Job, Language, Outcome, PoolConfig, Sandbox, SandboxConfig};

use crate::mesh::Mesh;
use crate::report::{Report, percentile};

#[path = "../../../sandbox/benches/bare.rs"]
#[expect(dead_code, reason = "jobs of a node are compared with an ordinary bundle alone")]
mod bare;

use bare::{Bare, Root};

/// The program.
const CODE: &str = "print(1)";

/// Runs of each kind.
const RUNS: usize = 15;

/// Seconds a job may take.
const RESULT_SECONDS: u64 = 60;

/// Runs jobs all three ways, where this machine has a sandbox.
pub(crate) async fn measure(report: &mut Report, mesh: &Mesh, root: &Path) -> anyhow::Result<()> {
    let dir = root.join("alone");
    let alone = match tokio::task::spawn_blocking(move || Alone::prepare(&dir)).await? {
        Ok(alone) => alone,
        Err(error) => return report.skipped("jobs in gVisor", format!("{error:#}")),
    };
    let offers =
        mesh.nova.status_when("nova offers its sandbox", |status| !status.executor.classes.is_empty());
    offers.await?;
    let (mut through_mesh, mut without, mut bares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        through_mesh.push(job(mesh).await?);
        without.push(tokio::task::block_in_place(|| alone.sandboxed())?);
        bares.push(tokio::task::block_in_place(|| alone.bare())?);
    }
    report.times("floor: bare `runsc run` of print(1)", &bares)?;
    report.times("print(1) in our sandbox, without a node", &without)?;
    report.times("print(1) on another node, result and evidence read", &through_mesh)?;
    let (ours, floor) = (percentile(&through_mesh, 50), percentile(&bares, 50));
    report.ratio("job through the mesh / bare runsc", ours, floor)?;
    report.ratio("job through the mesh / our sandbox alone", ours, percentile(&without, 50))
}

async fn job(mesh: &Mesh) -> anyhow::Result<Duration> {
    let spec = JobSpec::new(mesh_protocol::job::Language::Python, CODE);
    let on = Some("nova".to_owned());
    let started = Instant::now();
    let client = &mesh.atlas.client;
    let receipt = client.run(&RunRequest { on, ..RunRequest::new(spec) }).await?;
    let job = client.job_result(receipt.job_id, RESULT_SECONDS).await?;
    let took = started.elapsed();
    ensure!(job.status == JobStatus::Succeeded, "{:?}: {:?}", job.status, job.result);
    Ok(took)
}

/// The sandbox without a node, and a bare run of the same program.
struct Alone {
    sandbox: Sandbox,
    bare: Bare,
    job: Job,
    cancel: Cancel,
}

impl Alone {
    /// Proves the sandbox and takes its bundle.
    fn prepare(dir: &Path) -> anyhow::Result<Self> {
        let pool = PoolConfig { armed: 0, ..PoolConfig::default() };
        let config =
            SandboxConfig { pool, ..SandboxConfig::new(dir, format!("bench-{}", std::process::id())) };
        let sandbox = Sandbox::preflight(&config).sandbox?;
        let bare = Bare::prepare(&dir.join("bare"), &sandbox, &config, Language::Python, Root::Directory)
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Self { sandbox, bare, job: Job::new(Language::Python, CODE), cancel: Cancel::new()? })
    }

    /// One job without a node.
    fn sandboxed(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let report = self.sandbox.run(&self.job, &self.cancel, &mut ())?;
        ensure!(report.outcome == Outcome::Succeeded, "{:?}", report.outcome);
        Ok(started.elapsed())
    }

    /// One run of `runsc` with nobody watching.
    fn bare(&self) -> anyhow::Result<Duration> {
        self.bare.run().map_err(|error| anyhow::anyhow!("{error}"))
    }
}
