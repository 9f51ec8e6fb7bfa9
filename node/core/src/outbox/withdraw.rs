//! Taking a message back, by hand or at its deadline, and saying exactly what is known of it then.

use mesh_protocol::id::{MessageId, NodeId};

use super::head::Outbox;
use super::parcel::{Deadline, Place, State, StoredParcel, StoredSlot};
use crate::store::{Overlay, Store, StoreError, scan_prefix};
use crate::time::{NodeTime, Now};

/// What a withdrawal found. Never a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithdrawOutcome {
    /// It was never on any wire and now never will be: it did not run.
    NeverSent,
    /// It may have arrived. Should a later session prove that it did not, [`handle_resume`](super::handle_resume)
    /// names it; until then it may have run.
    Offered,
    /// It arrived: its own deadline, where it runs, is what counts.
    Acknowledged,
    /// Not in this outbox: acknowledged long ago, already taken back, in a gap, or never published.
    Unknown,
}

/// A message whose deadline passed without an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// To whom.
    pub peer: NodeId,
    /// Which.
    pub message: MessageId,
    /// Since when.
    pub deadline: NodeTime,
}

/// A message an operator gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discarded {
    /// Which.
    pub message: MessageId,
    /// Whether it was ever offered: then it may have arrived.
    pub may_have_run: bool,
}

/// Messages whose deadline has passed, earliest first, at most `limit`. Each is named until [`withdraw`] is called
/// for it.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn due(store: &dyn Store, now: Now, limit: usize) -> Result<Vec<Due>, StoreError> {
    let rows = scan_prefix::<Deadline>(store, &(), limit)?;
    let passed = rows.into_iter().take_while(|((deadline, ..), _)| *deadline <= now.node);
    Ok(passed.map(|((deadline, peer, message), _)| Due { peer, message, deadline }).collect())
}

/// When the next message falls [`due`]; `None` when none will.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn next_deadline(store: &dyn Store) -> Result<Option<NodeTime>, StoreError> {
    Ok(scan_prefix::<Deadline>(store, &(), 1)?.first().map(|((deadline, ..), _)| *deadline))
}

/// Takes a message back if it can still be taken back, and says what is known of it. Idempotent.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn withdraw(
    tx: &mut Overlay<'_>,
    peer: NodeId,
    message: MessageId,
) -> Result<WithdrawOutcome, StoreError> {
    let Some(mut outbox) = Outbox::load(tx, peer)? else { return Ok(WithdrawOutcome::Unknown) };
    let Some(seq) = outbox.place(message)? else { return Ok(WithdrawOutcome::Unknown) };
    if seq <= outbox.head.acked {
        return Ok(WithdrawOutcome::Acknowledged);
    }
    let Some(mut parcel) = outbox.parcel(seq)? else { return Ok(WithdrawOutcome::Unknown) };
    outbox.forget_deadline(&parcel);
    parcel.deadline = None;
    let outcome = if seq > outbox.head.offered && seq > outbox.head.uncertain_to {
        outbox.credit(0, parcel.bytes());
        outbox.tx.delete::<Place>(&(peer, message));
        parcel.bury();
        WithdrawOutcome::NeverSent
    } else {
        if parcel.state == State::Wanted {
            parcel.state = State::Withdrawn;
            outbox.head.withdrawn = outbox.head.withdrawn.saturating_add(1);
        }
        WithdrawOutcome::Offered
    };
    outbox.put_parcel(seq, &parcel);
    outbox.save();
    Ok(outcome)
}

/// Gives up everything that waits for a peer and begins its outbox anew. Room reserved for answers stays reserved.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn discard(
    tx: &mut Overlay<'_>,
    rng: &mut dyn rand::Rng,
    peer: NodeId,
) -> Result<Vec<Discarded>, StoreError> {
    let Some(mut outbox) = Outbox::load(tx, peer)? else { return Ok(Vec::new()) };
    let certain_from = outbox.head.offered.max(outbox.head.uncertain_to);
    let mut discarded = Vec::new();
    for (seq, parcel) in outbox.rows(outbox.head.first, outbox.head.last())? {
        outbox.forget_deadline(&parcel);
        outbox.tx.delete::<Place>(&(peer, parcel.message));
        outbox.tx.delete::<StoredParcel>(&(peer, seq));
        if seq > outbox.head.acked && parcel.state != State::Tombstone {
            discarded.push(Discarded { message: parcel.message, may_have_run: seq <= certain_from });
        }
    }
    for (key, _) in scan_prefix::<StoredSlot>(outbox.tx, &peer, usize::MAX)? {
        outbox.tx.delete::<StoredSlot>(&key);
    }
    outbox.credit(outbox.head.count, outbox.head.bytes);
    let (epoch, offered) = (outbox.head.epoch, outbox.head.offered);
    outbox.restart(rng);
    // A peer names only what it took from: others would push those out that it may still name.
    if offered > 0 {
        outbox.remember(epoch);
    }
    outbox.save();
    Ok(discarded)
}
