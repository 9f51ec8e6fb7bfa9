//! The `mesh-cli` binary.
fn main() {}
