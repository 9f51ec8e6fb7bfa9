//! Starts sandboxes: puts one on the disk and lets gVisor run it. There is no job yet.
//!
//! The invocation gives gVisor as little as it can work with: no network, no file access but through its
//! gofer process, no sockets of the host, no control groups of its own, and the job's filter.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::bundle::{self, Settings};
use crate::cgroup::Cgroups;
use crate::dialogue::Dialogue;
use crate::guest::Guest;
use crate::hex;
use crate::home::{Home, JobDir};
use crate::language::Language;
use crate::limits::{Bounds, OVERHEAD_MIB};
use crate::rootfs::Rootfs;
use crate::runtime::Runtime;
use crate::sandbox::SandboxError;
use crate::spawn::{Birth, Spawner};

/// How `runsc` is called for every job; `--root`, `--log` and the bundle come on top.
const RUNTIME_FLAGS: &[&str] = &[
    "--log-format=json",
    "--network=none",
    "--ignore-cgroups",
    "--platform=systrap",
    "--directfs=false",
    "--overlay2=none",
    "--oci-seccomp",
    "--host-uds=none",
    "--watchdog-action=panic",
];

/// What a sandbox is started for: sandboxes of one kind are interchangeable until they have a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) language: Language,
    /// The runtime pack; `None` for this machine's own programs.
    pub(crate) pack: Option<String>,
}

/// Everything sandboxes are made from.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) home: Home,
    pub(crate) runtime: Runtime,
    /// By runtime pack.
    pub(crate) trees: BTreeMap<Option<String>, Rootfs>,
    pub(crate) cgroups: Cgroups,
    pub(crate) spawner: Spawner,
    pub(crate) bounds: Bounds,
}

impl Launcher {
    /// The kinds there are programs for.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.trees.iter().flat_map(|(pack, tree)| {
            tree.interpreters.keys().map(|&language| Kind { language, pack: pack.clone() })
        })
    }

    /// Starts a sandbox that is to wait for a job.
    pub(crate) fn launch(&self, kind: &Kind) -> Result<Guest, SandboxError> {
        let unavailable = || SandboxError::LanguageUnavailable { language: kind.language };
        let tree = self.trees.get(&kind.pack).ok_or_else(unavailable)?;
        let interpreter = tree.interpreters.get(&kind.language).ok_or_else(unavailable)?;
        self.runtime.check_unchanged()?;
        let started = Instant::now();
        let jobs = self.home.jobs();
        let id = fresh_id().map_err(SandboxError::at("name a job in", &jobs))?;
        let dir = JobDir::create(&jobs, &id).map_err(SandboxError::at("create a job in", &jobs))?;
        let settings = Settings { language: kind.language, interpreter, bounds: &self.bounds };
        let config_sha256 = write_bundle(dir.path(), &tree.path, &settings)?;
        let start = || {
            let group = self.cgroups.create(&id)?;
            // Lowered when there is a job.
            group.set_limits(&ceilings(self.bounds.mem_mb.max, self.bounds.max_pids.max))?;
            let (control, control_inside) = socketpair(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                None,
            )?;
            let (stdin_inside, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
            let (stdout, stdout_inside) = pipe_with(PipeFlags::CLOEXEC)?;
            let (stderr, stderr_inside) = pipe_with(PipeFlags::CLOEXEC)?;
            for ours in [&stdin, &stdout, &stderr] {
                fcntl_setfl(ours, OFlags::NONBLOCK)?;
            }
            fcntl_setfl(&control_inside, OFlags::empty())?;
            let mut command = command(&self.runtime.path, dir.path(), &id, &control_inside);
            command.stdin(stdin_inside).stdout(stdout_inside).stderr(stderr_inside);
            let joins = group.joins()?;
            let child = self.spawner.spawn(Birth { command, joins, keeps: vec![control_inside] })?;
            let exited = pidfd_open(child.pid()?, PidfdFlags::empty())?;
            Ok((child, exited, control, stdin, stdout, stderr, group))
        };
        let (child, exited, control, stdin, stdout, stderr, group) =
            start().map_err(SandboxError::at("start", dir.path()))?;
        let dialogue = Dialogue::default();
        let (stdin, stdout, stderr) = (Some(stdin), Some(stdout), Some(stderr));
        Ok(Guest {
            child,
            exited,
            control,
            dialogue,
            stdin,
            stdout,
            stderr,
            started,
            config_sha256,
            group,
            dir,
        })
    }
}

/// The ceilings of a group: a job's memory and gVisor's own, and enough host threads for gVisor to serve this many of
/// the guest's.
pub(crate) fn ceilings(mem_mb: u64, max_pids: u64) -> crate::cgroup::Ceilings {
    crate::cgroup::Ceilings {
        memory_bytes: (mem_mb + OVERHEAD_MIB) * 1024 * 1024,
        host_threads: 3 * max_pids + 256,
    }
}

/// The command line. `control` becomes descriptor 3 inside the sandbox.
fn command(runsc: &Path, dir: &Path, id: &str, control: &OwnedFd) -> Command {
    let mut command = Command::new(runsc);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null());
    command.arg("--root").arg(dir.join("state")).arg("--log").arg(dir.join("runsc.log")).args(RUNTIME_FLAGS);
    if !rustix::process::geteuid().is_root() {
        command.arg("--rootless");
    }
    command.arg("run").arg(format!("--pass-fd={}:3", control.as_raw_fd()));
    command.arg("--bundle").arg(dir.join("bundle")).arg(id);
    command
}

/// Writes the configuration below the sandbox's directory; returns the digest of its settings.
fn write_bundle(dir: &Path, rootfs: &Path, settings: &Settings<'_>) -> Result<String, SandboxError> {
    let bundle = dir.join("bundle");
    for path in [&bundle, &dir.join("state")] {
        DirBuilder::new().mode(0o755).create(path).map_err(SandboxError::at("create", path))?;
    }
    let path = bundle.join("config.json");
    bundle::config(settings, rootfs)
        .map_err(io::Error::from)
        .and_then(|text| fs::write(&path, text))
        .and_then(|()| bundle::config_sha256(settings).map_err(io::Error::from))
        .map_err(SandboxError::at("write", &path))
}

/// A name no other sandbox ever had.
fn fresh_id() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(format!("job-{}", hex(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_names_no_code_and_every_safety_flag() {
        let (_, control) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let command = command(Path::new("/x/runsc"), Path::new("/h/jobs/job-1"), "job-1", &control);
        let arguments: Vec<String> =
            command.get_args().map(|argument| argument.to_str().unwrap().to_owned()).collect();
        for flag in
            ["--network=none", "--directfs=false", "--oci-seccomp", "--host-uds=none", "--ignore-cgroups"]
        {
            assert!(arguments.iter().any(|argument| argument == flag), "{flag}");
        }
        assert!(arguments.contains(&format!("--pass-fd={}:3", control.as_raw_fd())));
        assert_eq!(arguments.last().map(String::as_str), Some("job-1"));
    }

    #[test]
    fn ids_are_not_repeated() {
        assert_ne!(fresh_id().unwrap(), fresh_id().unwrap());
    }
}
