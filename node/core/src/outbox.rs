//! Durable delivery: what is to reach a peer reaches it, or the node can say what became of it.
//!
//! One outbox a peer, one inbox a peer, as functions over an [`Overlay`](crate::store::Overlay): the event that
//! changes a flight publishes its message in the same commit, and the event that takes a message applies its effect
//! in the same commit as the mark that keeps it from being applied again. Delivery is at least once and an effect is
//! once. What this module does not do: it opens no streams, keeps no timers and knows no message's meaning.
//!
//! ```text
//!  a parcel, as its sender knows it
//!
//!  publish ──> queued ──(a session lives)──> offered ──(ack)──> acknowledged ──> kept an hour ──> forgotten
//!                │                              │                     
//!             withdraw                       withdraw
//!                v                              v
//!            never sent                     withdrawn ──(ack)──────────────────> it did arrive
//!                                               └───(next session: mark below)─> never arrived
//!
//!  a session, on the sender's side
//!
//!  none ──open──> opening ──handle_resume──> live ──session_lost, forget_sessions, open──> none or opening
//!                    └── the peer knows more than this disk: new epoch, everything queued again ──> none
//! ```
//!
//! Two things make the ends of that picture true. **Offered** is durable and raised in the commit before a parcel can
//! be on the wire, so "never sent" survives a crash. A **session is a fence**: from the commit that answers an
//! [`Open`](mesh_protocol::delivery::Open) on, the receiver takes parcels of that session only, so a mark below a
//! parcel proves that no copy still under way can be taken.
//!
//! A disk that was restored from a backup is found by comparing marks and chain hashes at the start of a session:
//! - the peer took more than this disk ever offered, or other messages: *this* disk went back. The outbox gets a new
//!   epoch and everything unacknowledged goes again under the same message ids, which the peer takes once.
//! - the peer took less than it acknowledged: *its* disk went back. What is still kept goes again, the rest is a gap
//!   that both sides record.
//!
//! Not found: a peer's disk that went back to a point after its last acknowledgement. That loses nothing, but an effect
//! it had before may have been called "never arrived". And not before the two meet: a node whose own disk went back
//! says of a deadline that passes until then what its disk knows, which may be "never sent". What the peer has to say
//! about it comes late and is kept beside it.

mod acknowledge;
mod garbage;
mod head;
mod inbox;
mod parcel;
mod publish;
mod report;
mod rollback;
mod session;
mod view;
mod withdraw;

pub use acknowledge::{Acknowledged, Delivered, handle_ack};
pub use garbage::collect_garbage;
pub use inbox::{Take, ack_for, handle_gap, handle_open, take};
pub use parcel::{Class, NewParcel, Slot};
pub use publish::{PublishError, Queued, check_room, publish, release, reserve};
pub use report::{DeliveryReport, ReportKind, Side, reports};
pub use session::{
    OpenError, Resumed, forget_sessions, handle_resume, note_failure, open, session_lost, set_blocked,
    unblock,
};
pub use view::{Fate, OutboxView, depth, fate, next_parcels};
pub use withdraw::{Discarded, Due, WithdrawOutcome, discard, due, next_deadline, withdraw};

use serde::{Deserialize, Serialize};

/// Why nothing is sent to a peer, although its rows stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockReason {
    /// It left the mesh.
    Left,
    /// Its certificate was revoked.
    Revoked,
    /// This node's operator blocked it.
    Operator,
}
