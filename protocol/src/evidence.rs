//! Evidence: what a node signs about a job it ran, and how anyone checks it later.
//!
//! ```text
//!  events --hash chain--> head --.
//!                                v
//!  what ran, what was seen --> receipt --receipt_sha256--> result artifact
//!                                |                               | sha256
//!                                '------> in-toto statement <----'
//!                                               | Ed25519 over the DSSE pre-authentication encoding
//!                                               v
//!                                            envelope
//! ```
//!
//! [`attest()`] goes down that picture, [`verify()`] goes up it. Both are pure: no I/O, no clock, no randomness. A
//! [`bundle::Bundle`] puts the pieces in one file. Signing says who claims what; it does not say that the job went
//! well, nor that everything was recorded: [`verify::Verified`] carries both answers beside the signers.
//!
//! What this module does not do: decide whom to trust (the caller brings a [`trust::TrustSet`]), read certificates,
//! or know about revocation.
//!
//! The statement follows the in-toto Attestation Framework, version 1; the envelope follows DSSE, version 1.

pub mod artifact;
pub mod attest;
pub mod bundle;
pub mod canonical;
pub mod chain;
pub mod digest;
pub mod dsse;
pub mod event;
pub mod limits;
pub mod receipt;
pub mod statement;
pub mod trust;
pub mod verify;

pub use attest::{Attestation, attest};
pub use verify::{Expected, Verified, verify};
