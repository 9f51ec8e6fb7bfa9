//! A store of ordered maps in memory: for simulations and tests. It forgets everything when dropped.

use super::tables::Tables;
use super::{Change, Row, Scan, Store, StoreError, Table};

/// Rows by table and key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderedStore {
    rows: Tables<Vec<u8>>,
}

impl OrderedStore {
    /// Applies the changes of one event, or of one batch, all at once.
    pub fn apply(&mut self, changes: Vec<Change>) {
        for Change { table, key, value } in changes {
            match value {
                Some(value) => self.rows.insert(table, key, value),
                None => self.rows.remove(table, &key),
            }
        }
    }

    /// How many rows there are, in all tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Store for OrderedStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rows.get(table, key).cloned())
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let rows = self.rows.visit(table, scan).take(scan.limit);
        Ok(rows.map(|(key, value)| (key.to_vec(), value.clone())).collect())
    }
}
