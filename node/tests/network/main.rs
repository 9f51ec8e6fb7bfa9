//! The network side of nodes, over packets in memory and a wall between two of them: real QUIC, no socket, no disk to
//! wait for.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken fixture ends its test")]

mod air;
mod losers;
mod member;
mod relays;
