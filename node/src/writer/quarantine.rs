//! Events that could not be handled: that there was one, of which kind, and when. Never what it carried.

use mesh_node_core::store::{Key, Overlay, Record, Scan, Store, StoreError, Table, scan_prefix};
use mesh_node_core::time::{NodeTime, Now};
use serde::{Deserialize, Serialize};

use crate::limits::QUARANTINE_ROWS_MAX;

/// Why an event could not be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The handler panicked: a defect of this release.
    Panic,
    /// A row it needs is not readable.
    Unreadable,
}

/// When, and a running number.
pub type QuarantineKey = (NodeTime, u64);

/// A row of the quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The kind of event.
    pub kind: String,
    /// Why.
    pub cause: Cause,
    /// When, for people: milliseconds since 1970.
    pub wall_ms: u64,
}

impl Record for Quarantined {
    const TABLE: Table = Table::Quarantine;
    type Key = QuarantineKey;
}

impl Quarantined {
    /// All rows, oldest first: at most [`QUARANTINE_ROWS_MAX`].
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    pub fn all(store: &dyn Store) -> Result<Vec<(QuarantineKey, Self)>, StoreError> {
        scan_prefix(store, &(), QUARANTINE_ROWS_MAX)
    }
}

/// Adds a row, and forgets the oldest where there are too many. Numbers are consecutive, so two keys tell how many.
pub(super) fn record(tx: &mut Overlay<'_>, now: Now, kind: &str, cause: Cause) -> Result<(), StoreError> {
    let first = end(tx, &Scan::prefix(&[], 1))?;
    let last = end(tx, &Scan::prefix(&[], 1).backwards())?;
    let number = last.map_or(0, |(_, number)| number.saturating_add(1));
    let rows = first.map_or(0, |(_, oldest)| number.saturating_sub(oldest));
    if let Some(oldest) =
        first.filter(|_| usize::try_from(rows).is_ok_and(|rows| rows >= QUARANTINE_ROWS_MAX))
    {
        tx.delete::<Quarantined>(&oldest);
    }
    tx.put(&(now.node, number), &Quarantined { kind: kind.to_owned(), cause, wall_ms: now.wall_ms });
    Ok(())
}

/// The first key a scan visits.
fn end(tx: &Overlay<'_>, scan: &Scan) -> Result<Option<QuarantineKey>, StoreError> {
    let rows = tx.scan(Table::Quarantine, scan)?;
    let key = rows.first().map(|(key, _)| QuarantineKey::from_bytes(key)).transpose();
    key.map_err(|source| StoreError::Key { table: Table::Quarantine, source })
}
