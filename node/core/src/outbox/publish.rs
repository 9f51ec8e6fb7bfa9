//! Into the outbox: admission, room reserved for answers, and statuses that replace each other.
//!
//! Touches the head, the totals and at most four rows, whatever the outbox holds.

use mesh_protocol::delivery::Epoch;
use mesh_protocol::id::{MessageId, NodeId};
use thiserror::Error;

use super::BlockReason;
use super::head::{Outbox, Session};
use super::parcel::{Behind, Class, NewParcel, Slot, StoredSlot};
use crate::limits;
use crate::store::{Overlay, StoreError, get};
use crate::time::Now;

/// A message that will be delivered, and what is ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// Its place; `None` for a status that waits behind an earlier one of its slot.
    pub seq: Option<u64>,
    /// The numbering of that place.
    pub epoch: Epoch,
    /// Parcels in the outbox, with this one.
    pub depth: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Milliseconds the oldest of them has waited.
    pub oldest_age_ms: u64,
    /// Whether it may be on the wire once this is committed: a session lives.
    pub offered: bool,
    /// The status that will not be delivered because of this.
    pub replaced: Option<MessageId>,
}

/// Why a message was not queued. Nothing was changed.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The peer's outbox is at its limit.
    #[error("outbox for {} is full: {count} parcels, {bytes} bytes, oldest {oldest_age_ms} ms", peer.short())]
    Full {
        /// Whose.
        peer: NodeId,
        /// Parcels in it, with those reserved.
        count: u64,
        /// Bytes in it, with those reserved.
        bytes: u64,
        /// Milliseconds the oldest has waited.
        oldest_age_ms: u64,
    },
    /// All outboxes together are at the node's limit.
    #[error("the outboxes of this node are full: {count} parcels, {bytes} bytes")]
    NodeFull {
        /// Parcels in them, with those reserved.
        count: u64,
        /// Bytes in them, with those reserved.
        bytes: u64,
    },
    /// Nothing goes to this peer until it is unblocked.
    #[error("{} is blocked: {reason:?}", peer.short())]
    Blocked {
        /// Which peer.
        peer: NodeId,
        /// Why.
        reason: BlockReason,
    },
    /// The body is longer than a parcel carries.
    #[error("body of {bytes} bytes is over the limit of {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The state could not be read.
    #[error("cannot read the outbox")]
    Store(#[from] StoreError),
}

/// Queues a message for a peer. Publishing a message that is still in the outbox changes nothing and finds its place.
///
/// # Errors
/// [`PublishError`]; nothing was changed.
pub fn publish(
    tx: &mut Overlay<'_>,
    now: Now,
    rng: &mut dyn rand::Rng,
    peer: NodeId,
    parcel: NewParcel,
) -> Result<Queued, PublishError> {
    if parcel.body.len() > limits::PARCEL_BODY_BYTES_MAX {
        let (bytes, limit) = (parcel.body.len(), limits::PARCEL_BODY_BYTES_MAX);
        return Err(PublishError::TooLong { bytes, limit });
    }
    let mut outbox = Outbox::load_or_begin(tx, rng, peer)?;
    if let Some(seq) = outbox.place(parcel.message)? {
        return Ok(outbox.queued(now, Some(seq), None));
    }
    let slot = match parcel.supersedes {
        Some(slot) => get::<StoredSlot>(outbox.tx, &(peer, slot))?.map(|stored| (slot, stored)),
        None => None,
    };
    let replaced = slot.as_ref().and_then(|(_, stored)| stored.behind.as_ref()).map(|behind| {
        outbox.credit(1, behind.bytes());
        behind.message
    });
    let bytes = u64::try_from(parcel.body.len()).unwrap_or(u64::MAX);
    outbox.admit(now, parcel.class, bytes)?;
    outbox.charge(1, bytes);
    let queued = if let (Class::Status, Some((slot, stored))) = (parcel.class, &slot) {
        let behind = Behind { message: parcel.message, body: parcel.body };
        outbox.tx.put(&(peer, *slot), &StoredSlot { seq: stored.seq, behind: Some(behind) });
        outbox.queued(now, None, replaced)
    } else {
        let deadline = parcel.deadline_ms.map(|ms| now.node.plus_ms(ms));
        let own_slot = parcel.supersedes.filter(|_| matches!(parcel.class, Class::Status));
        let seq = outbox.append(parcel.message, parcel.body, now.node, deadline, own_slot);
        if let Some(slot) = own_slot {
            outbox.tx.put(&(peer, slot), &StoredSlot { seq, behind: None });
        } else if let (Some((slot, stored)), Some(_)) = (slot, replaced) {
            outbox.tx.put(&(peer, slot), &StoredSlot { behind: None, ..stored });
        }
        outbox.queued(now, Some(seq), replaced)
    };
    outbox.save();
    Ok(queued)
}

