//! A cold job through the mesh, beside the sandbox alone and a bare `runsc` with the same bundle.
//!
//! The three take turns, so that each meets the same machine. No sandbox is kept warm for any of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobSpec, JobStatus};
use mesh_sandbox::{Cancel, Job, JobObserver, Language, Outcome, Sandbox, SandboxConfig};

use crate::mesh::Mesh;
use crate::report::{Report, percentile};

/// The program, and what it prints.
const CODE: (&str, &[u8]) = ("print(1)", b"1\n");

/// Runs of each kind.
const RUNS: usize = 15;

/// Seconds a job may take.
const RESULT_SECONDS: u64 = 60;

/// Runs jobs all three ways, where this machine has a sandbox.
pub(crate) async fn measure(report: &mut Report, mesh: &Mesh, root: &Path) -> anyhow::Result<()> {
    let dir = root.join("bare");
    let bare = match tokio::task::spawn_blocking(move || Bare::prepare(&dir)).await? {
        Ok(bare) => bare,
        Err(error) => return report.skipped("jobs in gVisor", format!("{error:#}")),
    };
    let offers =
        mesh.nova.status_when("nova offers its sandbox", |status| !status.executor.classes.is_empty());
    offers.await?;
    let (mut through_mesh, mut alone, mut bares) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..RUNS {
        through_mesh.push(job(mesh).await?);
        alone.push(tokio::task::block_in_place(|| bare.sandboxed())?);
        bares.push(tokio::task::block_in_place(|| bare.run(number))?);
    }
    report.times("floor: bare `runsc run` of print(1)", &bares)?;
    report.times("print(1) in our sandbox, without a node", &alone)?;
    report.times("print(1) on another node, result and evidence read", &through_mesh)?;
    let (ours, floor) = (percentile(&through_mesh, 50), percentile(&bares, 50));
    report.ratio("job through the mesh / bare runsc", ours, floor)?;
    report.ratio("job through the mesh / our sandbox alone", ours, percentile(&alone, 50))
}

async fn job(mesh: &Mesh) -> anyhow::Result<Duration> {
    let spec = JobSpec {
        language: mesh_protocol::job::Language::Python,
        code: CODE.0.to_owned(),
        stdin: String::new(),
        limits: JobLimits::default(),
        minimum_isolation: IsolationClass::GvisorApplicationKernel,
    };
    let on = Some("nova".to_owned());
    let started = Instant::now();
    let client = &mesh.atlas.client;
    let receipt = client.run(&RunRequest { spec, on, idempotency_key: None, deadline_seconds: None }).await?;
    let job = client.job_result(receipt.job_id, RESULT_SECONDS).await?;
    let took = started.elapsed();
    ensure!(job.status == JobStatus::Succeeded, "{:?}: {:?}", job.status, job.result);
    Ok(took)
}

/// The sandbox without a node, and the bundle of one of its jobs.
struct Bare {
    sandbox: Sandbox,
    job: Job,
    cancel: Cancel,
    bundle: PathBuf,
}

impl Bare {
    /// Proves the sandbox and copies the bundle of one job.
    fn prepare(dir: &Path) -> anyhow::Result<Self> {
        let config = SandboxConfig::new(dir, format!("bench-{}", std::process::id()));
        let sandbox = Sandbox::preflight(&config).sandbox?;
        let (job, cancel) = (Job::new(Language::Python, CODE.0), Cancel::new()?);
        let to = dir.join("copy");
        sandbox.run(&job, &cancel, &mut Copy { jobs: &config.home.join("jobs"), to: &to })?;
        Ok(Self { sandbox, job, cancel, bundle: to.join("bundle") })
    }

    /// One job without a node.
    fn sandboxed(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let report = self.sandbox.run(&self.job, &self.cancel, &mut ())?;
        ensure!(report.outcome == Outcome::Succeeded, "{:?}", report.outcome);
        Ok(started.elapsed())
    }

    /// One bare run, with the options the sandbox uses and nobody watching.
    fn run(&self, number: usize) -> anyhow::Result<Duration> {
        let state = self.bundle.with_file_name(format!("state-{number}"));
        fs::create_dir_all(&state)?;
        let line = format!(
            "exec runsc --root {} --network=none --ignore-cgroups --platform=systrap --directfs=false \
             --overlay2=none --oci-seccomp --host-uds=none --watchdog-action=panic run --pass-fd=3:3 --bundle {} \
             bare-{}-{number} 3> /dev/null",
            state.display(),
            self.bundle.display(),
            std::process::id(),
        );
        let started = Instant::now();
        let output = Command::new("bash").arg("-c").arg(line).stdin(Stdio::null()).output()?;
        let took = started.elapsed();
        ensure!(output.stdout == CODE.1, "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_dir_all(&state).context("gVisor's state")?;
        Ok(took)
    }
}

/// Copies the bundle of the job that became ready, so that it can be run again without the sandbox.
struct Copy<'a> {
    jobs: &'a Path,
    to: &'a Path,
}

impl JobObserver for Copy<'_> {
    fn ready(&mut self) {
        let Some(job) = fs::read_dir(self.jobs).ok().and_then(|mut jobs| jobs.next()?.ok()) else { return };
        let parts = ["bundle", "code", "input"].map(|part| job.path().join(part));
        // What is missing shows when the copy is run.
        let _ = fs::create_dir_all(self.to);
        let _ = Command::new("cp").arg("-a").args(parts).arg(self.to).status();
        let config = self.to.join("bundle/config.json");
        if let (Ok(text), Some(old), Some(new)) =
            (fs::read_to_string(&config), job.path().to_str(), self.to.to_str())
        {
            let _ = fs::write(&config, text.replace(old, new));
        }
    }
}
