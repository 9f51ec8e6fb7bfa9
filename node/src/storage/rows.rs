//! The one table of rows: the layout of its keys, and reads that a snapshot and a batch share.

use std::ops::Bound;

use mesh_node_core::store::{Row, Scan, Table};
use redb::{ReadableTable, TableDefinition};

/// Every row of every table, by prefix byte and key.
pub(super) const ROWS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("rows");

/// Rows as redb reads them, in either kind of transaction.
pub(super) trait Rows: ReadableTable<&'static [u8], &'static [u8]> {}

impl<T: ReadableTable<&'static [u8], &'static [u8]>> Rows for T {}

/// The key on disk.
pub(super) fn disk_key(table: Table, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len().saturating_add(1));
    bytes.push(table.prefix());
    bytes.extend_from_slice(key);
    bytes
}

pub(super) fn get(rows: &impl Rows, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, redb::StorageError> {
    let found = rows.get(disk_key(table, key).as_slice())?;
    Ok(found.map(|value| value.value().to_vec()))
}

pub(super) fn scan(rows: &impl Rows, table: Table, scan: &Scan) -> Result<Vec<Row>, redb::StorageError> {
    if scan.to.as_ref().is_some_and(|to| *to <= scan.from) {
        return Ok(Vec::new());
    }
    let from = disk_key(table, &scan.from);
    // Without an end the range stops at the first key of the next prefix; 255 is no table's.
    let to = match &scan.to {
        Some(to) => disk_key(table, to),
        None => vec![table.prefix().saturating_add(1)],
    };
    let range = rows.range::<&[u8]>((Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice())))?;
    if scan.backwards {
        range.rev().take(scan.limit).map(row).collect()
    } else {
        range.take(scan.limit).map(row).collect()
    }
}

/// An entry as redb hands it out.
type Entry<'a> = (redb::AccessGuard<'a, &'static [u8]>, redb::AccessGuard<'a, &'static [u8]>);

fn row(entry: Result<Entry<'_>, redb::StorageError>) -> Result<Row, redb::StorageError> {
    let (key, value) = entry?;
    let key = key.value().get(1..).unwrap_or_default().to_vec();
    Ok((key, value.value().to_vec()))
}
