//! Jobs in real gVisor sandboxes, through the public interface.
//!
//! Where there is no fit `runsc` every test says `SKIPPED` and passes, unless `MESH_REQUIRE_SANDBOX=1`.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test says what it expected")]

mod fixture;
mod hostile;
mod init;
mod isolation;
mod languages;
mod lifecycle;
mod limits;
mod outputs;
mod packs;
mod pool;
mod shared_kernel;
mod without_root;