/// Whether a message of these bytes, parts and all, would be taken.
///
/// # Errors
/// [`PublishError`] when it would not.
pub fn check_room(
    tx: &mut Overlay<'_>,
    now: Now,
    rng: &mut dyn rand::Rng,
    peer: NodeId,
    class: Class,
    bytes: usize,
) -> Result<(), PublishError> {
    // The end of work that was accepted is never refused; its own place is given back when that is published.
    if matches!(class, Class::Terminal { .. }) {
        return Ok(());
    }
    let outbox = Outbox::load_or_begin(tx, rng, peer)?;
    outbox.check_room(now, class, u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// Reserves room for one answer of these bytes, so that [`Class::Terminal`] will not be refused. Accepting work does
/// this in the commit that accepts it.
///
/// # Errors
/// [`PublishError`] when there is no room: the work is to be refused.
pub fn reserve(
    tx: &mut Overlay<'_>,
    now: Now,
    rng: &mut dyn rand::Rng,
    peer: NodeId,
    bytes: u64,
) -> Result<(), PublishError> {
    let mut outbox = Outbox::load_or_begin(tx, rng, peer)?;
    outbox.admit(now, Class::Request, bytes)?;
    outbox.head.reserved_count = outbox.head.reserved_count.saturating_add(1);
    outbox.head.reserved_bytes = outbox.head.reserved_bytes.saturating_add(bytes);
    outbox.totals.count = outbox.totals.count.saturating_add(1);
    outbox.totals.bytes = outbox.totals.bytes.saturating_add(bytes);
    outbox.save();
    Ok(())
}

/// Gives back what [`reserve`] took, for work that will have no answer.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn release(tx: &mut Overlay<'_>, peer: NodeId, bytes: u64) -> Result<(), StoreError> {
    let Some(mut outbox) = Outbox::load(tx, peer)? else { return Ok(()) };
    outbox.give_back(bytes);
    outbox.save();
    Ok(())
}

impl Outbox<'_, '_> {
    /// Whether there is room for one more of this class; a terminal gives its reservation back.
    fn admit(&mut self, now: Now, class: Class, bytes: u64) -> Result<(), PublishError> {
        if let Class::Terminal { reserved } = class
            && self.head.reserved_count > 0
        {
            self.give_back(reserved);
            return Ok(());
        }
        self.check_room(now, class, bytes)
    }

    fn check_room(&self, now: Now, class: Class, bytes: u64) -> Result<(), PublishError> {
        if let Some(reason) = self.head.blocked {
            return Err(PublishError::Blocked { peer: self.peer, reason });
        }
        let (extra_count, extra_bytes) = match class {
            Class::Control => (limits::OUTBOX_CONTROL_PARCELS, limits::OUTBOX_CONTROL_BYTES),
            Class::Part => return Ok(()),
            Class::Request | Class::Terminal { .. } | Class::Status => (0, 0),
        };
        let fits = |count: u64, used: u64, count_max: u64, bytes_max: u64| {
            count < count_max.saturating_add(extra_count)
                && used.saturating_add(bytes) <= bytes_max.saturating_add(extra_bytes)
        };
        let count = self.head.count.saturating_add(self.head.reserved_count);
        let used = self.head.bytes.saturating_add(self.head.reserved_bytes);
        if !fits(count, used, limits::OUTBOX_PARCELS_MAX, limits::OUTBOX_BYTES_MAX) {
            let oldest_age_ms = self.head.oldest_age_ms(now);
            return Err(PublishError::Full { peer: self.peer, count, bytes: used, oldest_age_ms });
        }
        let totals = self.totals;
        if !fits(totals.count, totals.bytes, limits::OUTBOXES_PARCELS_MAX, limits::OUTBOXES_BYTES_MAX) {
            return Err(PublishError::NodeFull { count: totals.count, bytes: totals.bytes });
        }
        Ok(())
    }

    fn give_back(&mut self, bytes: u64) {
        let count = self.head.reserved_count.min(1);
        let bytes = self.head.reserved_bytes.min(bytes);
        self.head.reserved_count = self.head.reserved_count.saturating_sub(count);
        self.head.reserved_bytes = self.head.reserved_bytes.saturating_sub(bytes);
        self.totals.count = self.totals.count.saturating_sub(count);
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes);
    }

    /// After a slot's parcel was acknowledged: the status behind it gets a place, or the slot ends.
    pub(super) fn advance_slot(&mut self, now: Now, slot: Slot, acked: u64) -> Result<(), StoreError> {
        let Some(stored) = get::<StoredSlot>(self.tx, &(self.peer, slot))? else { return Ok(()) };
        if stored.seq != acked {
            return Ok(());
        }
        match stored.behind {
            Some(Behind { message, body }) => {
                let seq = self.append(message, body, now.node, None, Some(slot));
                self.tx.put(&(self.peer, slot), &StoredSlot { seq, behind: None });
            }
            None => self.tx.delete::<StoredSlot>(&(self.peer, slot)),
        }
        Ok(())
    }

    fn queued(&self, now: Now, seq: Option<u64>, replaced: Option<MessageId>) -> Queued {
        Queued {
            seq,
            epoch: self.head.epoch,
            depth: self.head.count,
            bytes: self.head.bytes,
            oldest_age_ms: self.head.oldest_age_ms(now),
            offered: matches!(self.head.session, Session::Live(_))
                && seq.is_some_and(|seq| seq <= self.head.offered),
            replaced,
        }
    }
}
