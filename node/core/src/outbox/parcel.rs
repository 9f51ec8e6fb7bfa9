//! One message in an outbox: what callers hand in, and the rows it becomes.

use mesh_protocol::delivery::{Chain, Content, Parcel};
use mesh_protocol::id::{MessageId, NodeId};
use serde::{Deserialize, Serialize};

use crate::store::{Key, KeyError, Record, Table};
use crate::time::NodeTime;

/// A message to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewParcel {
    /// Its id: publishing the same one again changes nothing.
    pub message: MessageId,
    /// Its bytes, at most [`PARCEL_BODY_BYTES_MAX`](crate::limits::PARCEL_BODY_BYTES_MAX).
    pub body: Vec<u8>,
    /// What may be done when there is no room.
    pub class: Class,
    /// Remaining milliseconds after which [`due`](super::due) names it, unless it was acknowledged by then.
    pub deadline_ms: Option<u64>,
    /// The slot whose waiting status this makes pointless.
    pub supersedes: Option<Slot>,
}

/// What a message is to its outbox when room is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// New work. Refused when the outbox is full.
    Request,
    /// The end of work that was accepted: goes into the `reserved` bytes taken by [`reserve`](super::reserve) when
    /// the work was, so that it is never refused.
    Terminal {
        /// Bytes that were reserved for it, given back by this.
        reserved: u64,
    },
    /// What is true now. A slot has one status in the outbox and at most one waiting behind it, the newest.
    Status,
    /// A withdrawal or a cancellation: may use room of its own beyond the limit.
    Control,
    /// A part of a message that [`check_room`](super::check_room) found room for: taken as it is.
    Part,
}

/// What statuses replace each other in: usually the id of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub [u8; 16]);

impl Key for Slot {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, KeyError> {
        let (slot, rest) = bytes.split_first_chunk().ok_or(KeyError { bytes: bytes.len() })?;
        *bytes = rest;
        Ok(Self(*slot))
    }
}

/// A parcel in its place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredParcel {
    pub(super) message: MessageId,
    /// Over all messages of this epoch up to this one.
    pub(super) chain: Chain,
    pub(super) queued_at: NodeTime,
    pub(super) deadline: Option<NodeTime>,
    pub(super) slot: Option<Slot>,
    pub(super) state: State,
    #[serde(with = "serde_bytes")]
    pub(super) body: Vec<u8>,
}

/// What is to become of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    /// It is to arrive.
    Wanted,
    /// It was offered before it was withdrawn. In the session it was offered in it is sent as it is, so that an
    /// acknowledgement still means that it arrived; the next session sends a tombstone if it did not.
    Withdrawn,
    /// It will not arrive; only its place is sent.
    Tombstone,
}

impl Record for StoredParcel {
    const TABLE: Table = Table::OutboxParcels;
    type Key = (NodeId, u64);
}

impl StoredParcel {
    /// Bytes it counts for.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.body.len()).unwrap_or(u64::MAX)
    }

    /// Keeps its place and forgets the rest.
    pub(super) fn bury(&mut self) {
        self.state = State::Tombstone;
        self.deadline = None;
        self.body = Vec::new();
    }

    /// The frame that carries it.
    pub(super) fn into_frame(self, seq: u64, acked: u64) -> Parcel {
        let content = match self.state {
            State::Wanted | State::Withdrawn => Content::Body(self.body),
            State::Tombstone => Content::Tombstone,
        };
        Parcel { seq, acked, message: self.message, content }
    }
}

/// Where a message is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) seq: u64,
}

impl Record for Place {
    const TABLE: Table = Table::OutboxMessages;
    type Key = (NodeId, MessageId);
}

/// A parcel's deadline.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Deadline;

impl Record for Deadline {
    const TABLE: Table = Table::OutboxDeadlines;
    type Key = (NodeTime, NodeId, MessageId);
}

/// A slot: the status that has a place, and the one that waits for it to be acknowledged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredSlot {
    pub(super) seq: u64,
    pub(super) behind: Option<Behind>,
}

/// A status without a place yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Behind {
    pub(super) message: MessageId,
    #[serde(with = "serde_bytes")]
    pub(super) body: Vec<u8>,
}

impl Behind {
    /// Bytes it counts for.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.body.len()).unwrap_or(u64::MAX)
    }
}

impl Record for StoredSlot {
    const TABLE: Table = Table::OutboxSlots;
    type Key = (NodeId, Slot);
}
