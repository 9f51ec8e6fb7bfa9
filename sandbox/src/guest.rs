//! One sandbox, from its launch until nothing of it is left.
//!
//! ```text
//! launched ──READY──> waiting ──freeze──> frozen ──thaw──> waiting ──assignment──> a flight (`run`)
//!     └─────────────────┴───────────────────┴── dropped: killed, reaped, removed
//! ```
//!
//! A guest serves one job or none. Whatever happens to its owner, dropping it leaves no process, group or directory.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::cgroup::Group;
use crate::control::{Answer, Broken};
use crate::dialogue::Dialogue;
use crate::home::JobDir;
use crate::limits::CHUNK_BYTES;
use crate::sandbox::excerpt;
use crate::spawn::Offspring;

/// Most of the platform's own words kept when a sandbox does not get ready, in bytes.
const DIAGNOSTIC_BYTES: usize = 4096;

/// A started sandbox and our ends of its pipes, none of which blocks.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) child: Offspring,
    /// Readable once the child has exited.
    pub(crate) exited: OwnedFd,
    /// The socket shared with the init.
    pub(crate) control: OwnedFd,
    pub(crate) dialogue: Dialogue,
    pub(crate) stdin: Option<OwnedFd>,
    /// Taken by who reads them.
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) started: Instant,
    /// Digest of what gVisor was told.
    pub(crate) config_sha256: String,
    // Dropped last, in this order: the group ends and removes itself, then the directory goes.
    pub(crate) group: Group,
    pub(crate) dir: JobDir,
}

impl Guest {
    /// Reads what the init said. Nothing more is said after an end of the stream, which is no answer.
    pub(crate) fn hear(&mut self, buffer: &mut [u8]) -> Result<Vec<Answer>, Broken> {
        match rustix::io::read(&self.control, &mut *buffer) {
            Ok(0) => Err(Broken),
            Ok(length) => self.dialogue.hear(buffer.get(..length).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Vec::new()),
            Err(_) => Err(Broken),
        }
    }

    /// Waits, for a bounded time, until the interpreter waits for its job.
    pub(crate) fn become_ready(&mut self, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        let mut buffer = vec![0; CHUNK_BYTES];
        while !self.dialogue.is_ready() {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            let mut fds =
                [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.exited, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, self.diagnose())),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ended = fds.get(1).is_some_and(|exited| !exited.revents().is_empty());
            if self.hear(&mut buffer).is_err() || (ended && !self.dialogue.is_ready()) {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, self.diagnose()));
            }
        }
        Ok(())
    }

    /// Whether it can still be given a job.
    pub(crate) fn is_waiting(&self) -> bool {
        let mut fds = [PollFd::new(&self.exited, PollFlags::IN), PollFd::new(&self.control, PollFlags::IN)];
        self.dialogue.is_ready() && poll(&mut fds, Some(&Timespec::default())) == Ok(0)
    }

    /// What the platform said on the job's standard error and in gVisor's log.
    pub(crate) fn diagnose(&self) -> String {
        let mut said = vec![0; DIAGNOSTIC_BYTES];
        let stderr = self.stderr.as_ref();
        let length = stderr.and_then(|fd| rustix::io::read(fd, &mut *said).ok()).unwrap_or(0);
        let said = String::from_utf8_lossy(said.get(..length).unwrap_or_default()).trim().to_owned();
        if said.is_empty() { excerpt(&self.dir.path().join("runsc.log"), DIAGNOSTIC_BYTES) } else { said }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Before the child is waited for: a frozen one does not die by a signal everywhere.
        self.group.end();
    }
}
