//! A machine's ability to run jobs, once it has been proven.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cancel::Cancel;
use crate::guest::Guest;
use crate::home::{Home, SweepReport};
use crate::job::{InvalidJob, Job};
use crate::language::Language;
use crate::launch::{Kind, Launcher};
use crate::limits::{Bounds, EffectiveLimits, RequestedLimits};
use crate::pool::{Pool, PoolConfig};
use crate::preflight::{Capabilities, Preflight};
use crate::report::{JobObserver, JobReport};
use crate::rootfs::{RootfsError, RuntimePack};
use crate::run;
use crate::runtime::RuntimeError;

/// Longest instance name, in bytes.
const INSTANCE_BYTES_MAX: usize = 64;

/// Where and how to run jobs.
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// Directory for running jobs; belongs to one process at a time.
    pub home: PathBuf,
    /// Directory for root file systems; may be shared between processes.
    pub rootfs: PathBuf,
    /// Names this node's control groups: letters, digits, `-` and `_`. Two nodes on a machine need two names.
    pub instance: String,
    /// The `runsc` to use instead of the one on PATH.
    pub runsc: Option<PathBuf>,
    /// The range of every limit.
    pub bounds: Bounds,
    /// How many sandboxes are started before there is a job for them.
    pub pool: PoolConfig,
    /// Whether jobs may run in namespaces of this machine's own kernel where gVisor does not work. Weaker: a flaw of the
    /// kernel that a program can use is a way out.
    pub shared_kernel: bool,
    /// Root file systems that jobs may ask for by name.
    pub packs: Vec<RuntimePack>,
}

impl SandboxConfig {
    /// A configuration with everything below `dir`.
    #[must_use]
    pub fn new(dir: &Path, instance: impl Into<String>) -> Self {
        Self {
            home: dir.join("sandbox"),
            rootfs: dir.join("rootfs"),
            instance: instance.into(),
            runsc: None,
            bounds: Bounds::default(),
            pool: PoolConfig::default(),
            shared_kernel: false,
            packs: Vec::new(),
        }
    }

    /// The name of this node's parent control groups.
    pub(crate) fn cgroup_name(&self) -> Result<String, SandboxError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if self.instance.is_empty()
            || self.instance.len() > INSTANCE_BYTES_MAX
            || !self.instance.bytes().all(plain)
        {
            return Err(SandboxError::Instance { name: self.instance.clone() });
        }
        Ok(format!("mesh-sandbox-{}", self.instance))
    }
}

/// Why jobs cannot be run here, or one job could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// There is no gVisor here. An ordinary answer on most machines.
    #[error("no fit runtime")]
    Runtime(#[from] RuntimeError),
    /// The root file system could not be made.
    #[error("no root file system")]
    Rootfs(#[from] RootfsError),
    /// The job breaks a bound.
    #[error("the job is not valid")]
    Job(#[from] InvalidJob),
    /// The language has no working interpreter here.
    #[error("{language} cannot be run on this machine")]
    LanguageUnavailable {
        /// The language.
        language: Language,
    },
    /// There is no runtime pack of that name here.
    #[error("there is no runtime pack {pack:?} on this machine")]
    PackUnavailable {
        /// The pack as asked for.
        pack: String,
    },
    /// Another process runs jobs from this home.
    #[error("{home} is in use by another process")]
    InUse {
        /// The home.
        home: PathBuf,
    },
    /// The instance name cannot name a control group.
    #[error("not a usable instance name: {name:?}")]
    Instance {
        /// The name as given.
        name: String,
    },
    /// A sandbox was started but did not prove itself.
    #[error("the preflight's {probe} probe failed")]
    Unproven {
        /// The probe; [`Preflight::probes`] has its finding.
        probe: &'static str,
    },
    /// The operating system refused something.
    #[error("cannot {doing} {path}")]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl SandboxError {
    pub(crate) fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Runtime(error) => error.hint(),
            Self::Rootfs(error) => error.hint(),
            Self::Job(_) => "change the job",
            Self::LanguageUnavailable { .. } => {
                "install the interpreter and restart, or place the job elsewhere"
            }
            Self::PackUnavailable { .. } => "name a pack that this node offers, or none",
            Self::InUse { .. } => "end the other process, or use another home",
            Self::Instance { .. } => "use up to 64 letters, digits, - and _",
            Self::Unproven { .. } => "look at the preflight's findings",
            Self::Io { .. } => "check space and permissions",
        }
    }
}

