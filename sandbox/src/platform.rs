//! What keeps a job apart from its host: gVisor, or, where the operator allows it, namespaces of the host's own kernel.
//!
//! Everything that differs between the two is here or in their own files; a job, its limits and its end do not differ.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;

use crate::bundle::{Root, Settings};
use crate::cgroup::Ceilings;
use crate::gvisor;
use crate::home::JobDir;
use crate::isolation::IsolationClass;
use crate::limits::OVERHEAD_MIB;
use crate::rootfs::Rootfs;
use crate::runtime::Runtime;
use crate::shared_kernel::Filters;

const MIB: u64 = 1024 * 1024;

/// One of the ways.
#[derive(Debug)]
pub(crate) enum Platform {
    /// A kernel in user space.
    Gvisor(Runtime, Files),
    /// Namespaces made by bubblewrap, and filters on the host's kernel.
    SharedKernel(Runtime, Filters),
}

/// How gVisor reads the root file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// By itself, from an image.
    Image,
    /// Through its gofer, from a directory: a third more work for each start.
    Gofer,
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
            Self::Gvisor(runtime, _) | Self::SharedKernel(runtime, _) => runtime,
        }
    }

    /// The class of a sandbox that proved itself.
    pub(crate) fn class(&self) -> IsolationClass {
        match self {
            Self::Gvisor(..) => IsolationClass::GvisorApplicationKernel,
            Self::SharedKernel(..) => IsolationClass::LinuxSharedKernel,
        }
    }

    /// What the filter on the job's system calls is called.
    pub(crate) fn seccomp(&self) -> &'static str {
        match self {
            Self::Gvisor(..) => "oci-deny-list",
            Self::SharedKernel(..) => "bpf-deny-list",
        }
    }

    /// Readies one sandbox. `control` becomes the control socket of its init.
    pub(crate) fn invocation(
        &self,
        dir: &JobDir,
        rootfs: &Rootfs,
        settings: &Settings<'_>,
        control: &OwnedFd,
    ) -> io::Result<Invocation> {
        match self {
            Self::Gvisor(runtime, files) => {
                let image = (*files == Files::Image).then_some(&*rootfs.image);
                let root = Root { tree: &rootfs.path, image };
                gvisor::invocation(&runtime.path, dir, root, settings, control)
            }
            Self::SharedKernel(runtime, filters) => {
                filters.invocation(&runtime.path, &rootfs.path, settings, control)
            }
        }
    }

    /// What the control group of a job with these limits may have. gVisor needs memory of its own, and three host
    /// threads for one of the guest's at worst; in a shared kernel the job's threads are the host's.
    pub(crate) fn ceilings(&self, mem_mb: u64, max_pids: u64) -> Ceilings {
        let host_threads = match self {
            Self::Gvisor(..) => 3 * max_pids + 256,
            // The two processes of bubblewrap and the init.
            Self::SharedKernel(..) => max_pids + 3,
        };
        Ceilings { memory_bytes: (mem_mb + OVERHEAD_MIB) * MIB, host_threads }
    }

    /// The limit that lets a job have this many processes. The host counts the init with an ordinary user's.
    pub(crate) fn process_limit(&self, max_pids: u64) -> u64 {
        match self {
            Self::Gvisor(..) => max_pids,
            Self::SharedKernel(..) if rustix::process::geteuid().is_root() => max_pids,
            Self::SharedKernel(..) => max_pids + 1,
        }
    }
}
