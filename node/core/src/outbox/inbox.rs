//! The receiving side: which parcels are taken, once each and in order.
//!
//! One row a peer says which session may deliver and how far each epoch was taken; one row a message says that it was
//! applied, in whatever epoch it comes again. Both are written by the event that applies the effect.

use mesh_protocol::delivery::{Ack, Chain, Content, Epoch, Gap, Open, Parcel, Resume};
use mesh_protocol::id::{MessageId, NodeId};
use serde::{Deserialize, Serialize};

use super::report::{self, DeliveryReport, ReportKind, Side};
use crate::limits;
use crate::store::{Overlay, Record, Store, StoreError, Table, get};
use crate::time::{NodeTime, Now};

/// What to do with a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// Apply it in this event, then acknowledge.
    Apply {
        /// Which message.
        message: MessageId,
        /// Its bytes, not looked at yet.
        body: Vec<u8>,
    },
    /// It was applied before. Acknowledge.
    Duplicate,
    /// It was withdrawn before it was sent. Acknowledge.
    Tombstone,
    /// Parcels before it are missing: close the stream, the next session resumes.
    OutOfOrder {
        /// What would have been taken.
        expected: u64,
    },
    /// Of a session that was replaced: close the stream.
    Stale,
    /// As much is remembered for this peer as may be: tell it to wait.
    Full,
}

/// The inbox from one peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Inbox {
    /// The only session whose parcels are taken. Its epoch is that of the first mark.
    session: u64,
    /// Messages remembered.
    pub(super) seen: u64,
    /// How far each epoch was taken, most recently opened first, at most [`limits::INBOX_EPOCHS_MAX`].
    marks: Vec<Mark>,
}

/// How far an epoch was taken.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Mark {
    epoch: Epoch,
    seq: u64,
    chain: Chain,
    tombstones: u64,
    /// Up to here the sender knows.
    acked: u64,
    /// The `acked` for which this disk's going back was reported.
    reported: u64,
}

impl Record for Inbox {
    const TABLE: Table = Table::InboxMarks;
    type Key = NodeId;
}

/// A message that was applied.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) epoch: Epoch,
    pub(super) seq: u64,
}

impl Record for Seen {
    const TABLE: Table = Table::InboxSeen;
    type Key = (NodeId, MessageId);
}

/// The same by time, to forget it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SeenAt;

impl Record for SeenAt {
    const TABLE: Table = Table::InboxSeenByTime;
    type Key = (NodeTime, NodeId, MessageId);
}

impl Inbox {
    /// Whether the sender knows that this parcel was acknowledged, so that it will not send it again.
    pub(super) fn is_settled(&self, seen: &Seen) -> bool {
        self.marks.iter().find(|mark| mark.epoch == seen.epoch).is_none_or(|mark| seen.seq <= mark.acked)
    }

    /// The mark of this epoch, first in the list from now on. The least recently used is forgotten for a new one.
    fn open_epoch(&mut self, epoch: Epoch) -> Mark {
        let known = self.marks.iter().position(|mark| mark.epoch == epoch);
        let mark = match known {
            Some(at) => self.marks.remove(at),
            None => Mark { epoch, seq: 0, chain: Chain::START, tombstones: 0, acked: 0, reported: 0 },
        };
        self.marks.insert(0, mark);
        self.marks.truncate(limits::INBOX_EPOCHS_MAX);
        mark
    }

    /// How far the epoch was taken that something was taken of last before the current one.
    fn taken_before(&self) -> Option<Ack> {
        let mut before = self.marks.iter().skip(1).filter(|mark| mark.seq > 0);
        before.next().map(|mark| Ack { epoch: mark.epoch, mark: mark.seq })
    }

    /// The current mark, if this session may move it.
    fn mark_for(&mut self, session: u64) -> Option<&mut Mark> {
        if self.session == session { self.marks.first_mut() } else { None }
    }
}

