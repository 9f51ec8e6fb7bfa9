//! How `runsc` is called, and the bundle it is given.
//!
//! The invocation gives gVisor as little as it can work with: no network, no file of the host but one image that is open
//! for reading (or, without one, what its gofer process serves), no sockets of the host, no control groups of its own,
//! and the job's filter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bundle::{self, Root, Settings};
use crate::home::JobDir;
use crate::platform::Invocation;

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

/// Writes the configuration below the sandbox's directory and says how to start it. `control` becomes descriptor 3
/// inside.
pub(crate) fn invocation(
    runsc: &Path,
    dir: &JobDir,
    root: Root<'_>,
    settings: &Settings<'_>,
    control: &OwnedFd,
) -> io::Result<Invocation> {
    let bundle = dir.path().join("bundle");
    for path in [&bundle, &dir.path().join("state")] {
        DirBuilder::new().mode(0o755).create(path)?;
    }
    fs::write(bundle.join("config.json"), bundle::config(settings, root)?)?;
    let command = command(runsc, dir.path(), dir.id(), control);
    Ok(Invocation { command, keeps: Vec::new(), config_sha256: bundle::config_sha256(settings, root)? })
}

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

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

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
}
