//! Whole meshes in virtual time, on the shipped code.
//!
//! Every run is a function of a seed: the same seed gives the same trace, and a failure prints the command that
//! replays it. Nothing here has a socket, a file or a clock.

#![forbid(unsafe_code)]

pub mod crash;
pub mod disk;
pub mod members;
pub mod outbox;
mod trace;
pub mod whole;

pub use trace::Trace;