/// A sender begins a session: from this commit on, only its parcels are taken.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn handle_open(tx: &mut Overlay<'_>, now: Now, peer: NodeId, open: Open) -> Result<Resume, StoreError> {
    let inbox = get::<Inbox>(tx, &peer)?;
    let mut inbox = inbox.unwrap_or(Inbox { session: open.session, seen: 0, marks: Vec::new() });
    let is_first = inbox.marks.is_empty();
    let is_known = inbox.marks.iter().any(|mark| mark.epoch == open.epoch);
    let mut mark = inbox.open_epoch(open.epoch);
    if !is_known && !is_first {
        report::write(tx, &receiving(now, peer, ReportKind::NewEpoch, open.epoch, 0, 0))?;
    }
    if open.acked > mark.seq && open.acked != mark.reported {
        let from = mark.seq.saturating_add(1);
        let kind = ReportKind::ReceiverRolledBack;
        report::write(tx, &receiving(now, peer, kind, open.epoch, from, open.acked))?;
        mark.reported = open.acked;
    }
    mark.acked = open.acked;
    inbox.session = open.session;
    if let Some(first) = inbox.marks.first_mut() {
        *first = mark;
    }
    tx.put(&peer, &inbox);
    let Mark { epoch, seq, chain, tombstones, .. } = mark;
    Ok(Resume { epoch, mark: seq, chain, tombstones, before: inbox.taken_before() })
}

/// Decides on a parcel, and marks it taken in this event: the caller applies it in the same one.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn take(
    tx: &mut Overlay<'_>,
    now: Now,
    peer: NodeId,
    session: u64,
    parcel: Parcel,
) -> Result<Take, StoreError> {
    let Some(mut inbox) = get::<Inbox>(tx, &peer)? else { return Ok(Take::Stale) };
    let seen_count = inbox.seen;
    let Some(mark) = inbox.mark_for(session) else { return Ok(Take::Stale) };
    if parcel.seq <= mark.seq {
        return Ok(Take::Duplicate);
    }
    let expected = mark.seq.saturating_add(1);
    if parcel.seq != expected {
        return Ok(Take::OutOfOrder { expected });
    }
    let message = parcel.message;
    let taken = match parcel.content {
        Content::Tombstone => Take::Tombstone,
        Content::Body(_) if get::<Seen>(tx, &(peer, message))?.is_some() => Take::Duplicate,
        Content::Body(_) if seen_count >= limits::SEEN_MAX => return Ok(Take::Full),
        Content::Body(body) => Take::Apply { message, body },
    };
    if taken == Take::Tombstone {
        mark.tombstones = mark.tombstones.saturating_add(1);
    }
    mark.seq = parcel.seq;
    mark.chain = mark.chain.then(&message);
    mark.acked = mark.acked.max(parcel.acked.min(parcel.seq));
    let seen = Seen { epoch: mark.epoch, seq: parcel.seq };
    if matches!(taken, Take::Apply { .. }) {
        inbox.seen = inbox.seen.saturating_add(1);
        tx.put(&(peer, message), &seen);
        tx.put(&(now.node, peer, message), &SeenAt);
    }
    tx.put(&peer, &inbox);
    Ok(taken)
}

/// The sender no longer has parcels this node's disk forgot: records it and goes on after them. Says what
/// [`take`] says: `Tombstone` when the mark moved.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn handle_gap(
    tx: &mut Overlay<'_>,
    now: Now,
    peer: NodeId,
    session: u64,
    gap: Gap,
) -> Result<Take, StoreError> {
    let Some(mut inbox) = get::<Inbox>(tx, &peer)? else { return Ok(Take::Stale) };
    let Some(mark) = inbox.mark_for(session) else { return Ok(Take::Stale) };
    if gap.to <= mark.seq {
        return Ok(Take::Duplicate);
    }
    let expected = mark.seq.saturating_add(1);
    if gap.from != expected {
        return Ok(Take::OutOfOrder { expected });
    }
    let report = receiving(now, peer, ReportKind::Gap, mark.epoch, gap.from, gap.to);
    mark.seq = gap.to;
    mark.chain = gap.chain;
    report::write(tx, &report)?;
    tx.put(&peer, &inbox);
    Ok(Take::Tombstone)
}

/// What may be acknowledged to a peer once this state is committed; `None` before its first session.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn ack_for(store: &dyn Store, peer: NodeId) -> Result<Option<Ack>, StoreError> {
    let inbox = get::<Inbox>(store, &peer)?;
    Ok(inbox.and_then(|inbox| inbox.marks.first().map(|mark| Ack { epoch: mark.epoch, mark: mark.seq })))
}

fn receiving(now: Now, peer: NodeId, kind: ReportKind, epoch: Epoch, from: u64, to: u64) -> DeliveryReport {
    DeliveryReport { at: now.node, wall_ms: now.wall_ms, peer, side: Side::Receiving, kind, epoch, from, to }
}
