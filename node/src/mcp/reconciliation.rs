//! The keys of job submissions whose acknowledgement may have been lost.
//!
//! A job must not run twice because an answer got lost. So every submission has a random idempotency key, and a key
//! whose outcome is not known is used again by the next call that asks for exactly the same thing.
//!
//! ```text
//!            begin, no unresolved twin          begin, an unresolved twin
//!   (none) ────────────────> submitting ─lost─> unresolved ───────> reconciling
//!                                │               │ ^  ten minutes        │ │
//!                    acknowledged│        (none)<┘ └──── lost, refused ──┘ │acknowledged
//!                      or refused└──> (none)                     (none) <──┘
//! ```
//! Invariants:
//! - An operation has its place before anything is sent, and only an acknowledged job, a refusal of everything that
//!   was ever sent under the key, or ten minutes without an answer take it away. Nothing unexpired is evicted: a full
//!   table refuses.
//! - One key is never in two submissions at once. Calls that look alike and began before any of them was lost have
//!   keys of their own; while one unresolved key is being reconciled, its look-alikes are refused, since nobody could
//!   say whose answer it is.
//!
//! Pure: time is an argument and keys come from outside. The table lives as long as the process, so hosts must not
//! retry without end.

use std::collections::BTreeMap;

use thiserror::Error;
use uuid::Uuid;

use super::limits::{SUBMISSIONS_MAX, UNRESOLVED_FOR};

/// Stands for everything that makes two submissions the same. Tells nothing about it.
pub type Fingerprint = [u8; 32];

/// The place of one operation in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u64);

/// An operation that may now be submitted, and must be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Its place.
    pub slot: Slot,
    /// The idempotency key to submit it under.
    pub key: Uuid,
    /// Whether the key was sent before, by a call that never heard of its outcome.
    pub reused: bool,
}

/// How a submission ended for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The node named the job.
    Acknowledged,
    /// The node, or the way to it, certainly took nothing from this call.
    Refused,
    /// It may have been accepted.
    Lost,
}

/// Why a submission may not begin. Nothing was sent.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum ReconciliationError {
    /// The table is full of active and unresolved operations.
    #[error("{SUBMISSIONS_MAX} submissions are active or have an unknown outcome")]
    Full,
    /// A twin with an unknown outcome is being submitted again right now.
    #[error("the same code is being submitted again after a lost answer")]
    BeingReconciled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Submitting,
    /// Since when, milliseconds.
    Unresolved(u64),
    /// Since when it had been unresolved, milliseconds.
    Reconciling(u64),
}

#[derive(Debug, Clone, Copy)]
struct Operation {
    fingerprint: Fingerprint,
    key: Uuid,
    state: State,
}

impl Operation {
    fn expired(&self, now_ms: u64) -> bool {
        let State::Unresolved(since_ms) = self.state else { return false };
        u128::from(now_ms.saturating_sub(since_ms)) >= UNRESOLVED_FOR.as_millis()
    }
}

/// The table. `now_ms` is milliseconds on any clock that does not go back.
#[derive(Debug, Default)]
pub struct Reconciliation {
    operations: BTreeMap<Slot, Operation>,
    next: u64,
}

impl Reconciliation {
    /// Reserves the place of a submission, under `fresh` or the key of its oldest unresolved twin.
    ///
    /// # Errors
    /// When there is no room, or a twin is being reconciled. The table is unchanged, but for what had expired.
    pub fn begin(
        &mut self,
        fingerprint: Fingerprint,
        fresh: Uuid,
        now_ms: u64,
    ) -> Result<Begun, ReconciliationError> {
        self.operations.retain(|_, operation| !operation.expired(now_ms));
        let twins = || self.operations.iter().filter(|(_, twin)| twin.fingerprint == fingerprint);
        if twins().any(|(_, twin)| matches!(twin.state, State::Reconciling(_))) {
            return Err(ReconciliationError::BeingReconciled);
        }
        let unresolved = self.operations.iter_mut().find_map(|(slot, twin)| match twin.state {
            State::Unresolved(since_ms) if twin.fingerprint == fingerprint => Some((*slot, twin, since_ms)),
            _ => None,
        });
        if let Some((slot, twin, since_ms)) = unresolved {
            twin.state = State::Reconciling(since_ms);
            return Ok(Begun { slot, key: twin.key, reused: true });
        }
        if self.operations.len() >= SUBMISSIONS_MAX {
            return Err(ReconciliationError::Full);
        }
        let slot = Slot(self.next);
        self.next = self.next.wrapping_add(1);
        self.operations.insert(slot, Operation { fingerprint, key: fresh, state: State::Submitting });
        Ok(Begun { slot, key: fresh, reused: false })
    }

    /// Says how the submission in `slot` ended. A slot that is not active is ignored.
    pub fn settle(&mut self, slot: Slot, ending: Ending, now_ms: u64) {
        let Some(operation) = self.operations.get_mut(&slot) else { return };
        match (operation.state, ending) {
            (State::Unresolved(_), _) => {}
            (_, Ending::Lost) => operation.state = State::Unresolved(now_ms),
            // This call took nothing, but an earlier one under the same key may have.
            (State::Reconciling(since_ms), Ending::Refused) => operation.state = State::Unresolved(since_ms),
            (State::Reconciling(_), Ending::Acknowledged) | (State::Submitting, _) => {
                self.operations.remove(&slot);
            }
        }
    }

    /// Operations in the table, those that expired and were not yet swept among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}
