//! Sessions: begun, resumed where the peer is, lost. What a restored disk needs is in [`rollback`](super::rollback).

use mesh_protocol::delivery::{Epoch, Gap, Open, Resume};
use mesh_protocol::id::{MessageId, NodeId};
use thiserror::Error;

use super::BlockReason;
use super::acknowledge::Delivered;
use super::head::{Head, Outbox, Session};
use super::parcel::{Place, State, StoredParcel};
use super::report::DeliveryReport;
use super::rollback::Disks;
use crate::limits;
use crate::store::{Overlay, StoreError, get, scan_from, scan_prefix};
use crate::time::Now;

/// Why no session was opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Nothing goes to this peer until it is unblocked.
    #[error("the peer is blocked: {0:?}")]
    Blocked(BlockReason),
    /// The state could not be read.
    #[error("cannot read the outbox")]
    Store(#[from] StoreError),
}

/// What came of a peer's answer to [`open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// The session lives.
    Live {
        /// To be sent before any parcel.
        gap: Option<Gap>,
        /// The first parcel to send.
        send_from: u64,
        /// Arrived in an earlier session.
        delivered: Vec<Delivered>,
        /// Withdrawn, and now known never to have arrived: it did not run.
        never_arrived: Vec<MessageId>,
        /// The peer's disk went back: what was recorded about it.
        report: Option<DeliveryReport>,
    },
    /// This node's disk went back. There is a new epoch with everything unacknowledged in it, to be opened again, on
    /// the same stream or another.
    RolledBack {
        /// What was recorded about it, with the old epoch.
        report: DeliveryReport,
        /// The new epoch.
        epoch: Epoch,
        /// The places messages have in it now.
        requeued: Vec<(MessageId, u64)>,
    },
    /// Not an answer to the session being opened, or the second time in it that a peer says this node's disk went
    /// back, which it cannot have. Nothing was changed.
    Stale,
}

/// Begins a session to a peer and ends any other. Nothing is sent in it before [`handle_resume`].
///
/// `session` must be random: the receiver tells sessions apart by it.
///
/// # Errors
/// [`OpenError`]; nothing was changed.
pub fn open(
    tx: &mut Overlay<'_>,
    rng: &mut dyn rand::Rng,
    peer: NodeId,
    session: u64,
) -> Result<Open, OpenError> {
    let mut outbox = Outbox::load_or_begin(tx, rng, peer)?;
    if let Some(reason) = outbox.head.blocked {
        return Err(OpenError::Blocked(reason));
    }
    outbox.head.session = Session::Opening(session);
    let frame = outbox.head.open_frame(session);
    outbox.save();
    Ok(frame)
}

/// Compares what the peer has with what is here, and starts the session if both disks are what they were. Everything
/// queued counts as offered from this commit on.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn handle_resume(
    tx: &mut Overlay<'_>,
    now: Now,
    rng: &mut dyn rand::Rng,
    peer: NodeId,
    session: u64,
    resume: Resume,
) -> Result<Resumed, StoreError> {
    let Some(mut outbox) = Outbox::load(tx, peer)? else { return Ok(Resumed::Stale) };
    if outbox.head.session != Session::Opening(session) || outbox.head.epoch != resume.epoch {
        return Ok(Resumed::Stale);
    }
    let mut report = None;
    match outbox.compare(&resume)? {
        Disks::AsTheyWere => {}
        Disks::OursWentBack => {
            // A peer that always says so would have the outbox written again and again.
            if outbox.head.restarted_in == Some(session) {
                return Ok(Resumed::Stale);
            }
            let (report, requeued) = outbox.begin_epoch(now, rng, &resume)?;
            outbox.head.restarted_in = Some(session);
            let epoch = outbox.head.epoch;
            outbox.save();
            return Ok(Resumed::RolledBack { report, epoch, requeued });
        }
        Disks::TheirsWentBack => report = Some(outbox.step_back(now, resume)?),
    }
    let delivered = outbox.settle(now, resume.mark)?;
    let never_arrived = outbox.bury_withdrawn(resume.mark)?;
    let head = &mut outbox.head;
    head.session = Session::Live(session);
    head.offered = head.last();
    head.attempts = 0;
    head.last_error = None;
    let first_missing = resume.mark.saturating_add(1);
    let gap = (head.first > first_missing).then(|| Gap {
        from: first_missing,
        to: head.first.saturating_sub(1),
        chain: head.first_chain,
    });
    let send_from = first_missing.max(head.first);
    outbox.save();
    Ok(Resumed::Live { gap, send_from, delivered, never_arrived, report })
}

