//! Puts one job on the disk and starts gVisor on it.
//!
//! The invocation gives gVisor as little as it can work with: no network, no file access but through its
//! gofer process, no sockets of the host, no control groups of its own, and the job's filter.

use std::fs::{self, DirBuilder};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::bundle::{self, Places, Settings};
use crate::cgroup::Group;
use crate::hex;
use crate::home::JobDir;
use crate::job::Job;
use crate::limits::OVERHEAD_MIB;
use crate::sandbox::{Sandbox, SandboxError};
use crate::spawn::{Birth, Offspring};

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

/// A started job: the child and our ends of its pipes, none of which blocks.
pub(crate) struct Launched {
    pub(crate) child: Offspring,
    pub(crate) ready: OwnedFd,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) group: Group,
    pub(crate) dir: JobDir,
}

/// Starts `job` under `settings`.
pub(crate) fn launch(
    sandbox: &Sandbox,
    job: &Job,
    settings: &Settings<'_>,
) -> Result<Launched, SandboxError> {
    sandbox.runtime.check_unchanged()?;
    let jobs = sandbox.home.jobs();
    let id = fresh_id().map_err(SandboxError::at("name a job in", &jobs))?;
    let dir = JobDir::create(&jobs, &id).map_err(SandboxError::at("create a job in", &jobs))?;
    let io = SandboxError::at("start", dir.path());
    write_files(dir.path(), &sandbox.rootfs.path, job, settings)?;
    let start = || {
        let group = sandbox.cgroups.create(&id)?;
        let limits = &settings.limits;
        group.set_limits((limits.mem_mb + OVERHEAD_MIB) * 1024 * 1024, 3 * limits.max_pids + 256)?;
        let (ready, ready_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdin_inside, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, stdout_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        for ours in [&ready, &stdin, &stdout, &stderr] {
            fcntl_setfl(ours, OFlags::NONBLOCK)?;
        }
        let mut command = command(&sandbox.runtime.path, dir.path(), &id, &ready_inside);
        command.stdin(stdin_inside).stdout(stdout_inside).stderr(stderr_inside);
        let joins = group.joins()?;
        let child = sandbox.spawner.spawn(Birth { command, joins, keeps: vec![ready_inside] })?;
        Ok((child, ready, stdin, stdout, stderr, group))
    };
    let (child, ready, stdin, stdout, stderr, group) = start().map_err(io)?;
    Ok(Launched { child, ready, stdin, stdout, stderr, group, dir })
}

/// The command line. `ready` becomes descriptor 3 inside the sandbox.
fn command(runsc: &Path, dir: &Path, id: &str, ready: &OwnedFd) -> Command {
    let mut command = Command::new(runsc);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null());
    command.arg("--root").arg(dir.join("state")).arg("--log").arg(dir.join("runsc.log")).args(RUNTIME_FLAGS);
    if !rustix::process::geteuid().is_root() {
        command.arg("--rootless");
    }
    command.arg("run").arg(format!("--pass-fd={}:3", ready.as_raw_fd()));
    command.arg("--bundle").arg(dir.join("bundle")).arg(id);
    command
}

/// Writes code, input files and configuration below the job's directory.
fn write_files(dir: &Path, rootfs: &Path, job: &Job, settings: &Settings<'_>) -> Result<(), SandboxError> {
    let (code, input, bundle) = (dir.join("code"), dir.join("input"), dir.join("bundle"));
    for path in [&code, &input, &bundle, &dir.join("state")] {
        make_dir(path)?;
    }
    write_readable(&code.join(settings.language.code_file()), job.code.as_bytes())?;
    for file in &job.inputs {
        let path = input.join(&file.path);
        for parent in
            path.ancestors().skip(1).take_while(|parent| *parent != input).collect::<Vec<_>>().iter().rev()
        {
            make_dir(parent)?;
        }
        write_readable(&path, &file.contents)?;
    }
    let path = bundle.join("config.json");
    bundle::config(settings, &Places { rootfs, code: &code, input: &input })
        .map_err(std::io::Error::from)
        .and_then(|text| fs::write(&path, text))
        .map_err(SandboxError::at("write", &path))
}

fn make_dir(path: &Path) -> Result<(), SandboxError> {
    let make = || {
        DirBuilder::new().recursive(true).mode(0o755).create(path)?;
        // Whatever this process's umask says.
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    };
    make().map_err(SandboxError::at("create", path))
}

fn write_readable(path: &Path, bytes: &[u8]) -> Result<(), SandboxError> {
    fs::write(path, bytes)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o444)))
        .map_err(SandboxError::at("write", path))
}

/// A name no other sandbox ever had.
fn fresh_id() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(format!("job-{}", hex(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_names_no_code_and_every_safety_flag() {
        let (_, ready) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let command = command(Path::new("/x/runsc"), Path::new("/h/jobs/job-1"), "job-1", &ready);
        let arguments: Vec<String> =
            command.get_args().map(|argument| argument.to_str().unwrap().to_owned()).collect();
        for flag in
            ["--network=none", "--directfs=false", "--oci-seccomp", "--host-uds=none", "--ignore-cgroups"]
        {
            assert!(arguments.iter().any(|argument| argument == flag), "{flag}");
        }
        assert!(arguments.contains(&format!("--pass-fd={}:3", ready.as_raw_fd())));
        assert_eq!(arguments.last().map(String::as_str), Some("job-1"));
    }

    #[test]
    fn ids_are_not_repeated() {
        assert_ne!(fresh_id().unwrap(), fresh_id().unwrap());
    }
}
