//! Jobs: short programs that run in a sandbox, here or on a node the operator trusts with it.
//!
//! As with asks there are two records: a [`job`] at its origin and an [`execution`] where it runs, each decided by its
//! own node only, talking through the outbox, also when both are one node.

pub mod execution;
pub mod job;
