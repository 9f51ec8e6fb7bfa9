//! The command engine against real programs: what they answer, how they are ended, what they see, what a crash leaves.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod endings;
mod environment;
mod replies;
mod shell;
