//! The durable machine's claims, through its public `handle` alone: two nodes on ordered maps and a link between
//! them that the test holds in its hand.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation is a failed test"
)]

mod asks;
mod contract;
mod hostile;
mod jobs;
mod moving;
mod operations;
mod pair;
mod parts;
mod signing;
