//! Claims about evidence, through the public interface of `mesh_protocol::evidence` only.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken test should stop")]

mod attestation;
mod canonical;
mod chain;
mod contradiction;
mod external;
mod fixture;
mod hostile;
mod signatures;
