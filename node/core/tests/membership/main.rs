//! Membership on one machine fed by hand. Whole meshes of it run in `mesh-simulations`.

#![expect(clippy::unwrap_used, reason = "a broken test should stop")]

mod bench;
mod judging;
mod operations;
mod records;
