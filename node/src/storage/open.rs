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

use redb::StorageBackend;

use super::journal::{Appended, Beginning, Frame, Journal};
use super::recent::{Recent, Since};
use super::rows::Written;
use super::settling::{Pace, Round, Settling, settle};
use super::snapshot::Snapshot;
use super::{DatabaseError, failed, schema};

/// A journal's file, how long it is, and when its rounds are settled.
pub(super) struct JournalFile {
    pub(super) file: Box<dyn StorageBackend>,
    pub(super) bytes: u64,
    pub(super) pace: Pace,
}

/// What is committed.
struct State {
    /// How many batches were ever committed.
    commits: u64,
    rows: Snapshot,
    /// What was written since the journal turned, until the round before is settled.
    since: Option<Since>,
}

impl State {
    /// Takes in the next batch. Each row comes with whether the tree may have it. Nodes of the map that no snapshot
    /// shares are changed where they are, which is why a batch keeps none of its own.
    fn take_in(&mut self, batch: Vec<(Written, bool)>) {
        for (Written { key, value }, in_tree) in batch {
            if let Some(since) = &mut self.since {
                since.write(key.clone(), value.clone(), in_tree);
            }
            self.rows.write(key, value, in_tree);
        }
        self.commits = self.commits.saturating_add(1);
    }

    /// The tree now has the round before. Gives what was on top until now.
    fn settled(&mut self, tree: Snapshot) -> Snapshot {
        let rows = self.since.take().map_or_else(Recent::default, Since::into_rows);
        std::mem::replace(&mut self.rows, tree.with(rows))
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
    /// The lock is held to look, to swap, and to take a batch in, never while something is written to the disk.
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
            while let Some(rows) = journal.read(found.commits.saturating_add(1)).map_err(failed)? {
                let rows = found.rows.compare(rows).map_err(failed)?;
                found.take_in(rows);
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

    /// How many batches were ever committed, and what a reader sees.
    pub(super) fn state(&self) -> (u64, Snapshot) {
        self.look(|state| (state.commits, state.rows.clone()))
    }

    /// Whether something failed, and nothing more will be kept.
    pub(super) fn has_failed(&self) -> bool {
        self.writing().is_none()
    }

    /// Keeps the batch of this number, whose frame has the same rows.
    pub(super) fn keep(
        &self,
        number: u64,
        rows: Vec<Written>,
        mut frame: Frame,
        wait: bool,
    ) -> Result<(), DatabaseError> {
        let mut place = self.writing();
        if number != self.state().0.saturating_add(1) {
            return Err(DatabaseError::Overtaken);
        }
        // Not put back where anything below fails.
        let Writing { mut journal, mut settling } = place.take().ok_or(DatabaseError::Closed)?;
        if let Some(over) = settling.take_if(|settling| settling.is_due(number)) {
            self.settled(over.finish()?);
        }
        match journal.append(number, &mut frame, wait).map_err(failed)? {
            Appended::Kept => {
                let rows = self.look(|state| state.rows.compare(rows)).map_err(failed)?;
                self.change(|state| state.take_in(rows));
            }
            Appended::Full => {
                if let Some(waited_for) = settling.take() {
                    self.settled(waited_for.finish()?);
                }
                let (commits, before) = self.state();
                let rows = before.compare(rows).map_err(failed)?;
                let mut next = State { commits, rows: before, since: None };
                next.take_in(rows);
                next.settled(settle(&self.tree, &next.round(), None)?);
                journal.turn(number);
                drop(self.change(|state| std::mem::replace(state, next)));
            }
        }
        if settling.is_none() && journal.is_half_full() {
            journal.turn(number);
            let round = self.change(|state| {
                state.since = Some(Since::new(state.rows.recent().clone()));
                state.round()
            });
            settling = Some(Settling::begin(&self.tree, round, self.pace)?);
        }
        *place = Some(Writing { journal, settling });
        Ok(())
    }

    fn settled(&self, tree: Snapshot) {
        // Dropped when the lock is free again: it may be the last that holds a whole round.
        drop(self.change(|state| state.settled(tree)));
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn writing(&self) -> MutexGuard<'_, Option<Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closed in order, the tree's file is whole by itself.
impl Drop for Open {
    fn drop(&mut self) {
        let Some(Writing { settling, .. }) = self.writing().take() else { return };
        if let Some(waited_for) = settling {
            let Ok(tree) = waited_for.finish() else { return };
            self.settled(tree);
        }
        let round = self.change(|state| state.round());
        if !round.rows.is_empty() {
            // The journal has it all the same.
            let _ = settle(&self.tree, &round, None);
        }
    }
}
