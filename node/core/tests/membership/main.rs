//! Membership of whole meshes: joining, crashes, splits and healing, in virtual time.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken test should stop")]
#![expect(clippy::print_stdout, reason = "times and costs are worth seeing")]

mod bench;
mod faults;
mod healing;
mod mesh;
mod records;
