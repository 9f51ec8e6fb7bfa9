//! How much memory a job uses, where no control group counts it.
//!
//! gVisor backs all memory of its guest, files in memory included, by one memory file (`memfd:runsc-memory`).
//! The blocks allocated to that file are what the guest has in use, to the page; gVisor's own heap is not
//! among them. Looking is no enforcement: between two looks a job can take more than its limit.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::home::processes_naming;

/// The name the kernel shows for gVisor's memory file.
const NAME: &str = "/memfd:runsc-memory";

/// One job's memory file, held open.
#[derive(Debug)]
pub(crate) struct GuestMemory(File);

impl GuestMemory {
    /// Finds the memory file of the sandbox whose files are in `dir`. `None` when the kernel does not let us.
    pub(crate) fn of_job(dir: &Path) -> Option<Self> {
        processes_naming(dir).into_iter().find_map(|pid| {
            let descriptors = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).ok()?;
            descriptors.filter_map(Result::ok).map(|entry| entry.path()).find_map(|path| {
                let target = fs::read_link(&path).ok()?;
                target.to_str()?.starts_with(NAME).then(|| File::open(&path).ok())?.map(Self)
            })
        })
    }

    /// Bytes in use now.
    pub(crate) fn bytes(&self) -> Option<u64> {
        // st_blocks counts units of 512 bytes whatever the block size (stat(2)).
        self.0.metadata().ok().map(|metadata| metadata.blocks().saturating_mul(512))
    }
}
