//! One process at a time.
//!
//! The lock is the kernel's (flock(2)), so it ends with the process however that ends, and a stale file means nothing.
//! A process that was killed while it started another leaves the lock to that one until it runs its program, a moment
//! later: so a lock whose holder is gone is waited for. The file stays: removing it would let two processes lock two
//! files of one name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::HomeError;

/// How long a lock may outlive the process that took it.
const LET_GO_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks at whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
        let deadline = Instant::now() + LET_GO_WITHIN;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            file.rewind().map_err(failed)?;
            let pid = read_pid(&mut file);
            if pid.is_none_or(runs) || Instant::now() > deadline {
                return Err(HomeError::InUse { path: home.to_owned(), pid });
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "a lock that is let go of tells nobody; the wait has an end"
            )]
            std::thread::sleep(LOOK_EVERY);
        }
        write_pid(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// Whether there is a process with this id.
fn runs(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
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
