//! One process at a time.
//!
//! The lock is the kernel's (flock(2)), so it ends with the process however that ends, and a stale file means nothing.
//! The file stays: removing it would let two processes lock two files of one name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::HomeError;

/// The home is this process's while this lives. Child processes do not inherit it.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

impl HomeLock {
    pub(super) fn take(home: &Path, path: &Path) -> Result<Self, HomeError> {
        let failed = |source| HomeError::Lock { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(HomeError::InUse { path: home.to_owned(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        write_pid(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The holder's process id; `None` when it has not written it yet.
fn read_pid(file: &mut File) -> Option<u32> {
    const PID_BYTES_MAX: u64 = 16;
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
