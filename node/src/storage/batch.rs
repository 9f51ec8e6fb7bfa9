//! The events of one batch, kept together or not at all.
//!
//! ```text
//! begun ──apply*──> commit ──journal, or the tree where that is full──> kept
//!   └──dropped──> nothing     └──error──> unknown, until the database is opened again
//! ```

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mesh_node_core::store::{Change, Row, Scan, Store, StoreError, Table};

use super::journal::Frame;
use super::open::Open;
use super::rows::Written;
use super::snapshot::Snapshot;
use super::{DatabaseError, failed, rows};

/// Changes on their way to the disk. Reads see what was committed when it was begun: an
/// [`Overlay`](mesh_node_core::store::Overlay) over it sees what is written besides. Dropping it drops the changes.
pub struct Batch {
    database: Arc<Open>,
    /// How many there were before.
    commits: u64,
    before: Snapshot,
    rows: Vec<Written>,
    /// The changes, for the journal.
    frame: Frame,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({})", self.number())
    }
}

impl Batch {
    /// The batch after what is committed now.
    pub(super) fn new(database: Arc<Open>) -> Self {
        let (commits, before) = database.state();
        Self { database, commits, before, rows: Vec::new(), frame: Frame::new() }
    }

    /// What [`super::Database::commits`] answers once this batch is committed.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.commits.saturating_add(1)
    }

    /// Adds the changes of one event.
    ///
    /// # Errors
    /// [`DatabaseError::Transaction`] when they have no form on disk: drop the batch, for some of them may be in it.
    pub fn apply(&mut self, changes: Vec<Change>) -> Result<(), DatabaseError> {
        for Change { table, key, value } in changes {
            let key = rows::disk_key(table, &key);
            self.frame.add(&key, value.as_deref()).map_err(failed)?;
            self.rows.push(Written { key: key.into(), value: value.map(Bytes::from) });
        }
        Ok(())
    }

    /// Makes the batch durable. Blocks until the disk says so.
    ///
    /// # Errors
    /// [`DatabaseError::Overtaken`]: nothing was kept. [`DatabaseError::Transaction`]: the batch may or may not have
    /// been kept, and the database takes no more until it is opened again.
    pub fn commit(self) -> Result<(), DatabaseError> {
        self.keep(true)
    }

    /// Makes the batch visible at once and durable with the next [`Self::commit`] after it. A crash before that forgets
    /// it: only for what comes again by itself.
    ///
    /// # Errors
    /// Those of [`Self::commit`].
    pub fn commit_without_waiting(self) -> Result<(), DatabaseError> {
        self.keep(false)
    }

    fn keep(self, wait: bool) -> Result<(), DatabaseError> {
        let number = self.number();
        // Nobody else's now: what it shares would be copied where rows are written.
        drop(self.before);
        self.database.keep(number, self.rows, self.frame, wait)
    }
}

impl Store for Batch {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.before.get(table, key)
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        self.before.scan(table, scan)
    }
}
