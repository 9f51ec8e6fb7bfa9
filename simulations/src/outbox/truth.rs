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
    /// From which effect on it is judged. A node whose disk was restored speaks for what happens after the first
    /// session on that disk; what it said before the disk was restored is gone with it: `None`.
    pub(super) judged_from: Option<usize>,
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
    /// How many claims were made when the sender's disk went back.
    claims_at_restore: usize,
}

impl Truth {
    /// The sender says that a message did not run, on a disk of which it may not know that it went back.
    pub(super) fn claim(&mut self, message: MessageId, what: &'static str, unaware: bool) {
        self.not_owed.insert(message);
        self.claims.push(Claim { message, what, judged_from: (!unaware).then_some(0) });
    }

    /// The first session on a restored disk found out: no effect of what was said not to run may follow.
    pub(super) fn sender_aware(&mut self) {
        let from = self.effects.len();
        for claim in self.claims.iter_mut().skip(self.claims_at_restore) {
            claim.judged_from.get_or_insert(from);
        }
    }

    /// The sender's disk goes back to its backup.
    pub(super) fn sender_restored(&mut self) {
        self.not_owed.extend(self.published.iter().skip(self.published_at_backup));
        self.claims.iter_mut().for_each(|claim| claim.judged_from = None);
        self.claims_at_restore = self.claims.len();
    }
}
