//! Two whole durable sides, stopped at every operation of their disks.
//!
//! Each side is what a node commits with: the shipped machine, writer and database, on a [`Disk`](crate::disk::Disk)
//! that forgets what was not synced. Frames pass over a queue in memory, agents and sandboxes are scripted, and time
//! moves only here. What is not in it: sockets, threads and files.
//!
//! ```text
//! seed ──> plan: who asks, sends, runs, withdraws, what fails
//! plan + point ──> run to the point ──> the machine stops ──> what its disk kept starts again ──> everything heals
//!                                                                      └─> the database is judged   └─> and the rest
//! ```
//!
//! A run is a function of its seed and its [`Point`], so either names it. [`Row`] are the crashes and failures that a
//! delivery protocol must survive; a run says which of them it met.

mod campaign;
mod clock;
mod commands;
mod failures;
mod healing;
mod judge;
mod link;
mod plan;
mod point;
mod row;
mod sessions;
mod side;
mod truth;
mod work;
mod world;
mod writing;

pub use campaign::{Campaign, Failure, Report, run};
pub use judge::Violation;
pub use plan::{Scenario, is_long};
pub use point::{At, Point, SIDES, SideIndex};
pub use row::Row;
pub use side::Prepared;
pub use world::{Control, Outcome, simulate};
