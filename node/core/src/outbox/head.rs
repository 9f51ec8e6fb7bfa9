//! The head of one peer's outbox, and the rows it speaks for.
//!
//! ```text
//!  1 ..       first ..        acked | acked+1 ..     offered | offered+1 ..   next-1 | next
//!  forgotten  kept to be sent again | perhaps on the wire    | provably never sent   |
//! ```
//!
//! Invariants: `first <= acked + 1` except between a peer's restored disk and the gap it is told of; `acked <= offered
//! < next`; every sequence from `first` to `next - 1` has a row; `count` and `bytes` are those of the rows after
//! `acked` and of statuses behind.

use mesh_protocol::delivery::{Chain, Epoch, Open};
use mesh_protocol::id::{MessageId, NodeId};
use serde::{Deserialize, Serialize};

use super::BlockReason;
use super::parcel::{Deadline, Place, Slot, State, StoredParcel};
use crate::store::{Overlay, Record, Store, StoreError, Table, get};
use crate::time::{NodeTime, Now};

/// The sending side of one peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) epoch: Epoch,
    /// Numberings before it of which the peer may have taken something, newest first, at most
    /// [`INBOX_EPOCHS_MAX`](crate::limits::INBOX_EPOCHS_MAX): a peer that took from another knows what this disk has
    /// forgotten.
    pub(super) earlier: Vec<Epoch>,
    /// The oldest sequence that still has a row, or `next`.
    pub(super) first: u64,
    /// The chain at `first - 1`.
    pub(super) first_chain: Chain,
    pub(super) acked: u64,
    /// Up to here parcels may have been put on the wire. Raised in the commit before they are.
    pub(super) offered: u64,
    pub(super) next: u64,
    /// The chain at `next - 1`.
    pub(super) chain: Chain,
    /// Up to here a disk that has since been restored may have sent or taken parcels, so nothing is claimed of them.
    pub(super) uncertain_to: u64,
    /// Tombstones up to `acked`.
    pub(super) tombstones: u64,
    /// Parcels after `acked` that were withdrawn and may arrive.
    pub(super) withdrawn: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) oldest_at: NodeTime,
    pub(super) reserved_count: u64,
    pub(super) reserved_bytes: u64,
    /// Since when, and up to where, parcels were acknowledged: oldest first.
    pub(super) retained: Vec<(NodeTime, u64)>,
    pub(super) retained_bytes: u64,
    pub(super) session: Session,
    /// The session in which this epoch began, because it found that the disk had gone back.
    pub(super) restarted_in: Option<u64>,
    pub(super) blocked: Option<BlockReason>,
    pub(super) attempts: u32,
    pub(super) last_error: Option<String>,
}

/// Whether parcels may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Session {
    None,
    /// The peer was told what there is and has not answered.
    Opening(u64),
    /// What is published now may be on the wire at once.
    Live(u64),
}

impl Record for Head {
    const TABLE: Table = Table::OutboxHeads;
    type Key = NodeId;
}

impl Head {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            earlier: Vec::new(),
            first: 1,
            first_chain: Chain::START,
            acked: 0,
            offered: 0,
            next: 1,
            chain: Chain::START,
            uncertain_to: 0,
            tombstones: 0,
            withdrawn: 0,
            count: 0,
            bytes: 0,
            oldest_at: NodeTime::default(),
            reserved_count: 0,
            reserved_bytes: 0,
            retained: Vec::new(),
            retained_bytes: 0,
            session: Session::None,
            restarted_in: None,
            blocked: None,
            attempts: 0,
            last_error: None,
        }
    }

    /// Whether this disk remembers the numbering.
    pub(super) fn knows(&self, epoch: Epoch) -> bool {
        self.epoch == epoch || self.earlier.contains(&epoch)
    }

    pub(super) fn open_frame(&self, session: u64) -> Open {
        Open { epoch: self.epoch, next: self.next, acked: self.acked, session }
    }

    /// The last sequence given.
    pub(super) fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    pub(super) fn oldest_age_ms(&self, now: Now) -> u64 {
        if self.count == 0 { 0 } else { now.node.since(self.oldest_at) }
    }
}

