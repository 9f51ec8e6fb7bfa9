//! The outbox as others read it, from a committed snapshot: what to send next, and how it stands.

use mesh_protocol::delivery::{Epoch, Parcel};
use mesh_protocol::id::{MessageId, NodeId};

use super::BlockReason;
use super::head::{Head, Session};
use super::parcel::{self, State, StoredParcel};
use crate::limits::SEND_PAGE_ROWS;
use crate::store::{Store, StoreError, get, scan_from};
use crate::time::Now;
use crate::turn::Place;

/// How the outbox for a peer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxView {
    /// Parcels waiting for an acknowledgement.
    pub count: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Milliseconds the oldest has waited.
    pub oldest_age_ms: u64,
    /// The current numbering.
    pub epoch: Epoch,
    /// The sequence of the next parcel.
    pub next: u64,
    /// Up to here the peer acknowledged.
    pub acked: u64,
    /// Up to here parcels may have been on the wire.
    pub offered: u64,
    /// Failed attempts to reach the peer since the last session.
    pub attempts: u32,
    /// Why the last of them failed.
    pub last_error: Option<String>,
    /// Why nothing is sent, if it is so.
    pub blocked: Option<BlockReason>,
    /// Whether a session lives.
    pub live: bool,
}

/// How the outbox for a peer stands; `None` when it never had one.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn depth(store: &dyn Store, now: Now, peer: NodeId) -> Result<Option<OutboxView>, StoreError> {
    Ok(get::<Head>(store, &peer)?.map(|head| OutboxView {
        count: head.count,
        bytes: head.bytes,
        oldest_age_ms: head.oldest_age_ms(now),
        epoch: head.epoch,
        next: head.next,
        acked: head.acked,
        offered: head.offered,
        attempts: head.attempts,
        last_error: head.last_error,
        blocked: head.blocked,
        live: matches!(head.session, Session::Live(_)),
    }))
}

/// What has become of a message that was put in the outbox for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It waits, in this place, for an acknowledgement.
    Waiting(Place),
    /// The peer has it on its disk.
    Delivered,
    /// It was withdrawn or thrown away, or is so old that it is not remembered.
    Gone,
}

/// What has become of a message for a peer.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn fate(store: &dyn Store, peer: NodeId, message: MessageId) -> Result<Fate, StoreError> {
    let Some(head) = get::<Head>(store, &peer)? else { return Ok(Fate::Gone) };
    let Some(parcel::Place { seq }) = get::<parcel::Place>(store, &(peer, message))? else {
        return Ok(Fate::Gone);
    };
    let wanted = get::<StoredParcel>(store, &(peer, seq))?.is_some_and(|it| it.state != State::Tombstone);
    Ok(match wanted {
        false => Fate::Gone,
        true if seq <= head.acked => Fate::Delivered,
        true => Fate::Waiting(Place { epoch: head.epoch, seq }),
    })
}

/// The parcels from a sequence on that may be sent in this session: at most `max_count`, and no more once their bodies
/// are `max_bytes`. `None` when this session lives not or no more: nothing will ever be sent in it, and whoever holds its
/// stream is to end it.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn next_parcels(
    store: &dyn Store,
    peer: NodeId,
    session: u64,
    from_seq: u64,
    max_count: usize,
    max_bytes: u64,
) -> Result<Option<Vec<Parcel>>, StoreError> {
    let live = |head: &Head| head.session == Session::Live(session);
    let Some(head) = get::<Head>(store, &peer)?.filter(live) else { return Ok(None) };
    let mut parcels = Vec::new();
    if head.blocked.is_some() {
        return Ok(Some(parcels));
    }
    let (mut next, mut bytes) = (from_seq, 0_u64);
    while next <= head.offered && parcels.len() < max_count && bytes < max_bytes {
        let page = SEND_PAGE_ROWS.min(max_count.saturating_sub(parcels.len()));
        let rows = scan_from::<StoredParcel>(store, &peer, &(peer, next), page)?;
        if rows.is_empty() {
            break;
        }
        for ((_, seq), parcel) in rows {
            if seq > head.offered || bytes >= max_bytes {
                return Ok(Some(parcels));
            }
            bytes = bytes.saturating_add(parcel.bytes());
            next = seq.saturating_add(1);
            parcels.push(parcel.into_frame(seq, head.acked));
        }
    }
    Ok(Some(parcels))
}