/// Runs jobs, any number at a time, each in a sandbox of its own that serves no other.
///
/// Exists only where a preflight proved every part of it. Jobs still running when it is dropped are killed.
#[derive(Debug)]
pub struct Sandbox {
    /// Dropped first: it ends what was started beforehand.
    pub(crate) pool: Option<Pool>,
    pub(crate) launcher: Arc<Launcher>,
    /// Kinds whose programs do not work.
    pub(crate) unfit: BTreeSet<Kind>,
    pub(crate) capabilities: Capabilities,
}

/// Jobs run side by side on one sandbox.
const _: () = {
    const fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Sandbox>();
};

impl Sandbox {
    /// Finds out, by doing, whether this machine can run jobs, and opens the sandbox if it can. Sweeps first.
    /// Takes one to two seconds, and about three more the first time.
    #[must_use]
    pub fn preflight(config: &SandboxConfig) -> Preflight {
        Preflight::run(config)
    }

    /// Ends and removes everything that an earlier process with this configuration left when it was killed.
    /// A preflight does the same; this is for a machine that is not to run jobs now, and for the report.
    pub fn sweep(config: &SandboxConfig) -> Result<SweepReport, SandboxError> {
        Home::open(&config.home)?.sweep(&config.cgroup_name()?)
    }

    /// What was proven.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The limits a job asking for `asked` would get.
    #[must_use]
    pub fn effective_limits(&self, asked: &RequestedLimits) -> EffectiveLimits {
        EffectiveLimits::clamp(asked, &self.capabilities.bounds)
    }

    /// How many sandboxes are started and wait for jobs now.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.pool.as_ref().map_or(0, Pool::armed)
    }

    /// A sandbox that waits for a job, or one that will once it is up.
    pub(crate) fn guest(&self, kind: &Kind) -> Result<Guest, SandboxError> {
        if let Some(pack) = &kind.pack
            && !self.launcher.trees.contains_key(&kind.pack)
        {
            return Err(SandboxError::PackUnavailable { pack: pack.clone() });
        }
        if self.unfit.contains(kind) {
            return Err(SandboxError::LanguageUnavailable { language: kind.language });
        }
        let armed = self.pool.as_ref().and_then(|pool| pool.take(kind));
        armed.map_or_else(|| self.launcher.launch(kind), Ok)
    }

    /// Runs one job to its end on this thread.
    ///
    /// An error means that the job did not start. Once it has, the answer is a report, whatever happened. When
    /// this returns, nothing of the job is left: no process, control group or directory.
    pub fn run(
        &self,
        job: &Job,
        cancel: &Cancel,
        observer: &mut dyn JobObserver,
    ) -> Result<JobReport, SandboxError> {
        job.validate()?;
        run::run(self, job, cancel, observer)
    }
}

/// Reads the first `most` bytes of a file as text, lossily; empty if it cannot be read.
pub(crate) fn excerpt(path: &Path, most: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(bytes.get(..most).unwrap_or(&bytes)).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_names_that_could_leave_the_control_group_tree_are_refused() {
        for name in ["", ".", "..", "a/b", "a b", "a\n", "é", &"x".repeat(65)] {
            let config = SandboxConfig::new(Path::new("/nowhere"), name);
            assert!(matches!(config.cgroup_name(), Err(SandboxError::Instance { .. })), "{name:?}");
        }
        let config = SandboxConfig::new(Path::new("/nowhere"), "Node_1-a");
        assert_eq!(config.cgroup_name().unwrap(), "mesh-sandbox-Node_1-a");
    }
}