/// What all outboxes hold, with what is reserved.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Record for Totals {
    const TABLE: Table = Table::OutboxTotals;
    type Key = ();
}

pub(super) fn fresh_epoch(rng: &mut dyn rand::Rng) -> Epoch {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    Epoch(bytes)
}

/// One peer's outbox while an event changes it: [`save`](Self::save) writes the head and the totals back.
pub(super) struct Outbox<'t, 's> {
    pub(super) tx: &'t mut Overlay<'s>,
    pub(super) peer: NodeId,
    pub(super) head: Head,
    pub(super) totals: Totals,
}

impl<'t, 's> Outbox<'t, 's> {
    /// The outbox for a peer, if there is one.
    pub(super) fn load(tx: &'t mut Overlay<'s>, peer: NodeId) -> Result<Option<Self>, StoreError> {
        let Some(head) = get::<Head>(tx, &peer)? else { return Ok(None) };
        let totals = get::<Totals>(tx, &())?.unwrap_or_default();
        Ok(Some(Self { tx, peer, head, totals }))
    }

    /// The outbox for a peer, begun now if there is none.
    pub(super) fn load_or_begin(
        tx: &'t mut Overlay<'s>,
        rng: &mut dyn rand::Rng,
        peer: NodeId,
    ) -> Result<Self, StoreError> {
        let head = get::<Head>(tx, &peer)?.unwrap_or_else(|| Head::new(fresh_epoch(rng)));
        let totals = get::<Totals>(tx, &())?.unwrap_or_default();
        Ok(Self { tx, peer, head, totals })
    }

    pub(super) fn save(self) {
        self.tx.put(&self.peer, &self.head);
        self.tx.put(&(), &self.totals);
    }

    pub(super) fn parcel(&self, seq: u64) -> Result<Option<StoredParcel>, StoreError> {
        get(self.tx as &dyn Store, &(self.peer, seq))
    }

    pub(super) fn put_parcel(&mut self, seq: u64, parcel: &StoredParcel) {
        self.tx.put(&(self.peer, seq), parcel);
    }

    pub(super) fn place(&self, message: MessageId) -> Result<Option<u64>, StoreError> {
        Ok(get::<Place>(self.tx as &dyn Store, &(self.peer, message))?.map(|place| place.seq))
    }

    /// Gives a message the next place. Its room must have been charged.
    pub(super) fn append(
        &mut self,
        message: MessageId,
        body: Vec<u8>,
        queued_at: NodeTime,
        deadline: Option<NodeTime>,
        slot: Option<Slot>,
    ) -> u64 {
        let seq = self.head.next;
        let chain = self.head.chain.then(&message);
        if seq == self.head.acked.saturating_add(1) {
            self.head.oldest_at = queued_at;
        }
        let parcel = StoredParcel { message, chain, queued_at, deadline, slot, state: State::Wanted, body };
        self.put_parcel(seq, &parcel);
        self.tx.put(&(self.peer, message), &Place { seq });
        if let Some(deadline) = deadline {
            self.tx.put(&(deadline, self.peer, message), &Deadline);
        }
        self.head.next = seq.saturating_add(1);
        self.head.chain = chain;
        if matches!(self.head.session, Session::Live(_)) {
            self.head.offered = seq;
        }
        seq
    }

    pub(super) fn forget_deadline(&mut self, parcel: &StoredParcel) {
        if let Some(deadline) = parcel.deadline {
            self.tx.delete::<Deadline>(&(deadline, self.peer, parcel.message));
        }
    }

    pub(super) fn charge(&mut self, count: u64, bytes: u64) {
        self.head.count = self.head.count.saturating_add(count);
        self.head.bytes = self.head.bytes.saturating_add(bytes);
        self.totals.count = self.totals.count.saturating_add(count);
        self.totals.bytes = self.totals.bytes.saturating_add(bytes);
    }

    pub(super) fn credit(&mut self, count: u64, bytes: u64) {
        self.head.count = self.head.count.saturating_sub(count);
        self.head.bytes = self.head.bytes.saturating_sub(bytes);
        self.totals.count = self.totals.count.saturating_sub(count);
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes);
    }
}
