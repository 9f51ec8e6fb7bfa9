//! How bubblewrap is called: a sandbox of namespaces whose system calls the host's own kernel answers.
//!
//! It is weaker than gVisor, is never chosen by itself, and says so in every report. The job sees the same read-only
//! root file system, has no network, and may not call what two policies deny. As root, the init is user 0 with three
//! capabilities and the job is nobody; as an ordinary user both are one user, and what keeps the job from its init is
//! that the kernel lets nobody end or look into the first process of a namespace that does not want it.

use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use seccompiler::{BpfMap, BpfProgram, TargetArch};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::bundle::{INIT, INIT_CAPABILITIES, JOB_ID, Settings};
use crate::hex;
use crate::limits::DISK_MIB;
use crate::platform::Invocation;
use crate::runtime::{Runtime, RuntimeError, find_on_path};

const POLICIES: [&str; 2] =
    [include_str!("../policy/seccomp-deny.txt"), include_str!("../policy/seccomp-deny-shared-kernel.txt")];
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The compiled filters, one for each error.
#[derive(Debug)]
pub(crate) struct Filters(Vec<Vec<u8>>);

/// Finds bubblewrap.
pub(crate) fn find() -> Result<Runtime, RuntimeError> {
    Runtime::inspect(&find_on_path("bwrap").ok_or(RuntimeError::Absent)?)
}

impl Filters {
    /// Compiles the policies.
    pub(crate) fn compile() -> io::Result<Self> {
        [EPERM, ENOSYS].into_iter().map(compile).collect::<io::Result<_>>().map(Self)
    }

    /// Readies one sandbox.
    pub(crate) fn invocation(
        &self,
        bubblewrap: &Path,
        rootfs: &Path,
        settings: &Settings<'_>,
        control: &OwnedFd,
    ) -> io::Result<Invocation> {
        let keeps = self.0.iter().map(|filter| in_memory(filter)).collect::<io::Result<Vec<_>>>()?;
        let filters: Vec<String> = keeps.iter().map(|filter| filter.as_raw_fd().to_string()).collect();
        let arguments = |rootfs: &str, filters: &[String], control: &str| {
            let mut arguments = namespaces();
            arguments.extend(["--ro-bind", rootfs, "/"].map(str::to_owned));
            arguments.extend(mounts());
            arguments.extend(filters.iter().flat_map(|fd| ["--add-seccomp-fd".to_owned(), fd.clone()]));
            arguments.extend(["--", INIT, control, settings.language.code_path()].map(str::to_owned));
            arguments.extend(settings.language.command(settings.interpreter));
            arguments
        };
        let mut hash = Sha256::new();
        for argument in arguments("<rootfs>", &[], "<control>") {
            hash.update(argument);
            hash.update([0]);
        }
        self.0.iter().for_each(|filter| hash.update(filter));
        let place = rootfs.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        let mut command = Command::new(bubblewrap);
        command.env_clear().current_dir("/").stdin(Stdio::null());
        let environment = settings.language.environment();
        command.envs(environment.iter().filter_map(|entry| entry.split_once('=')));
        command.args(arguments(place, &filters, &control.as_raw_fd().to_string()));
        Ok(Invocation { command, keeps, config_sha256: hex(&hash.finalize()) })
    }
}

/// Namespaces, users and powers.
fn namespaces() -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--hostname",
        "sandbox",
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        "--cap-drop",
        "ALL",
    ]
    .map(str::to_owned)
    .into();
    if rustix::process::geteuid().is_root() {
        for capability in INIT_CAPABILITIES {
            arguments.extend(["--cap-add", capability].map(str::to_owned));
        }
    } else {
        let id = JOB_ID.to_string();
        arguments.extend(["--unshare-user", "--uid", &id, "--gid", &id].map(str::to_owned));
    }
    arguments
}

/// What a job can write to is in memory and has a size.
fn mounts() -> Vec<String> {
    let size = (DISK_MIB * 1024 * 1024).to_string();
    let mut arguments = ["--proc", "/proc", "--dev", "/dev"].map(str::to_owned).to_vec();
    for (place, mode) in [("/dev/shm", "1777"), ("/tmp", "1777"), ("/work", "1777"), ("/job", "0755")] {
        arguments.extend(["--perms", mode, "--size", &size, "--tmpfs", place].map(str::to_owned));
    }
    arguments.extend(["--remount-ro", "/dev", "--chdir", "/"].map(str::to_owned));
    arguments
}

/// A descriptor from which these bytes can be read.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::from(memfd_create("filter", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The filter of all rules that answer with this error, as the kernel reads it.
fn compile(error: u32) -> io::Result<Vec<u8>> {
    let rules: Vec<Value> =
        POLICIES.iter().flat_map(|policy| policy.lines()).filter_map(|line| rule(line, error)).collect();
    let filters = json!({ "job": {
        "mismatch_action": "allow",
        "match_action": { "errno": error },
        "filter": rules,
    }});
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let mut compiled: BpfMap =
        seccompiler::compile_from_json(filters.to_string().as_bytes(), arch).map_err(io::Error::other)?;
    let program: BpfProgram = compiled.remove("job").unwrap_or_default();
    let bytes = |instruction: &seccompiler::sock_filter| {
        let [low, high] = instruction.code.to_ne_bytes();
        let [a, b, c, d] = instruction.k.to_ne_bytes();
        [low, high, instruction.jt, instruction.jf, a, b, c, d]
    };
    Ok(program.iter().flat_map(bytes).collect())
}

/// The rule of one line of a policy, if it answers with this error.
fn rule(line: &str, error: u32) -> Option<Value> {
    let line = line.trim();
    let (line, answer) = line.strip_prefix("! ").map_or((line, EPERM), |call| (call, ENOSYS));
    if line.is_empty() || line.starts_with('#') || answer != error {
        return None;
    }
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let argument =
        |kind: &str, op: Value, value: u64| json!([{ "index": 0, "type": kind, "op": op, "val": value }]);
    let (call, arguments) = if let Some((call, flag)) = line.split_once(" flag=0x") {
        (call, number(flag).map(|bits| argument("qword", json!({ "masked_eq": bits }), bits)))
    } else if let Some((call, value)) = line.split_once(" equals=0x") {
        (call, number(value).map(|value| argument("dword", json!("eq"), value)))
    } else {
        (line, None)
    };
    // An unreadable argument denies the call whatever it is: the safe reading.
    Some(match arguments {
        Some(arguments) => json!({ "syscall": call, "args": arguments }),
        None => json!({ "syscall": call }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_policies_compile_and_every_rule_is_in_one_filter() {
        let filters = Filters::compile().unwrap();
        assert!(filters.0.iter().all(|filter| filter.len() > 16 && filter.len() % 8 == 0));
        assert_eq!(rule("! clone3", EPERM), None);
        assert_eq!(rule("! clone3", ENOSYS), Some(json!({ "syscall": "clone3" })));
        assert_eq!(rule("# words", EPERM), None);
        assert_eq!(
            rule("socket equals=0x28", EPERM),
            Some(json!({
                "syscall": "socket", "args": [{ "index": 0, "type": "dword", "op": "eq", "val": 40 }]
            }))
        );
    }
}
