//! Starts sandboxes: a directory, control groups, pipes, and the platform's process. There is no job yet.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::bundle::Settings;
use crate::cgroup::Cgroups;
use crate::dialogue::Dialogue;
use crate::guest::Guest;
use crate::hex;
use crate::home::{Home, JobDir};
use crate::language::Language;
use crate::limits::Bounds;
use crate::platform::{Invocation, Platform};
use crate::rootfs::Rootfs;
use crate::sandbox::SandboxError;
use crate::spawn::{Birth, Spawner};

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
    pub(crate) platform: Platform,
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
        self.platform.runtime().check_unchanged()?;
        let started = Instant::now();
        let jobs = self.home.jobs();
        let id = fresh_id().map_err(SandboxError::at("name a job in", &jobs))?;
        let dir = JobDir::create(&jobs, &id).map_err(SandboxError::at("create a job in", &jobs))?;
        let settings = Settings { language: kind.language, interpreter, bounds: &self.bounds };
        let start = || {
            let group = self.cgroups.create(&id)?;
            // Lowered when there is a job.
            group.set_limits(&self.platform.ceilings(self.bounds.mem_mb.max, self.bounds.max_pids.max))?;
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
            let Invocation { mut command, mut keeps, config_sha256 } =
                self.platform.invocation(&dir, tree, &settings, &control_inside)?;
            keeps.push(control_inside);
            command.stdin(stdin_inside).stdout(stdout_inside).stderr(stderr_inside);
            let joins = group.joins()?;
            let child = self.spawner.spawn(Birth { command, joins, keeps })?;
            let exited = pidfd_open(child.pid(), PidfdFlags::empty())?;
            Ok((child, exited, control, stdin, stdout, stderr, group, config_sha256))
        };
        let (child, exited, control, stdin, stdout, stderr, group, config_sha256) =
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
    fn ids_are_not_repeated() {
        assert_ne!(fresh_id().unwrap(), fresh_id().unwrap());
    }
}
