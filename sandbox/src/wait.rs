//! A pause on the kernel's timer, for the few places where the kernel offers nothing to wait on (an emptying
//! control group, a dying foreign process). Each is bounded by a deadline of its own.

use std::time::Duration;

use rustix::event::{Timespec, poll};

/// Lets `duration` pass.
pub(crate) fn pause(duration: Duration) {
    if let Ok(timeout) = Timespec::try_from(duration) {
        let _ = poll(&mut [], Some(&timeout));
    }
}
