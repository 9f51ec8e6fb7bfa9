//! What is open: the tree, its journal, and what both hold now.
//!
//! ```text
//!            ┌─ room ────> a frame, one flush ──────────────> seen by the next snapshot
//!  batch ────┤                  └─ half full: the journal turns, and the round is settled beside what follows
//!            └─ no room ─> the tree is settled with it ─────> seen by the next snapshot
//! ```
//!
//! Settling writes a round of the journal into the tree in one durable commit. It is also done when the database is
//! opened, and when it is closed. A batch waits for it only where the next round is full before this one is settled.
//!
//! Invariants:
//! - Whoever reads sees the tree and, on top, exactly what the journal has beyond it.
//! - One round at most is being settled, and the half it is in is not written before that is over.
//! - After a failure nothing more is kept, for it is not known what the disk has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{StorageBackend, StorageError};

use super::journal::{Appended, Beginning, Frame, Journal};
use super::recent::{Recent, Since};
use super::settling::{Pace, Round, Settling, settle};
use super::snapshot::Snapshot;
use super::{DatabaseError, failed, schema};

/// A journal's file, how long it is, and when its rounds are settled.
pub(super) struct JournalFile {
    pub(super) file: Box<dyn StorageBackend>,
    pub(super) bytes: u64,
    pub(super) pace: Pace,
}

/// What is committed at one moment, or what a batch makes of it.
#[derive(Clone)]
pub(super) struct State {
    /// How many batches were ever committed.
    pub(super) commits: u64,
    pub(super) rows: Snapshot,
    /// What was written since the journal turned, until the round before is settled.
    since: Option<Since>,
}

impl State {
    /// Writes a row, or removes it. Other states do not see it.
    pub(super) fn write(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) -> Result<(), StorageError> {
        let in_tree = value.is_none() && self.rows.is_in_tree(&key)?;
        if let Some(since) = &mut self.since {
            since.write(key.clone(), value.clone(), in_tree);
        }
        self.rows.write(key, value, in_tree);
        Ok(())
    }

    /// The tree now has the round before.
    fn settled(&mut self, tree: Snapshot) {
        self.rows = tree.with(self.since.take().map_or_else(Recent::default, Since::into_rows));
    }

    /// What is not in the tree, if no round is being settled.
    fn round(&self) -> Round {
        Round { rows: self.rows.recent().clone(), commit: self.commits }
    }
}

/// Where batches are made durable.
struct Writing {
    journal: Journal,
    settling: Option<Settling>,
}

/// An open database.
pub(super) struct Open {
    tree: Arc<redb::Database>,
    pace: Pace,
    /// `None` after a failure.
    writing: Mutex<Option<Writing>>,
    /// The lock is held only to look or to swap.
    state: RwLock<State>,
}

impl Open {
    /// A tree of this release's schema, made ready: what the journal has is in it, and nothing is in the journal.
    pub(super) fn ready(tree: redb::Database, file: JournalFile) -> Result<Self, DatabaseError> {
        let JournalFile { file, bytes, pace } = file;
        let opens = schema::number(&tree, schema::OPENS).map_err(failed)?.unwrap_or(0);
        let commits = schema::number(&tree, schema::COMMITS).map_err(failed)?.unwrap_or(0);
        let mut journal = Journal::open(file, bytes, Beginning { opens, commit: commits }).map_err(failed)?;
        let mut found = State { commits, rows: Snapshot::of(&tree)?, since: None };
        // At most two rounds, in either half first.
        for _ in 0..3 {
            while journal
                .read(found.commits.saturating_add(1), |key, value| found.write(key, value))
                .map_err(failed)?
            {
                found.commits = found.commits.saturating_add(1);
            }
            journal.turn(found.commits);
        }
        let opens = opens.saturating_add(1);
        let rows = settle(&tree, &found.round(), Some(opens))?;
        journal.clear(Beginning { opens, commit: found.commits }).map_err(failed)?;
        let state = State { rows, ..found };
        let writing = Writing { journal, settling: None };
        Ok(Self { tree: Arc::new(tree), pace, writing: Mutex::new(Some(writing)), state: RwLock::new(state) })
    }

    pub(super) fn tree(&self) -> &redb::Database {
        &self.tree
    }

    /// What is committed now.
    pub(super) fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the next batch begins with.
    pub(super) fn next(&self) -> State {
        let state = self.state();
        State { commits: state.commits.saturating_add(1), ..state }
    }

    /// Whether something failed, and nothing more will be kept.
    pub(super) fn has_failed(&self) -> bool {
        self.writing().is_none()
    }

    /// Keeps a batch: what it wrote, and all that a reader sees with it.
    pub(super) fn keep(&self, mut next: State, mut frame: Frame, wait: bool) -> Result<(), DatabaseError> {
        let mut place = self.writing();
        if next.commits != self.state().commits.saturating_add(1) {
            return Err(DatabaseError::Overtaken);
        }
        // Not put back where anything below fails.
        let Writing { mut journal, mut settling } = place.take().ok_or(DatabaseError::Closed)?;
        if let Some(over) = settling.take_if(|settling| settling.is_due(next.commits)) {
            next.settled(over.finish()?);
        }
        match journal.append(next.commits, &mut frame, wait).map_err(failed)? {
            Appended::Kept => {}
            Appended::Full => {
                if let Some(waited_for) = settling.take() {
                    next.settled(waited_for.finish()?);
                }
                next.settled(settle(&self.tree, &next.round(), None)?);
                journal.turn(next.commits);
            }
        }
        if settling.is_none() && journal.is_half_full() {
            journal.turn(next.commits);
            next.since = Some(Since::new(next.rows.recent().clone()));
            settling = Some(Settling::begin(&self.tree, next.round(), self.pace)?);
        }
        *place = Some(Writing { journal, settling });
        let before =
            std::mem::replace(&mut *self.state.write().unwrap_or_else(PoisonError::into_inner), next);
        drop(before);
        Ok(())
    }

    fn writing(&self) -> MutexGuard<'_, Option<Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closed in order, the tree's file is whole by itself.
impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.state();
        let Some(Writing { settling, .. }) = self.writing().take() else { return };
        if let Some(waited_for) = settling {
            let Ok(tree) = waited_for.finish() else { return };
            state.settled(tree);
        }
        if !state.rows.recent().is_empty() {
            // The journal has it all the same.
            let _ = settle(&self.tree, &state.round(), None);
        }
    }
}
