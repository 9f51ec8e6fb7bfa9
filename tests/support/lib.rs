//! What tests of whole programs stand on: hosts with networks of their own.
//!
//! It knows nothing of the product, and asserts nothing.

pub mod network;
