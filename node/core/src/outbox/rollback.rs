//! Disks that went back: which side's, as the start of a session shows, and what follows.

use mesh_protocol::delivery::{Ack, Chain, Epoch, Resume};
use mesh_protocol::id::MessageId;

use super::head::{Head, Outbox, fresh_epoch};
use super::parcel::{Place, State, StoredParcel, StoredSlot};
use super::report::{self, DeliveryReport, ReportKind, Side};
use crate::limits;
use crate::store::{Store, StoreError, get};
use crate::time::Now;

/// Which disk is not what it was.
pub(super) enum Disks {
    AsTheyWere,
    OursWentBack,
    TheirsWentBack,
}

impl Outbox<'_, '_> {
    pub(super) fn compare(&self, resume: &Resume) -> Result<Disks, StoreError> {
        // It took what this disk never offered (`mark >= next` is the plainest case).
        if resume.mark > self.head.offered {
            return Ok(Disks::OursWentBack);
        }
        // It took as many, but others. Only a machine restored with its memory gets here: it goes on offering.
        if self.chain_at(resume.mark)?.is_some_and(|chain| chain != resume.chain) {
            return Ok(Disks::OursWentBack);
        }
        if resume.mark < self.head.acked {
            return Ok(Disks::TheirsWentBack);
        }
        // It took from a numbering this disk knows nothing of: the backup is older than this outbox, or than its last
        // beginning.
        if resume.before.is_some_and(|before| !self.head.knows(before.epoch)) {
            return Ok(Disks::OursWentBack);
        }
        // It took the same, but some of it withdrawn, which this disk does not remember doing.
        let unsettled = self.rows(self.head.acked.saturating_add(1).max(self.head.first), resume.mark)?;
        let buried = unsettled.iter().filter(|(_, parcel)| parcel.state == State::Tombstone).count();
        let tombstones = u64::try_from(buried).unwrap_or(u64::MAX).saturating_add(self.head.tombstones);
        Ok(if resume.tombstones == tombstones { Disks::AsTheyWere } else { Disks::OursWentBack })
    }

    /// The chain at a sequence, unless it is forgotten.
    fn chain_at(&self, seq: u64) -> Result<Option<Chain>, StoreError> {
        if seq == self.head.last() {
            return Ok(Some(self.head.chain));
        }
        if seq == self.head.first.saturating_sub(1) {
            return Ok(Some(self.head.first_chain));
        }
        Ok(self.parcel(seq)?.map(|parcel| parcel.chain))
    }

    /// A new numbering with everything that still is to arrive. The disk that was replaced may have sent any of it,
    /// so nothing is claimed about these parcels any more.
    pub(super) fn begin_epoch(
        &mut self,
        now: Now,
        rng: &mut dyn rand::Rng,
        resume: &Resume,
    ) -> Result<(DeliveryReport, Vec<(MessageId, u64)>), StoreError> {
        let from = self.head.acked.saturating_add(1);
        let here = self.report(now, ReportKind::SenderRolledBack, from, resume.mark.max(self.head.acked));
        let forgotten = resume.before.filter(|before| !self.head.knows(before.epoch));
        let report = match forgotten {
            Some(Ack { epoch, mark }) => DeliveryReport { epoch, from: 1, to: mark, ..here },
            None => here,
        };
        report::write(self.tx, &report)?;
        if forgotten.is_some() && here.to >= here.from {
            report::write(self.tx, &here)?;
        }
        let rows = self.rows(self.head.first, self.head.last())?;
        let Head { epoch, acked, .. } = self.head;
        self.restart(rng);
        // Both are known from now on: one loss is found once.
        self.remember(epoch);
        if let Some(Ack { epoch, .. }) = forgotten {
            self.remember(epoch);
        }
        let mut requeued = Vec::new();
        for (seq, parcel) in rows {
            let message = parcel.message;
            self.tx.delete::<StoredParcel>(&(self.peer, seq));
            self.tx.delete::<Place>(&(self.peer, message));
            if seq > acked
                && let Some(seq) = self.requeue(now, seq, parcel)?
            {
                requeued.push((message, seq));
            }
        }
        self.head.uncertain_to = self.head.last();
        self.head.attempts = self.head.attempts.saturating_add(1);
        Ok((report, requeued))
    }

