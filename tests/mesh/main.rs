//! Whole nodes as processes on hosts of their own: packets cross a bridge, filters cut hosts off, and whatever runs may
//! be killed at any moment.
//!
//! Each test makes its own network and its own mesh. Every wait is for a named state and has an end.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]
#![expect(clippy::print_stderr, reason = "a failed test shows the logs of its nodes")]

mod asks;
mod clocks;
mod cuts;
mod disks;
#[path = "../../node/tests/transport/gullible.rs"]
mod gullible;
mod hostile;
mod impostor;
mod impostors;
mod insider;
mod jobs;
mod kills;
mod load;
mod node;
mod relays;
mod revocations;
mod tickets;
