//! Random schedules against one outbox and its inbox.
//!
//! Two nodes, one direction: a sender that publishes, withdraws and crashes, a link that loses, repeats, reorders and
//! cuts, a receiver that applies and crashes. A crash falls before a commit or between the commit and its actions. In
//! half of the schedules one disk is restored from a backup once: the sender's, the sender's with its memory (a
//! virtual machine's snapshot) or the receiver's. After the faults everything heals and must come to rest; then the
//! [`oracle`] judges.
//!
//! A [`Mutant`] is the same driver with one mistake at a seam, outside the shipped code. A model that does not catch
//! them proves nothing.

mod campaign;
mod link;
mod machine;
mod mutant;
pub mod oracle;
mod receiver;
mod sender;
mod truth;
mod world;

pub use campaign::{Campaign, Report, run};
pub use mutant::Mutant;
pub use oracle::Violation;
pub use world::{Outcome, Restored, simulate};
