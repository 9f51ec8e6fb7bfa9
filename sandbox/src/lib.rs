//! Runs one short program in isolation, with limits enforced from outside. Knows no mesh.
//!
//! A [`Job`] (Python, Node.js or Bash code with its standard input and input files) runs in a gVisor sandbox of
//! its own, without network, on a read-only root file system, as nobody, and leaves nothing behind but the files it
//! was asked for. The answer is a [`JobReport`] that says what became of it, what it used, and how it was kept apart,
//! each as observed and not as configured.
//!
//! ```no_run
//! use mesh_sandbox::{Cancel, Job, JobObserver, Language, Sandbox, SandboxConfig, Stream};
//!
//! struct Print;
//! impl JobObserver for Print {
//!     fn output(&mut self, stream: Stream, bytes: &[u8]) {
//!         println!("{stream:?}: {}", String::from_utf8_lossy(bytes));
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = SandboxConfig::new("/var/lib/example".as_ref(), "example");
//! let preflight = Sandbox::preflight(&config);       // once; sweeps, tries, and says how it went
//! let sandbox = preflight.sandbox?;                  // "no gVisor here" is an ordinary answer
//! let cancel = Cancel::new()?;                       // a clone ends the job from another thread
//! let report = sandbox.run(&Job::new(Language::Python, "print(6 * 7)"), &cancel, &mut Print)?;
//! println!("{:?} after {} ms", report.outcome, report.resource_usage.wall_time_ms);
//! # Ok(()) }
//! ```
//!
//! Everything blocks and nothing here is asynchronous: asynchronous callers run [`Sandbox::run`] on a blocking
//! thread, any number at a time. A machine without `runsc` is set up by [`setup`].
//!
//! ```text
//! pool ── launch ──> guest ──READY──> frozen ──┐
//!         launch ──> guest ──READY─────────────┴──> run ──> report
//! ```
//!
//! The parts, in the order a job meets them: `pool` has sandboxes that wait; `launch` starts one, on a `platform`
//! (`gvisor` with its `bundle`, or `shared_kernel`); `spawn` makes the child on a thread that lives as long as the
//! sandbox, inside its `cgroup`; `guest` is what was started, and `init` what runs first inside it; `run` hands the job
//! over in the words of [`control`], listens by the rules of [`dialogue`], and watches; `capture` reads the output,
//! `leavings` are the files; `outcome` decides what became of it; `home` remembers what a crash would leave. `rootfs`
//! makes what the job sees, `preflight` proves that all of this works here.

mod bundle;
mod cancel;
mod capture;
mod cgroup;
pub mod control;
pub mod dialogue;
mod guest;
mod guest_memory;
mod gvisor;
mod home;
mod isolation;
mod job;
mod language;
mod launch;
mod leavings;
pub mod limits;
mod outcome;
mod platform;
mod pool;
mod preflight;
mod report;
mod rootfs;
mod run;
mod runtime;
mod sandbox;
pub mod setup;
mod shared_kernel;
mod spawn;
mod wait;

pub use cancel::Cancel;
pub use cgroup::CgroupKind;
pub use home::SweepReport;
pub use isolation::IsolationClass;
pub use job::{InputFile, InvalidJob, Job};
pub use language::{ENVIRONMENT, Language};
pub use limits::{Bound, Bounds, EffectiveLimits, LimitEnforcement, RequestedLimits};
pub use outcome::{Breach, KilledBy, Observed, Outcome};
pub use pool::PoolConfig;
pub use preflight::{Capabilities, LanguageSupport, PackSupport, Preflight, Probe};
pub use report::{
    JobObserver, JobReport, MissingOutput, MissingReason, OutputFile, Posture, ResourceUsage, Stream,
    StreamReport,
};
pub use rootfs::{Rootfs, RootfsError, RuntimePack, tree_sha256};
pub use runtime::{OLDEST_FIT_BUILD, Runtime, RuntimeError};
pub use sandbox::{Sandbox, SandboxConfig, SandboxError};

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
