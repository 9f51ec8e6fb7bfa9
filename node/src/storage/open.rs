//! What is open: the tree, its journal, and what both hold now.
//!
//! ```text
//!            ┌─ room ────> a frame, one flush ─┐
//!  batch ────┤                                 ├─> seen by the next snapshot
//!            └─ no room ─> the tree is settled ┘
//! ```
//!
//! Settling writes what the journal has into the tree in one durable commit, after which the journal begins again. It is
//! done when the journal is full, when the database is opened, and when it is closed.
//!
//! Invariants:
//! - Whoever reads sees the tree and, on top, exactly the frames of the journal.
//! - After a failure nothing more is kept, for it is not known what the disk has.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use redb::{StorageBackend, WriteTransaction};

use super::journal::{Appended, Beginning, Frame, Journal};
use super::recent::Recent;
use super::snapshot::Snapshot;
use super::{DatabaseError, failed, rows, schema};

/// A journal's file, and how long it is.
pub(super) type JournalFile = (Box<dyn StorageBackend>, u64);

/// What is committed at one moment.
#[derive(Clone)]
pub(super) struct State {
    /// How many batches were ever committed.
    pub(super) commits: u64,
    pub(super) rows: Snapshot,
}

/// An open database.
pub(super) struct Open {
    tree: redb::Database,
    /// Where batches are made durable; `None` after a failure.
    journal: Mutex<Option<Journal>>,
    /// The lock is held only to look or to swap.
    state: RwLock<State>,
}

impl Open {
    /// A tree of this release's schema, made ready: what the journal has is in it, and nothing is in the journal.
    pub(super) fn ready(tree: redb::Database, (file, capacity): JournalFile) -> Result<Self, DatabaseError> {
        let opens = schema::number(&tree, schema::OPENS).map_err(failed)?.unwrap_or(0);
        let mut commits = schema::number(&tree, schema::COMMITS).map_err(failed)?.unwrap_or(0);
        let mut journal =
            Journal::open(file, capacity, Beginning { opens, commit: commits }).map_err(failed)?;
        let mut found = Snapshot::of(&tree)?;
        while journal.read(commits.saturating_add(1), |key, value| found.write(key, value)).map_err(failed)? {
            commits = commits.saturating_add(1);
        }
        let opens = opens.saturating_add(1);
        settle(&tree, found.recent(), commits, Some(opens)).map_err(failed)?;
        journal.clear(Beginning { opens, commit: commits }).map_err(failed)?;
        let state = State { commits, rows: Snapshot::of(&tree)? };
        Ok(Self { tree, journal: Mutex::new(Some(journal)), state: RwLock::new(state) })
    }

    pub(super) const fn tree(&self) -> &redb::Database {
        &self.tree
    }

    /// What is committed now.
    pub(super) fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether something failed, and nothing more will be kept.
    pub(super) fn has_failed(&self) -> bool {
        self.journal().is_none()
    }

    /// Keeps the batch of this number: what it wrote, and all that a reader sees with it.
    pub(super) fn keep(
        &self,
        number: u64,
        rows: Snapshot,
        mut frame: Frame,
        wait: bool,
    ) -> Result<(), DatabaseError> {
        let mut place = self.journal();
        if number != self.state().commits.saturating_add(1) {
            return Err(DatabaseError::Overtaken);
        }
        // Not put back where anything below fails.
        let mut journal = place.take().ok_or(DatabaseError::Closed)?;
        let rows = match journal.append(number, &mut frame, wait).map_err(failed)? {
            Appended::Kept => rows,
            Appended::Full => {
                settle(&self.tree, rows.recent(), number, None).map_err(failed)?;
                journal.begin_after(number);
                Snapshot::of(&self.tree)?
            }
        };
        *place = Some(journal);
        let next = State { commits: number, rows };
        let before =
            std::mem::replace(&mut *self.state.write().unwrap_or_else(PoisonError::into_inner), next);
        drop(before);
        Ok(())
    }

    fn journal(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closed in order, the tree's file is whole by itself.
impl Drop for Open {
    fn drop(&mut self) {
        let State { commits, rows } = self.state();
        if !self.has_failed() && !rows.recent().is_empty() {
            // The journal has it all the same.
            let _ = settle(&self.tree, rows.recent(), commits, None);
        }
    }
}

/// Puts rows into the tree, in one durable commit.
fn settle(
    tree: &redb::Database,
    recent: &Recent,
    commits: u64,
    opens: Option<u64>,
) -> Result<(), redb::Error> {
    let transaction = schema::begin(tree)?;
    write(&transaction, recent, commits, opens)?;
    Ok(transaction.commit()?)
}

fn write(
    transaction: &WriteTransaction,
    recent: &Recent,
    commits: u64,
    opens: Option<u64>,
) -> Result<(), redb::Error> {
    let mut rows = transaction.open_table(rows::ROWS)?;
    for (key, value) in recent.iter() {
        match value {
            Some(value) => rows.insert(key.as_slice(), value.as_slice())?,
            None => rows.remove(key.as_slice())?,
        };
    }
    let mut meta = transaction.open_table(schema::META)?;
    meta.insert(schema::COMMITS, commits)?;
    if let Some(opens) = opens {
        meta.insert(schema::OPENS, opens)?;
    }
    Ok(())
}
