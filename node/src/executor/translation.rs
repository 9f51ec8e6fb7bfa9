//! The mesh's words for a job and the sandbox's, which knows no mesh: every conversion between the two.

use mesh_protocol::evidence::receipt::{self, Outcome};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobSpec, Language, OUTPUT_BYTES_MAX};
use mesh_sandbox::{Bound, Bounds, InputFile, Job, RequestedLimits};

/// The class a sandbox names; `None` for one that promises nothing.
pub(super) const fn isolation(class: mesh_sandbox::IsolationClass) -> Option<IsolationClass> {
    match class {
        mesh_sandbox::IsolationClass::None => None,
        mesh_sandbox::IsolationClass::LinuxSharedKernel => Some(IsolationClass::LinuxSharedKernel),
        mesh_sandbox::IsolationClass::GvisorApplicationKernel => {
            Some(IsolationClass::GvisorApplicationKernel)
        }
    }
}

/// The job the sandbox is to run.
pub(super) fn job(spec: &JobSpec) -> Job {
    let language = match spec.language {
        Language::Python => mesh_sandbox::Language::Python,
        Language::Node => mesh_sandbox::Language::Node,
        Language::Bash => mesh_sandbox::Language::Bash,
    };
    let JobLimits { wall_seconds, cpu_seconds, mem_mb, max_pids, max_file_mb, allow_network: _ } =
        spec.limits;
    let limits = RequestedLimits {
        wall_seconds: Some(wall_seconds.into()),
        cpu_seconds: Some(cpu_seconds.into()),
        mem_mb: Some(mem_mb.into()),
        max_pids: Some(max_pids.into()),
        max_file_mb: Some(max_file_mb.into()),
        output_bytes: Some(OUTPUT_BYTES_MAX as u64),
    };
    let inputs = spec
        .files
        .iter()
        .map(|file| InputFile { path: below("input/", &file.path), contents: file.content.0.clone() });
    Job {
        stdin: spec.stdin.clone().into_bytes(),
        limits,
        inputs: inputs.collect(),
        outputs: spec.outputs.iter().map(|path| below(OUTPUT, path)).collect(),
        runtime: spec.runtime.clone(),
        ..Job::new(language, spec.code.clone())
    }
}

/// Where the files that a job leaves lie.
pub(super) const OUTPUT: &str = "output/";

/// A path as the sandbox has it: below its folder.
fn below(folder: &str, path: &str) -> String {
    path.strip_prefix(folder).unwrap_or(path).to_owned()
}

/// What jobs of the mesh may use. The sandbox's own least number of processes stands: with fewer it does not start.
pub(super) fn bounds() -> Bounds {
    let (min, default, max) = (JobLimits::MIN, JobLimits::default(), JobLimits::MAX);
    let bound = |limit: fn(&JobLimits) -> u32| Bound {
        min: limit(&min).into(),
        default: limit(&default).into(),
        max: limit(&max).into(),
    };
    let own = Bounds::default();
    let output = OUTPUT_BYTES_MAX as u64;
    Bounds {
        wall_seconds: bound(|limits| limits.wall_seconds),
        cpu_seconds: bound(|limits| limits.cpu_seconds),
        mem_mb: bound(|limits| limits.mem_mb),
        max_pids: Bound { min: own.max_pids.min, ..bound(|limits| limits.max_pids) },
        max_file_mb: bound(|limits| limits.max_file_mb),
        output_bytes: Bound { min: own.output_bytes.min, default: output, max: output },
    }
}

/// How a job ended.
pub(super) const fn outcome(outcome: mesh_sandbox::Outcome) -> Outcome {
    match outcome {
        mesh_sandbox::Outcome::Succeeded => Outcome::Succeeded,
        mesh_sandbox::Outcome::Failed => Outcome::Failed,
        mesh_sandbox::Outcome::TimedOut => Outcome::TimedOut,
        mesh_sandbox::Outcome::OomKilled => Outcome::OomKilled,
        mesh_sandbox::Outcome::Cancelled => Outcome::Cancelled,
        mesh_sandbox::Outcome::Error => Outcome::Error,
    }
}

/// Which limits were enforced.
pub(super) const fn enforcement(enforced: mesh_sandbox::LimitEnforcement) -> receipt::LimitEnforcement {
    let mesh_sandbox::LimitEnforcement { wall_seconds, cpu_seconds, mem_mb, max_pids, max_file_mb } =
        enforced;
    receipt::LimitEnforcement { wall_seconds, cpu_seconds, mem_mb, max_pids, max_file_mb }
}

/// The limits that were in force: those that were really enforced.
pub(super) fn limits_in_force(
    limits: &mesh_sandbox::EffectiveLimits,
    enforced: mesh_sandbox::LimitEnforcement,
) -> receipt::Limits {
    receipt::Limits {
        wall_seconds: enforced.wall_seconds.then_some(limits.wall_seconds),
        cpu_seconds: enforced.cpu_seconds.then_some(limits.cpu_seconds),
        mem_mb: enforced.mem_mb.then_some(limits.mem_mb),
        max_pids: enforced.max_pids.then_some(limits.max_pids),
        max_file_mb: enforced.max_file_mb.then_some(limits.max_file_mb),
    }
}
