//! What keeps a job apart from its host: gVisor, or, where the operator allows it, namespaces of the host's own kernel.
//!
//! Everything that differs between the two is here or in their own files; a job, its limits and its end do not differ.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use crate::bundle::Settings;
use crate::cgroup::Ceilings;
use crate::gvisor;
use crate::home::JobDir;
use crate::isolation::IsolationClass;
use crate::limits::OVERHEAD_MIB;
use crate::runtime::Runtime;
use crate::shared_kernel::Filters;

const MIB: u64 = 1024 * 1024;

/// One of the ways.
#[derive(Debug)]
pub(crate) enum Platform {
    /// A kernel in user space.
    Gvisor(Runtime),
    /// Namespaces made by bubblewrap, and filters on the host's kernel.
    SharedKernel(Runtime, Filters),
}

/// How to start a sandbox.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) command: Command,
    /// Descriptors it needs beside the control socket.
    pub(crate) keeps: Vec<OwnedFd>,
    /// Digest of everything it is told but places on the host.
    pub(crate) config_sha256: String,
}

impl Platform {
    /// The program that makes sandboxes.
    pub(crate) fn runtime(&self) -> &Runtime {
        match self {
            Self::Gvisor(runtime) | Self::SharedKernel(runtime, _) => runtime,
        }
    }

    /// The class of a sandbox that proved itself.
    pub(crate) fn class(&self) -> IsolationClass {
        match self {
            Self::Gvisor(_) => IsolationClass::GvisorApplicationKernel,
            Self::SharedKernel(..) => IsolationClass::LinuxSharedKernel,
        }
    }

    /// What the filter on the job's system calls is called.
    pub(crate) fn seccomp(&self) -> &'static str {
        match self {
            Self::Gvisor(_) => "oci-deny-list",
            Self::SharedKernel(..) => "bpf-deny-list",
        }
    }

    /// Readies one sandbox. `control` becomes the control socket of its init.
    pub(crate) fn invocation(
        &self,
        dir: &JobDir,
        rootfs: &Path,
        settings: &Settings<'_>,
        control: &OwnedFd,
    ) -> io::Result<Invocation> {
        match self {
            Self::Gvisor(runtime) => gvisor::invocation(&runtime.path, dir, rootfs, settings, control),
            Self::SharedKernel(runtime, filters) => {
                filters.invocation(&runtime.path, rootfs, settings, control)
            }
        }
    }

    /// What the control group of a job with these limits may have. gVisor needs memory of its own, and three host
    /// threads for one of the guest's at worst; in a shared kernel the job's threads are the host's.
    pub(crate) fn ceilings(&self, mem_mb: u64, max_pids: u64) -> Ceilings {
        let host_threads = match self {
            Self::Gvisor(_) => 3 * max_pids + 256,
            // The two processes of bubblewrap and the init.
            Self::SharedKernel(..) => max_pids + 3,
        };
        Ceilings { memory_bytes: (mem_mb + OVERHEAD_MIB) * MIB, host_threads }
    }

    /// The limit that lets a job have this many processes. gVisor counts a process with the user that it was born as,
    /// which for the job's first is the init's; the host counts the init with an ordinary user's.
    pub(crate) fn process_limit(&self, max_pids: u64) -> u64 {
        match self {
            Self::Gvisor(_) => max_pids.saturating_sub(1),
            Self::SharedKernel(..) if rustix::process::geteuid().is_root() => max_pids,
            Self::SharedKernel(..) => max_pids + 1,
        }
    }
}
