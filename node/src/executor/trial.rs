//! Whether this machine can run jobs, tried without a node.
//!
//! It tries what a node tries at its start, with the same settings, in a place of its own; so it may be asked while a
//! node runs here. What it leaves is the root file system of jobs, which a node of this home would make too.

use std::fs;
use std::path::Path;

use mesh_protocol::api::node::Check;
use mesh_sandbox::{PoolConfig, Sandbox, SandboxConfig};

use super::{preparation, translation};
use crate::home::ExecutorSection;

/// Every probe with its finding, and what to do about one that went wrong: a failure where it keeps jobs from being run
/// here, otherwise a warning. Blocks for seconds: call it on a thread that may. `dir` is a home's directory, and is
/// made when it is missing.
#[must_use]
pub fn check_machine(dir: &Path, section: &ExecutorSection) -> Vec<Check> {
    let place = dir.join("check");
    let config = SandboxConfig {
        home: place.clone(),
        runsc: section.runsc.clone(),
        bounds: translation::bounds(),
        shared_kernel: section.allows_shared_kernel(),
        packs: section.packs.iter().map(preparation::pack).collect(),
        pool: PoolConfig { armed: 0, ..PoolConfig::default() },
        ..SandboxConfig::new(dir, format!("check-{}", std::process::id()))
    };
    let preflight = Sandbox::preflight(&config);
    let mut checks: Vec<Check> = preflight.probes.iter().map(preparation::check).collect();
    match &preflight.sandbox {
        Ok(sandbox) => checks.push(Check {
            name: "sandbox".to_owned(),
            verdict: "ok".to_owned(),
            finding: format!("jobs run here, in {}", sandbox.capabilities().isolation_class),
            fix: None,
        }),
        Err(error) => {
            checks.iter_mut().filter(|check| check.verdict != "ok").for_each(|check| {
                "fail".clone_into(&mut check.verdict);
            });
            checks.push(Check {
                name: "sandbox".to_owned(),
                verdict: "fail".to_owned(),
                finding: format!("no jobs run here: {error}"),
                fix: Some(error.hint().to_owned()),
            });
        }
    }
    // It ends and removes what it ran before its place goes.
    drop(preflight);
    let _ = fs::remove_dir_all(&place);
    checks
}
