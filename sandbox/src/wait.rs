//! Waiting for one descriptor, and a pause on the kernel's timer for the few places where the kernel offers nothing to
//! wait on (an emptying control group, a dying foreign process). Each is bounded by a deadline of its own.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Whether there is something to read, or the end of it, within `patience`. A signal that this thread happens to handle
/// meanwhile does not cut it short.
pub(crate) fn is_readable(fd: impl AsFd, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            found => return found.is_ok_and(|ready| ready > 0),
        }
    }
}

/// Lets `duration` pass.
pub(crate) fn pause(duration: Duration) {
    if let Ok(timeout) = Timespec::try_from(duration) {
        let _ = poll(&mut [], Some(&timeout));
    }
}
