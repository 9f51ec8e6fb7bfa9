//! The repository's own rules, as tests: what a reviewer would otherwise have to remember.
//!
//! Nothing here runs the product, except to ask the command line what it understands. A rule that has exceptions lists
//! them beside it, each with its reason, and fails when an exception is no longer needed.

mod claims;
mod dependencies;
mod documents;
mod layout;
mod lints;
mod repository;
mod source;