    /// The peer may name this numbering as one it took from.
    pub(super) fn remember(&mut self, epoch: Epoch) {
        self.head.earlier.insert(0, epoch);
        self.head.earlier.truncate(limits::INBOX_EPOCHS_MAX);
    }

    /// An empty numbering, with room and reservations as they were.
    pub(super) fn restart(&mut self, rng: &mut dyn rand::Rng) {
        let old = std::mem::replace(&mut self.head, Head::new(fresh_epoch(rng)));
        self.head.earlier = old.earlier;
        self.head.count = old.count;
        self.head.bytes = old.bytes;
        self.head.reserved_count = old.reserved_count;
        self.head.reserved_bytes = old.reserved_bytes;
        self.head.blocked = old.blocked;
        self.head.attempts = old.attempts;
        self.head.last_error = old.last_error;
    }

    /// Its place in the new numbering. A withdrawn parcel needs none: the peer has not seen this numbering.
    fn requeue(&mut self, now: Now, old_seq: u64, parcel: StoredParcel) -> Result<Option<u64>, StoreError> {
        if parcel.state != State::Wanted {
            self.credit(1, parcel.bytes());
            if let Some(slot) = parcel.slot {
                self.advance_slot(now, slot, old_seq)?;
            }
            return Ok(None);
        }
        let slot = match parcel.slot {
            Some(slot) => get::<StoredSlot>(self.tx as &dyn Store, &(self.peer, slot))?
                .filter(|stored| stored.seq == old_seq)
                .map(|stored| (slot, stored)),
            None => None,
        };
        let StoredParcel { message, body, queued_at, deadline, .. } = parcel;
        let seq = self.append(message, body, queued_at, deadline, slot.as_ref().map(|(slot, _)| *slot));
        if let Some((slot, stored)) = slot {
            self.tx.put(&(self.peer, slot), &StoredSlot { seq, ..stored });
        }
        Ok(Some(seq))
    }

    /// The peer forgot parcels it acknowledged: those that are kept wait again, the others are a gap.
    pub(super) fn step_back(&mut self, now: Now, resume: Resume) -> Result<DeliveryReport, StoreError> {
        let Resume { mark, tombstones, .. } = resume;
        let missing = mark.saturating_add(1);
        let report = self.report(now, ReportKind::ReceiverRolledBack, missing, self.head.acked);
        report::write(self.tx, &report)?;
        if self.head.first > missing {
            let gap = self.report(now, ReportKind::Gap, missing, self.head.first.saturating_sub(1));
            report::write(self.tx, &gap)?;
        }
        for (_, parcel) in self.rows(missing.max(self.head.first), self.head.acked)? {
            self.charge(1, parcel.bytes());
            self.head.retained_bytes = self.head.retained_bytes.saturating_sub(parcel.bytes());
            self.head.oldest_at = self.head.oldest_at.min(parcel.queued_at);
        }
        self.head.uncertain_to = self.head.uncertain_to.max(self.head.offered);
        self.head.acked = mark;
        self.head.tombstones = tombstones;
        for (_, to) in &mut self.head.retained {
            *to = mark.min(*to);
        }
        Ok(report)
    }

    fn report(&self, now: Now, kind: ReportKind, from: u64, to: u64) -> DeliveryReport {
        let Head { epoch, .. } = self.head;
        DeliveryReport {
            at: now.node,
            wall_ms: now.wall_ms,
            peer: self.peer,
            side: Side::Sending,
            kind,
            epoch,
            from,
            to,
        }
    }
}
