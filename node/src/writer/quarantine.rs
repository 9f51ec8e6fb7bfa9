//! Events that could not be handled: that there was one, of which kind, and when. Never what it carried.

use mesh_node_core::store::{Overlay, Record, Store, StoreError, Table, scan_prefix};
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

/// When, and a number that tells events of one instant apart.
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

/// Adds a row, and forgets the oldest where there are too many.
pub(super) fn record(tx: &mut Overlay<'_>, now: Now, kind: &str, cause: Cause) -> Result<(), StoreError> {
    let rows = Quarantined::all(tx)?;
    // Numbers go on within one instant, so no row is written over.
    let number =
        rows.last().map_or(0, |((at, number), _)| if *at == now.node { number.saturating_add(1) } else { 0 });
    if let Some((oldest, _)) = rows.first().filter(|_| rows.len() >= QUARANTINE_ROWS_MAX) {
        tx.delete::<Quarantined>(oldest);
    }
    tx.put(&(now.node, number), &Quarantined { kind: kind.to_owned(), cause, wall_ms: now.wall_ms });
    Ok(())
}