/// Ends a session, if it is still the current one. What was offered in it stays offered.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn session_lost(tx: &mut Overlay<'_>, peer: NodeId, session: u64) -> Result<(), StoreError> {
    change(tx, peer, |head| {
        if matches!(head.session, Session::Live(current) | Session::Opening(current) if current == session) {
            head.session = Session::None;
        }
    })
}

/// At the start of the process: no session outlived the one before.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn forget_sessions(tx: &mut Overlay<'_>) -> Result<(), StoreError> {
    for (peer, mut head) in scan_prefix::<Head>(tx, &(), usize::MAX)? {
        if head.session != Session::None {
            head.session = Session::None;
            tx.put(&peer, &head);
        }
    }
    Ok(())
}

/// Counts a failed attempt to reach a peer, for people to see. The next session that lives resets it.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn note_failure(tx: &mut Overlay<'_>, peer: NodeId, error: &str) -> Result<(), StoreError> {
    change(tx, peer, |head| {
        head.attempts = head.attempts.saturating_add(1);
        head.last_error = Some(error.chars().take(limits::LAST_ERROR_CHARS_MAX).collect());
    })
}

/// Stops sending to a peer; its rows stay, for [`unblock`] or [`discard`](super::discard).
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn set_blocked(
    tx: &mut Overlay<'_>,
    rng: &mut dyn rand::Rng,
    peer: NodeId,
    reason: BlockReason,
) -> Result<(), StoreError> {
    let mut outbox = Outbox::load_or_begin(tx, rng, peer)?;
    outbox.head.blocked = Some(reason);
    outbox.head.session = Session::None;
    outbox.save();
    Ok(())
}

/// Lets a peer have its parcels again.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn unblock(tx: &mut Overlay<'_>, peer: NodeId) -> Result<(), StoreError> {
    change(tx, peer, |head| head.blocked = None)
}

fn change(tx: &mut Overlay<'_>, peer: NodeId, edit: impl FnOnce(&mut Head)) -> Result<(), StoreError> {
    let Some(mut head) = get::<Head>(tx, &peer)? else { return Ok(()) };
    edit(&mut head);
    tx.put(&peer, &head);
    Ok(())
}

impl Outbox<'_, '_> {
    /// Withdrawn parcels that had not arrived before this session never will.
    fn bury_withdrawn(&mut self, mark: u64) -> Result<Vec<MessageId>, StoreError> {
        let mut never_arrived = Vec::new();
        let mut next = mark.saturating_add(1).max(self.head.first);
        while self.head.withdrawn > 0 {
            let page =
                scan_from::<StoredParcel>(self.tx, &self.peer, &(self.peer, next), limits::SEND_PAGE_ROWS)?;
            let Some(((_, last), _)) = page.last() else { break };
            next = last.saturating_add(1);
            for ((_, seq), mut parcel) in page {
                if parcel.state != State::Withdrawn {
                    continue;
                }
                self.head.withdrawn = self.head.withdrawn.saturating_sub(1);
                self.credit(0, parcel.bytes());
                self.tx.delete::<Place>(&(self.peer, parcel.message));
                parcel.bury();
                self.put_parcel(seq, &parcel);
                if seq > self.head.uncertain_to {
                    never_arrived.push(parcel.message);
                }
            }
        }
        self.head.withdrawn = 0;
        Ok(never_arrived)
    }
}
