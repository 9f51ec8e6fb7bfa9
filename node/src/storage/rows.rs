//! The one table of rows: what a row is, and the layout of its keys.

use bytes::Bytes;
use mesh_node_core::store::{Scan, Table};
use redb::TableDefinition;

/// Every row of every table, by prefix byte and key.
pub(super) const ROWS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("rows");

/// A row as a batch writes it. Two views may hold it, so its bytes are shared.
pub(super) struct Written {
    pub(super) key: Bytes,
    pub(super) value: Option<Bytes>,
}

/// The key on disk.
pub(super) fn disk_key(table: Table, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len().saturating_add(1));
    bytes.push(table.prefix());
    bytes.extend_from_slice(key);
    bytes
}

/// The first key on disk that a scan may visit and the first that it may not; `None` when it visits nothing.
pub(super) fn range(table: Table, scan: &Scan) -> Option<(Vec<u8>, Vec<u8>)> {
    // Without an end the range stops at the first key of the next prefix; 255 is no table's.
    let to = match &scan.to {
        Some(to) if *to <= scan.from => return None,
        Some(to) => disk_key(table, to),
        None => vec![table.prefix().saturating_add(1)],
    };
    Some((disk_key(table, &scan.from), to))
}

/// The key that the core knows.
pub(super) fn without_table(disk_key: &[u8]) -> &[u8] {
    disk_key.get(1..).unwrap_or_default()
}
