//! A consistent view for readers.

use std::fmt;

use mesh_node_core::store::{Row, Scan, Store, StoreError, Table};
use redb::ReadOnlyTable;

use super::{failed, rows};

/// What was committed when it was taken. Never waits for the writer. The pages it sees are not reused while it lives,
/// so drop it after one request.
pub struct Snapshot {
    rows: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

impl Snapshot {
    pub(super) const fn new(rows: ReadOnlyTable<&'static [u8], &'static [u8]>) -> Self {
        Self { rows }
    }
}

/// Readers on any thread may share one.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Snapshot>();
};

impl Store for Snapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        rows::get(&self.rows, table, key).map_err(|error| failed(error).into())
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        rows::scan(&self.rows, table, scan).map_err(|error| failed(error).into())
    }
}
