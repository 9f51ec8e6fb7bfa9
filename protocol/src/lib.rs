//! What crosses a wire or a disk, and nothing else.
//!
//! Ids, addresses, signed records, frames, tickets, evidence and the types a status is made of.
//! No I/O, no clock, no async, no randomness: an auditor can depend on this crate alone to check evidence.
//!
//! Invariant: every decoder here is total. Bytes from anywhere give a value or a typed error, within a named bound
//! of [`limits`], and never a panic.

#![forbid(unsafe_code)]

pub mod address;
pub mod api;
pub mod certificate;
pub mod close;
pub mod codec;
pub mod delivery;
pub mod evidence;
pub mod flight;
pub mod hello;
pub mod id;
pub mod isolation;
pub mod job;
pub mod join;
pub mod limits;
pub mod message;
pub mod peer;
pub mod policy;
pub mod probe;
pub mod question;
pub mod record;
pub mod relay;
pub mod revocation;
pub mod root;
pub mod stream;
pub mod sync;
pub mod ticket;
