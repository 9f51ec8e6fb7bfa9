//! Whole nodes in one process: real QUIC on loopback, real redb, the real API over a Unix socket.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a failed expectation is a failed test"
)]

mod asks;
mod http;
mod jobs;
mod mesh;
mod submissions;
mod tenants;
mod trust;
