//! Jobs: short programs that run in a sandbox, here or on a node the operator trusts with it.
//!
//! As with asks there are two records: a [`job`] at its origin and an [`execution`] where it runs, each decided by its
//! own node only, talking through the outbox, also when both are one node. A job comes in by `submit`; which of the
//! executions that wait begins next is `schedule`'s.

pub mod ended;
pub mod events;
pub mod execution;
pub mod job;
pub mod outline;
pub mod outputs;
mod schedule;
pub(crate) mod signing;
pub mod submission;
pub(crate) mod submit;
pub mod usage;
