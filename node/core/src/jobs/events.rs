//! Events of jobs as rows: written in the commit of what they tell, read behind a cursor.
//!
//! Where a job runs its events are the executor's, one row each, in order. At its origin they come as they happen,
//! which may lose some at the end, and once more with the evidence: what was signed replaces what was said before. An end
//! that was decided there and cannot be signed has its last events before its evidence.

use mesh_protocol::codec::DecodeError;
use mesh_protocol::evidence::chain::check_follows;
use mesh_protocol::evidence::event::{Event, EventKind};
use mesh_protocol::evidence::limits::{MAX_EVENT_DATA_BYTES, MAX_EVENTS};
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::message::JOB_EVENTS_MAX;
use serde::{Deserialize, Serialize};

use crate::limits::EVENT_PAGE_MAX;
use crate::store::{Overlay, Record, Store, StoreError, Table, scan_from, scan_last_of, scan_prefix};

/// One event, as JSON: its data is any document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredEvent(String);

impl Record for StoredEvent {
    const TABLE: Table = Table::JobEvents;
    type Key = (NodeId, JobId, u64);
}

/// Which job, and whose.
pub type JobKey = (NodeId, JobId);

fn read(stored: &StoredEvent) -> Result<Event, StoreError> {
    serde_json::from_str(&stored.0).map_err(|_| {
        let source = DecodeError::Malformed { what: "job event" };
        StoreError::Row { table: Table::JobEvents, source }
    })
}

/// Writes events, each at its place. Returns their bytes.
pub(crate) fn put(tx: &mut Overlay<'_>, (origin, job): JobKey, events: &[Event]) -> u64 {
    let mut bytes = 0_u64;
    for event in events {
        // Our own plain data: it always has a JSON form.
        let Ok(text) = serde_json::to_string(event) else { continue };
        bytes = bytes.saturating_add(text.len() as u64);
        tx.put(&(origin, job, event.seq), &StoredEvent(text));
    }
    bytes
}

/// The last event there is.
pub(crate) fn last(store: &dyn Store, key: JobKey) -> Result<Option<Event>, StoreError> {
    scan_last_of::<StoredEvent>(store, &key, 1)?.first().map(|(_, stored)| read(stored)).transpose()
}

/// The events behind a place, in order, at most `limit` and [`EVENT_PAGE_MAX`].
///
/// # Errors
/// [`StoreError`].
pub fn after(
    store: &dyn Store,
    (origin, job): JobKey,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let Some(from) = after.checked_add(1) else { return Ok(Vec::new()) };
    let rows =
        scan_from::<StoredEvent>(store, &(origin, job), &(origin, job, from), limit.min(EVENT_PAGE_MAX))?;
    rows.iter().map(|(_, stored)| read(stored)).collect()
}

/// All events of a job, as many as a chain may have.
pub(crate) fn all(store: &dyn Store, key: JobKey) -> Result<Vec<Event>, StoreError> {
    let rows = scan_prefix::<StoredEvent>(store, &key, MAX_EVENTS)?;
    rows.iter().map(|(_, stored)| read(stored)).collect()
}

/// Removes events, at most `limit`. Whether there may be more.
pub(crate) fn forget(tx: &mut Overlay<'_>, key: JobKey, limit: usize) -> Result<bool, StoreError> {
    let rows = scan_prefix::<StoredEvent>(tx, &key, limit)?;
    rows.iter().for_each(|(key, _)| tx.delete::<StoredEvent>(key));
    Ok(rows.len() >= limit)
}

/// What a peer says that its job did: events that follow `last`, or nothing.
pub(crate) fn from_peer(job: JobId, last: Option<&Event>, texts: &[String]) -> Vec<Event> {
    let small = texts.len() <= JOB_EVENTS_MAX && texts.iter().all(|text| text.len() <= MAX_EVENT_DATA_BYTES);
    let parsed: Option<Vec<Event>> =
        small.then(|| texts.iter().map(|text| serde_json::from_str(text).ok()).collect()).flatten();
    let events = parsed.unwrap_or_default();
    // The end comes with its proof, or not at all; and what does not follow comes again then.
    let open = events.iter().all(|event| event.kind != EventKind::Finished);
    if open && check_follows(&job.to_string(), last, &events).is_ok() { events } else { Vec::new() }
}

/// Writes the last events of an end that is not signed yet, if they follow what is stored.
pub(crate) fn close(tx: &mut Overlay<'_>, key: JobKey, events: &[Event]) -> Result<(), StoreError> {
    let (_, job) = key;
    let known = last(tx, key)?;
    if check_follows(&job.to_string(), known.as_ref(), events).is_ok() {
        put(tx, key, events);
    }
    Ok(())
}

/// Puts the events that were signed in the place of what was stored, and writes only what is new.
pub(crate) fn settle(tx: &mut Overlay<'_>, key: JobKey, signed: &[Event]) -> Result<u64, StoreError> {
    let known = last(tx, key)?;
    let same = known.as_ref().is_some_and(|known| {
        // One hash stands for all events before it.
        let at = known.seq.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        at.and_then(|at| signed.get(at)).is_some_and(|event| event.event_hash == known.event_hash)
    });
    let kept = if same { known.map_or(0, |known| known.seq) } else { 0 };
    if !same {
        while forget(tx, key, MAX_EVENTS)? {}
    }
    let kept = usize::try_from(kept).unwrap_or(usize::MAX);
    Ok(put(tx, key, signed.get(kept..).unwrap_or_default()))
}
