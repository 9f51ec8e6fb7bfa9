//! How much memory a job uses, where no control group counts it. Looking is no enforcement: between two looks a job can
//! take more than its limit.
//!
//! gVisor backs all memory of its guest, files in memory included, by one memory file (`memfd:runsc-memory`).
//! The blocks allocated to that file are what the guest has in use, to the page; gVisor's own heap is not
//! among them. In a shared kernel the resident pages of all processes are added up, shared ones more than once and files
//! in memory not at all.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::Pid;

use crate::guest::Guest;
use crate::home::processes_naming;
use crate::platform::Platform;

/// The name the kernel shows for gVisor's memory file.
const NAME: &str = "/memfd:runsc-memory";
/// Processes that are looked at; a job may have no more.
const PROCESSES_MAX: usize = 1024;

/// Where one job's memory is seen.
#[derive(Debug)]
pub(crate) enum GuestMemory {
    /// gVisor's memory file, held open.
    File(File),
    /// The process at the top of a tree.
    Tree(Pid),
}

impl GuestMemory {
    /// Finds the memory of a sandbox. `None` when the kernel does not let us.
    pub(crate) fn of(platform: &Platform, guest: &Guest) -> Option<Self> {
        match platform {
            Platform::Gvisor(..) => memory_file(guest.dir.path()).map(Self::File),
            Platform::SharedKernel(..) => Some(Self::Tree(guest.child.pid())),
        }
    }

    /// Bytes in use now.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self {
            // st_blocks counts units of 512 bytes whatever the block size (stat(2)).
            Self::File(file) => file.metadata().ok().map(|metadata| metadata.blocks().saturating_mul(512)),
            Self::Tree(top) => Some(resident(*top)),
        }
    }
}

fn memory_file(dir: &Path) -> Option<File> {
    processes_naming(dir).into_iter().find_map(|pid| {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).ok()?;
        descriptors.filter_map(Result::ok).map(|entry| entry.path()).find_map(|path| {
            let target = fs::read_link(&path).ok()?;
            target.to_str()?.starts_with(NAME).then(|| File::open(&path).ok())?
        })
    })
}

/// Bytes resident in all descendants of `top`; see proc(5) for `children` and `statm`.
fn resident(top: Pid) -> u64 {
    let page = rustix::param::page_size() as u64;
    let mut pending = vec![top.as_raw_nonzero().get()];
    let (mut bytes, mut seen) = (0_u64, 0);
    while let Some(pid) = pending.pop().filter(|_| seen < PROCESSES_MAX) {
        seen += 1;
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        pending.extend(text.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        bytes = bytes.saturating_add(pages.unwrap_or(0).saturating_mul(page));
    }
    bytes
}
