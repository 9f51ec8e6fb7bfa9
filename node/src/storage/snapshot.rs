//! A consistent view: the tree as it was last made durable, and what the journal has on top.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use mesh_node_core::store::{Row, Scan, Store, StoreError, Table, merge};
use redb::{AccessGuard, ReadOnlyTable, ReadableDatabase, StorageError};

use super::recent::Recent;
use super::rows::Written;
use super::{DatabaseError, failed, rows};

/// What was committed when it was taken. Never waits for the writer, and costs nothing to take. The pages and rows it
/// sees are not let go while it lives, so drop it after one request.
#[derive(Clone)]
pub struct Snapshot {
    /// The tree as it was last made durable.
    tree: Arc<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    recent: Recent,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

/// Readers on any thread may share one.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Snapshot>();
};

impl Snapshot {
    /// The tree as it is now, and nothing on top.
    pub(super) fn of(tree: &redb::Database) -> Result<Self, DatabaseError> {
        let rows = tree.begin_read().map_err(failed)?.open_table(rows::ROWS).map_err(failed)?;
        Ok(Self { tree: Arc::new(rows), recent: Recent::default() })
    }

    /// What is not in the tree yet.
    pub(super) const fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The same tree with other rows on top.
    pub(super) fn with(self, recent: Recent) -> Self {
        Self { recent, ..self }
    }

    /// The rows of the next batch, each with whether the tree may have it. That matters where a row is removed, and needs a
    /// look only where one is on top: where none is, a mark that the tree's is gone does no harm if there is none.
    pub(super) fn compare(&self, rows: Vec<Written>) -> Result<Vec<(Written, bool)>, StorageError> {
        let may_have = |row: &Written| match (&row.value, self.recent.get(&row.key)) {
            (Some(_), _) => Ok(false),
            (None, None | Some(None)) => Ok(true),
            (None, Some(Some(_))) => Ok(self.tree.get(&*row.key)?.is_some()),
        };
        rows.into_iter().map(|row| may_have(&row).map(|may_have| (row, may_have))).collect()
    }

    /// Writes a row on top, or removes one that the tree may have as well, or has not. Other views do not see it.
    pub(super) fn write(&mut self, key: Bytes, value: Option<Bytes>, in_tree: bool) {
        self.recent.write(key, value, in_tree);
    }

    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        match self.recent.get(key) {
            Some(row) => Ok(row.as_ref().map(|value| value.to_vec())),
            None => Ok(self.tree.get(key)?.map(|value| value.value().to_vec())),
        }
    }

    fn visit(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StorageError> {
        let Some((from, to)) = rows::range(table, scan) else { return Ok(Vec::new()) };
        let range = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
        let recent =
            self.recent.range(range).map(|(key, value)| (rows::without_table(key), value.as_deref()));
        let tree = self.tree.range::<&[u8]>(range)?.map(row);
        if scan.backwards {
            merge(recent.rev(), tree.rev(), true, scan.limit)
        } else {
            merge(recent, tree, false, scan.limit)
        }
    }
}

impl Store for Snapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(&rows::disk_key(table, key)).map_err(|error| failed(error).into())
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        self.visit(table, scan).map_err(|error| failed(error).into())
    }
}

/// An entry as redb hands it out.
type Entry<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

fn row(entry: Result<Entry<'_>, StorageError>) -> Result<Row, StorageError> {
    let (key, value) = entry?;
    Ok((rows::without_table(key.value()).to_vec(), value.value().to_vec()))
}
