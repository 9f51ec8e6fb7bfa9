//! The one writer: events in, one commit a batch, and only then actions and replies.
//!
//! ```text
//!  submit ──> commands ─┐            ┌──────────── WriterCore ────────────┐
//!                       ├─ a batch ─>│ handle each, over what came before │─ commit ─┬─> actions, in order
//!  post ────> events ───┘            └────────────────────────────────────┘  (fsync)  └─> replies
//! ```
//!
//! [`WriterCore`] runs batches. [`start`] puts a loop around it on a thread of its own, fed by two bounded queues;
//! [`start_here`] the same loop on the current runtime, for simulations.
//!
//! Invariants:
//! - Nothing is performed or answered before the commit of its batch.
//! - An event that fails or panics leaves no trace but its row in the quarantine; the others of its batch are kept.
//! - An accepted event is run until it is kept or quarantined, or the writer stops with an error. After a failed
//!   commit the database is opened again, and it says whether the batch was kept; if not, the batch is run again.
//! - The clock's row is in every commit.

mod core;
mod handle;
mod lanes;
mod quarantine;
mod queued;
mod share;
mod thread;
mod work;

pub use core::WriterCore;
pub use handle::{Refused, WriterHandle};
pub use quarantine::{Cause, QuarantineKey, Quarantined};
pub use queued::Queued;
pub use share::PeerShare;
pub use thread::{Writer, start, start_here};
pub use work::Pace;

use std::sync::atomic::{AtomicU64, Ordering};

use mesh_node_core::handler::Handler;
use mesh_node_core::store::StoreError;
use thiserror::Error;

/// What the writer needs from outside. Called on the writer's thread, so nothing here may block.
pub trait Perform<H: Handler>: Send {
    /// Does what the machine decided; its changes are durable, or come again by themselves.
    fn perform(&mut self, action: H::Action);

    /// An event could not be handled and was put into the quarantine, which is durable. Pause whatever it came from.
    fn quarantined(&mut self, event: &H::Event) {
        let _ = event;
    }
}

/// Why an event was not accepted, or has no reply.
#[derive(Debug, Error)]
pub enum SubmitError {
    /// The queue is full. Nothing was changed; try again later.
    #[error("too much work is waiting")]
    Full,
    /// The writer stopped. An event that was already taken may have been kept.
    #[error("the node is stopping")]
    Stopped,
    /// The database failed and is being recovered. Whether the event is or will be kept is not known: ask again, with
    /// the same idempotency key.
    #[error("the database failed; whether this took effect is not known yet")]
    StorageUnavailable,
    /// There is no room on the disk, so nothing new is taken. Nothing was changed.
    #[error("the disk is full: nothing new is taken until there is room")]
    DiskFull,
    /// Handling the event panicked. Nothing was changed.
    #[error("the node could not handle this; it was recorded and left no other trace")]
    Quarantined,
    /// State this event needs cannot be read. Nothing was changed.
    #[error("stored state is not readable")]
    Unreadable(#[source] StoreError),
    /// The machine has no reply to this event, though it was handled.
    #[error("handled without a reply")]
    NoReply,
}

/// Why the writer ended by itself. The node must stop: a restart recovers from what is durable.
#[derive(Debug, Error)]
pub enum WriterError {
    /// The database did not recover.
    #[error("the database failed and did not recover in {tries} tries")]
    Storage {
        /// How often it was opened again.
        tries: u32,
        /// What the last try came to.
        #[source]
        source: StoreError,
    },
    /// Performing an action, or the writer itself, panicked.
    #[error("the writer panicked")]
    Panicked,
}

/// What the writer did since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Batches committed.
    pub commits: u64,
    /// Events kept.
    pub events: u64,
    /// Events put into the quarantine.
    pub quarantined: u64,
    /// Times the database was opened again after a failure.
    pub recoveries: u64,
}

/// The counts while they are counted.
#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    events: AtomicU64,
    quarantined: AtomicU64,
    recoveries: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, by: usize) {
        counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn read(&self) -> Counts {
        Counts {
            commits: self.commits.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            quarantined: self.quarantined.load(Ordering::Relaxed),
            recoveries: self.recoveries.load(Ordering::Relaxed),
        }
    }
}
