//! Out of the outbox: what a peer acknowledged stops waiting, and is kept a while in case its disk goes back.

use mesh_protocol::delivery::Ack;
use mesh_protocol::id::{MessageId, NodeId};

use super::head::{Outbox, Session};
use super::parcel::{Place, State, StoredParcel};
use crate::limits;
use crate::store::{Overlay, Store, StoreError, get, scan_from};
use crate::time::Now;

/// A message whose effect is durable at the peer. May be named again after the peer's disk went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Which.
    pub message: MessageId,
    /// It had been withdrawn, but too late.
    pub withdrawn: bool,
}

/// What an acknowledgement came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acknowledged {
    /// What has arrived by it.
    pub delivered: Vec<Delivered>,
    /// Whether a status that waited behind an acknowledged one has a place now, and is to be sent.
    pub published: bool,
}

/// A cumulative acknowledgement. One of another session or epoch, or of parcels never offered, changes nothing.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn handle_ack(
    tx: &mut Overlay<'_>,
    now: Now,
    peer: NodeId,
    session: u64,
    ack: Ack,
) -> Result<Acknowledged, StoreError> {
    let Some(mut outbox) = Outbox::load(tx, peer)? else { return Ok(Acknowledged::default()) };
    let head = &outbox.head;
    if head.session != Session::Live(session) || head.epoch != ack.epoch || ack.mark > head.offered {
        return Ok(Acknowledged::default());
    }
    let next = head.next;
    let delivered = outbox.settle(now, ack.mark)?;
    let published = outbox.head.next > next;
    outbox.save();
    Ok(Acknowledged { delivered, published })
}

impl Outbox<'_, '_> {
    /// Everything up to the mark has arrived.
    pub(super) fn settle(&mut self, now: Now, mark: u64) -> Result<Vec<Delivered>, StoreError> {
        if mark <= self.head.acked {
            return Ok(Vec::new());
        }
        let mut delivered = Vec::new();
        let first = self.head.acked.saturating_add(1).max(self.head.first);
        let rows = self.rows(first, mark)?;
        self.head.acked = mark;
        for (seq, parcel) in rows {
            self.forget_deadline(&parcel);
            self.credit(1, parcel.bytes());
            self.head.retained_bytes = self.head.retained_bytes.saturating_add(parcel.bytes());
            let withdrawn = parcel.state == State::Withdrawn;
            if withdrawn {
                self.head.withdrawn = self.head.withdrawn.saturating_sub(1);
            }
            if parcel.state == State::Tombstone {
                self.head.tombstones = self.head.tombstones.saturating_add(1);
            } else {
                delivered.push(Delivered { message: parcel.message, withdrawn });
            }
            if let Some(slot) = parcel.slot {
                self.advance_slot(now, slot, seq)?;
            }
        }
        if let Some(oldest) = self.parcel(mark.saturating_add(1))? {
            self.head.oldest_at = oldest.queued_at;
        }
        self.retain(now, mark);
        self.drop_expired(now)?;
        Ok(delivered)
    }

    /// The rows of a range, in order.
    pub(super) fn rows(&self, from: u64, to: u64) -> Result<Vec<(u64, StoredParcel)>, StoreError> {
        let Some(span) = to.checked_sub(from) else { return Ok(Vec::new()) };
        let limit = usize::try_from(span.saturating_add(1)).unwrap_or(usize::MAX);
        let rows = scan_from::<StoredParcel>(self.tx, &self.peer, &(self.peer, from), limit)?;
        Ok(rows
            .into_iter()
            .map(|((_, seq), parcel)| (seq, parcel))
            .take_while(|(seq, _)| *seq <= to)
            .collect())
    }

    /// Dates what was just acknowledged, so that it is kept for its time and no row is written again.
    fn retain(&mut self, now: Now, mark: u64) {
        match self.head.retained.last_mut() {
            Some((since, to)) if now.node < since.plus_ms(limits::RETAINED_STEP_MS) => *to = mark,
            _ => self.head.retained.push((now.node, mark)),
        }
    }

    /// Forgets acknowledged parcels that were kept long enough, or are too many. Returns how many.
    pub(super) fn drop_expired(&mut self, now: Now) -> Result<u64, StoreError> {
        let kept_ms = limits::RETAINED_MS.saturating_add(limits::RETAINED_STEP_MS);
        let expired =
            self.head.retained.iter().take_while(|(since, _)| now.node >= since.plus_ms(kept_ms)).count();
        let expired_to = self.head.retained.drain(..expired).next_back().map_or(0, |(_, to)| to);
        let before = self.head.first;
        while self.head.first <= self.head.acked
            && (self.head.first <= expired_to
                || self.head.acked.saturating_sub(self.head.first) >= limits::RETAINED_PARCELS_MAX
                || self.head.retained_bytes > limits::RETAINED_BYTES_MAX)
        {
            self.drop_first()?;
        }
        Ok(self.head.first.saturating_sub(before))
    }

    fn drop_first(&mut self) -> Result<(), StoreError> {
        let seq = self.head.first;
        if let Some(parcel) = self.parcel(seq)? {
            self.head.first_chain = parcel.chain;
            self.head.retained_bytes = self.head.retained_bytes.saturating_sub(parcel.bytes());
            let place = get::<Place>(self.tx as &dyn Store, &(self.peer, parcel.message))?;
            if place.is_some_and(|place| place.seq == seq) {
                self.tx.delete::<Place>(&(self.peer, parcel.message));
            }
        }
        self.tx.delete::<StoredParcel>(&(self.peer, seq));
        self.head.first = seq.saturating_add(1);
        Ok(())
    }
}
