//! Whole nodes in virtual time: the shipped code with real QUIC, TLS and redb, on a network and disks in memory.
//!
//! ```text
//!  operations, from the seed ──> World ──> nodes ──┬── Network   loses, doubles, delays, cuts
//!                                                  ├── Disk      forgets what was not synced, fails, goes back
//!                                                  └── agents, jobs ── effects ──> Ledger ──> checkers
//! ```
//! Agents and sandboxes follow scripts and write what they do into a ledger outside. Time is a paused runtime's: it
//! jumps from one event to the next.

mod agent;
mod baseline;
mod callers;
mod campaign;
pub mod check;
pub mod dials;
mod facts;
mod founding;
pub mod ledger;
mod life;
mod machine;
pub mod network;
mod operation;
mod run;
mod sandbox;
pub mod scenario;
mod shrink;
mod time;
mod world;

pub use baseline::{Baseline, Figures};
pub use campaign::{Campaign, Report, replay_command, run};
pub use check::Broken;
pub use facts::{Facts, NodeFacts, Sighting};
pub use operation::{Deed, Operation};
pub use run::{Outcome, Tally, operations, play, simulate};
pub use scenario::Scenario;
pub use shrink::{Shrunk, shrink};
pub use world::{Backup, World};
