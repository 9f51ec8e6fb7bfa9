//! Delivery, by its claims: every crash point that is decided at this layer, the sender's promises, the receiver's.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed expectation of a test is a failed test")]

mod crash_points;
mod pair;
mod receiving;
mod sending;
