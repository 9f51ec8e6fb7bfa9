//! Finds out what can run here, once, at the start.
//!
//! What is found is told twice: to the operator in full, to other members in words that hold no path of this machine.

use std::error::Error;
use std::path::PathBuf;
use std::thread::available_parallelism;

use mesh_protocol::api::node::{Check, ExecutorView};
use mesh_sandbox::limits::ARMED_MIB;
use mesh_sandbox::{
    Language, PoolConfig, Probe, RuntimeError, RuntimePack, Sandbox, SandboxConfig, SandboxError,
};

use super::{ExecutorOptions, ExecutorReport, translation};
use crate::limits::EXECUTOR_SLOTS_MAX;

/// What a node says of its sandbox where its operator wants none.
pub const SWITCHED_OFF: &str = "jobs are switched off in its configuration";

/// Sweeps, and opens the sandbox if jobs are to run here and can. Blocks for seconds.
pub(super) fn prepare(options: &ExecutorOptions) -> (Option<Sandbox>, ExecutorReport) {
    let config = config(options);
    if !options.enabled {
        return (None, disabled(&config));
    }
    let preflight = Sandbox::preflight(&config);
    let mut checks: Vec<Check> = preflight.probes.iter().map(check).collect();
    match preflight.sandbox {
        Ok(sandbox) => {
            let view = offer(&sandbox, slots(options));
            (Some(sandbox), ExecutorReport { view, checks })
        }
        Err(error) => {
            tracing::info!(error = &error as &dyn Error, hint = error.hint(), "no jobs run here");
            // A preflight that failed early has not swept yet.
            checks.extend(sweep(&config));
            (None, ExecutorReport { view: unavailable(public_reason(&error)), checks })
        }
    }
}

fn config(options: &ExecutorOptions) -> SandboxConfig {
    let config = SandboxConfig::new(&options.dir, options.instance.clone());
    let kept = PoolConfig::default();
    let armed = options.ready.map_or(kept.armed, usize::from);
    // Whoever asks for many pays for many.
    let memory_mb = kept.memory_mb.max(armed as u64 * Language::ALL.len() as u64 * ARMED_MIB);
    SandboxConfig {
        pool: PoolConfig { armed, memory_mb, ..kept },
        rootfs: options.rootfs.clone().unwrap_or(config.rootfs),
        runsc: options.runsc.clone(),
        bounds: translation::bounds(),
        shared_kernel: options.shared_kernel,
        packs: options.packs.iter().map(pack).collect(),
        ..config
    }
}

pub(super) fn pack((name, source): (&String, &PathBuf)) -> RuntimePack {
    RuntimePack { name: name.clone(), source: source.clone() }
}

fn disabled(config: &SandboxConfig) -> ExecutorReport {
    let off = Check {
        name: "executor".to_owned(),
        verdict: "ok".to_owned(),
        finding: "jobs are switched off in the configuration".to_owned(),
        fix: None,
    };
    let checks = std::iter::once(off).chain(sweep(config)).collect();
    ExecutorReport { view: unavailable(SWITCHED_OFF.to_owned()), checks }
}

/// Clears away what an earlier process left, if one ever ran jobs here. Returns what went wrong.
fn sweep(config: &SandboxConfig) -> Option<Check> {
    if !config.home.exists() {
        return None;
    }
    let error = Sandbox::sweep(config).err()?;
    tracing::warn!(error = &error as &dyn Error, "what earlier jobs left is not cleared away");
    Some(Check {
        name: "sandbox-sweep".to_owned(),
        verdict: "warn".to_owned(),
        finding: error.to_string(),
        fix: Some(error.hint().to_owned()),
    })
}

pub(super) fn check(probe: &Probe) -> Check {
    Check {
        name: format!("sandbox-{}", probe.name.replace(' ', "-")),
        verdict: if probe.ok { "ok" } else { "warn" }.to_owned(),
        finding: probe.finding.clone(),
        fix: probe.hint.map(str::to_owned),
    }
}

fn offer(sandbox: &Sandbox, slots: u16) -> ExecutorView {
    let capabilities = sandbox.capabilities();
    ExecutorView {
        classes: translation::isolation(capabilities.isolation_class).into_iter().collect(),
        languages: capabilities.languages.iter().map(|found| found.language.name().to_owned()).collect(),
        slots: slots.into(),
        running: 0,
        runtimes: Some(capabilities.packs.iter().map(|pack| pack.name.clone()).collect()),
        unavailable: None,
    }
}

fn unavailable(reason: String) -> ExecutorView {
    ExecutorView { unavailable: Some(reason), ..ExecutorView::default() }
}

fn slots(options: &ExecutorOptions) -> u16 {
    let processors = || available_parallelism().ok().and_then(|count| u16::try_from(count.get()).ok());
    options.slots.or_else(processors).unwrap_or(1).clamp(1, EXECUTOR_SLOTS_MAX)
}

/// Why there is no sandbox, for anyone.
fn public_reason(error: &SandboxError) -> String {
    const SETUP: &str = "`mesh-cli setup gvisor` installs it";
    const DOCTOR: &str = "`mesh-cli doctor` there says more";
    match error {
        SandboxError::Runtime(RuntimeError::Absent) => format!("gVisor is not installed; {SETUP}"),
        SandboxError::Runtime(RuntimeError::TooOld { .. }) => format!("gVisor is too old; {SETUP}"),
        SandboxError::Runtime(_) => format!("gVisor cannot be used; {SETUP}"),
        SandboxError::Rootfs(_) => format!("there is no root file system for jobs; {DOCTOR}"),
        SandboxError::InUse { .. } => format!("another process runs jobs in its place; {DOCTOR}"),
        SandboxError::Unproven { probe } => format!("its sandbox did not pass the {probe} probe; {DOCTOR}"),
        _ => format!("its sandbox cannot be opened; {DOCTOR}"),
    }
}
