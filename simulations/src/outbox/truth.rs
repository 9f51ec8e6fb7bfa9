//! What really happened, as neither node can know it: the oracle's notes.

use std::collections::{BTreeMap, BTreeSet};

use mesh_protocol::delivery::Epoch;
use mesh_protocol::id::MessageId;

/// An effect that became durable at the receiver, or escaped into the world.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    pub(super) message: MessageId,
    pub(super) epoch: Option<Epoch>,
    pub(super) seq: u64,
}

/// A statement of the sender that a message did not run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) message: MessageId,
    pub(super) what: &'static str,
    /// Made on a restored disk before the first session found that out, or before the disk was restored: the node
    /// that made it is gone.
    pub(super) excused: bool,
}

/// Everything the oracle judges by.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// Durably accepted, in order.
    pub(super) published: Vec<MessageId>,
    /// Of these, the ones whose order is promised.
    pub(super) ordered: BTreeSet<MessageId>,
    /// Accepted, but not owed: taken back, replaced, or gone with the sender's restored disk.
    pub(super) not_owed: BTreeSet<MessageId>,
    pub(super) effects: Vec<Effect>,
    pub(super) delivered: BTreeSet<MessageId>,
    pub(super) claims: Vec<Claim>,
    /// What was sent in which place.
    pub(super) sent: BTreeMap<(Epoch, u64), MessageId>,
    /// How many were published when the backup was made.
    pub(super) published_at_backup: usize,
}

impl Truth {
    pub(super) fn claim(&mut self, message: MessageId, what: &'static str, excused: bool) {
        self.not_owed.insert(message);
        self.claims.push(Claim { message, what, excused });
    }

    /// The sender's disk goes back to its backup.
    pub(super) fn sender_restored(&mut self) {
        self.not_owed.extend(self.published.iter().skip(self.published_at_backup));
        self.claims.iter_mut().for_each(|claim| claim.excused = true);
    }
}
