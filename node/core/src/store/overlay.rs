//! The writes of one event, over a store that does not have them yet.
//!
//! Reads see the event's own writes first. The store below is never touched: whoever runs the event applies the
//! changes when it succeeded, and drops them when it did not, so a failed event leaves no trace.

use std::fmt;

use super::merge::{Pages, merge};
use super::tables::Tables;
use super::{Key, Record, Row, Scan, Store, StoreError, Table, record};

/// One row to write, or to remove when `value` is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub table: Table,
    /// Which row.
    pub key: Vec<u8>,
    /// Its new value.
    pub value: Option<Vec<u8>>,
}

/// A store with this event's writes on top.
pub struct Overlay<'a> {
    below: &'a dyn Store,
    writes: Tables<Option<Vec<u8>>>,
}

impl fmt::Debug for Overlay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Overlay({} writes)", self.writes.len())
    }
}

impl<'a> Overlay<'a> {
    /// No writes yet.
    #[must_use]
    pub fn new(below: &'a dyn Store) -> Self {
        Self { below, writes: Tables::default() }
    }

    /// Writes a record at its key.
    pub fn put<R: Record>(&mut self, key: &R::Key, value: &R) {
        self.writes.insert(R::TABLE, key.to_bytes(), Some(record::to_bytes(value)));
    }

    /// Removes a record; nothing happens when there is none.
    pub fn delete<R: Record>(&mut self, key: &R::Key) {
        self.writes.insert(R::TABLE, key.to_bytes(), None);
    }

    /// The record at a key, as this event sees it.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails or the row is not readable.
    pub fn get_record<R: Record>(&self, key: &R::Key) -> Result<Option<R>, StoreError> {
        record::get(self, key)
    }

    /// Takes changes over as they are: rows that someone else encoded.
    pub fn write_raw(&mut self, changes: Vec<Change>) {
        for Change { table, key, value } in changes {
            self.writes.insert(table, key, value);
        }
    }

    /// What this event wrote, in key order.
    #[must_use]
    pub fn into_changes(self) -> Vec<Change> {
        self.writes.into_rows().map(|(table, key, value)| Change { table, key, value }).collect()
    }
}

impl Store for Overlay<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.writes.get(table, key) {
            Some(written) => Ok(written.clone()),
            None => self.below.get(table, key),
        }
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let written = self.writes.visit(table, scan).map(|(key, value)| (key, value.as_deref()));
        merge(written, Pages::new(self.below, table, scan.clone()), scan.backwards, scan.limit)
    }
}
