//! A write transaction: the events of one batch, kept together or not at all.
//!
//! ```text
//! begun ──apply*──> commit ──journal, or the tree where that is full──> kept
//!   └──dropped──> nothing     └──error──> unknown, until the database is opened again
//! ```

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mesh_node_core::store::{Change, Row, Scan, Store, StoreError, Table};
use redb::{Durability, ReadableTable, WriteTransaction};

use super::journal::{Appended, Frame, Journal};
use super::schema::{COMMITS, META};
use super::{DatabaseError, failed, rows};

/// Changes on their way to the disk. Reads see what was applied so far. Dropping it drops the changes.
pub struct Batch {
    transaction: WriteTransaction,
    number: u64,
    /// Where it is made durable, and its rows for it; the tree itself where there is none.
    journal: Option<(Arc<Mutex<Journal>>, Frame)>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({})", self.number)
    }
}

impl Batch {
    pub(super) fn new(
        transaction: WriteTransaction,
        journal: Option<Arc<Mutex<Journal>>>,
    ) -> Result<Self, DatabaseError> {
        let before =
            transaction.open_table(META).map_err(failed)?.get(COMMITS).map_err(failed)?.map(|n| n.value());
        let journal = journal.map(|journal| (journal, Frame::new()));
        Ok(Self { transaction, number: before.unwrap_or(0).saturating_add(1), journal })
    }

    /// What [`super::Database::commits`] answers once this batch is committed.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Adds the changes of one event.
    ///
    /// # Errors
    /// [`DatabaseError::Transaction`]: drop the batch, for some of the changes may be in it.
    pub fn apply(&mut self, changes: Vec<Change>) -> Result<(), DatabaseError> {
        let mut table = self.transaction.open_table(rows::ROWS).map_err(failed)?;
        for Change { table: of, key, value } in changes {
            let key = rows::disk_key(of, &key);
            if let Some((_, frame)) = &mut self.journal {
                frame.add(&key, value.as_deref()).map_err(failed)?;
            }
            match value {
                Some(value) => table.insert(key.as_slice(), value.as_slice()),
                None => table.remove(key.as_slice()),
            }
            .map_err(failed)?;
        }
        Ok(())
    }

    /// Makes the batch durable. Blocks until the disk says so.
    ///
    /// # Errors
    /// [`DatabaseError::Transaction`]: the batch may or may not have been kept, and the database takes no more until it
    /// is opened again.
    pub fn commit(self) -> Result<(), DatabaseError> {
        self.finish(true)
    }

    /// Makes the batch visible at once and durable with the next [`Self::commit`] after it. A crash before that forgets
    /// it: only for what comes again by itself.
    ///
    /// # Errors
    /// [`DatabaseError::Transaction`], as [`Self::commit`].
    pub fn commit_without_waiting(self) -> Result<(), DatabaseError> {
        self.finish(false)
    }

    fn finish(mut self, wait: bool) -> Result<(), DatabaseError> {
        self.transaction.open_table(META).map_err(failed)?.insert(COMMITS, self.number).map_err(failed)?;
        let Some((journal, mut frame)) = self.journal else {
            if !wait {
                self.transaction.set_durability(Durability::None).map_err(failed)?;
            }
            return self.transaction.commit().map_err(failed);
        };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        match journal.append(self.number, &mut frame, wait).map_err(failed)? {
            Appended::Kept => {
                self.transaction.set_durability(Durability::None).map_err(failed)?;
                self.transaction.commit().map_err(failed)
            }
            Appended::Full => {
                self.transaction.commit().map_err(failed)?;
                journal.begin_after(self.number);
                Ok(())
            }
        }
    }
}

impl Store for Batch {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = self.transaction.open_table(rows::ROWS).map_err(failed)?;
        rows::get(&rows, table, key).map_err(|error| failed(error).into())
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        let rows = self.transaction.open_table(rows::ROWS).map_err(failed)?;
        rows::scan(&rows, table, scan).map_err(|error| failed(error).into())
    }
}
