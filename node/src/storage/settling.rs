//! A round of the journal on its way into the tree.
//!
//! It is one durable commit of redb, some ten milliseconds of work. On a real disk a thread of its own does it, and
//! batches go on meanwhile; elsewhere it is done a few batches later ([`Pace`]), so that a simulation has the same states
//! between, at the same moments in each run.
//!
//! Invariant: the tree has a whole round, or nothing of it.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::recent::Recent;
use super::snapshot::Snapshot;
use super::{DatabaseError, failed, rows, schema};

/// When a round is put into the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// At once, on another thread.
    Beside,
    /// With the batch so many commits later.
    After(u64),
}

/// What is put into the tree: rows, and which commit they end with.
pub(super) struct Round {
    pub(super) rows: Recent,
    pub(super) commit: u64,
}

/// A round that is being put into the tree.
pub(super) struct Settling(Work);

enum Work {
    Beside(Thread),
    After { commit: u64, tree: Arc<redb::Database>, round: Round },
}

/// A thread that is waited for in any case: as long as it runs it has the tree's file.
struct Thread(Option<JoinHandle<Result<Snapshot, DatabaseError>>>);

impl Thread {
    fn join(&mut self) -> Result<Snapshot, DatabaseError> {
        let result = self.0.take().map(JoinHandle::join);
        let Some(Ok(result)) = result else {
            return Err(failed(redb::Error::Corrupted("putting a round into the tree panicked".to_owned())));
        };
        result
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

impl Settling {
    /// Begins.
    pub(super) fn begin(tree: &Arc<redb::Database>, round: Round, pace: Pace) -> Result<Self, DatabaseError> {
        let tree = Arc::clone(tree);
        Ok(Self(match pace {
            Pace::Beside => {
                let thread = std::thread::Builder::new().name("storage-settle".to_owned());
                let settling = move || settle(&tree, &round, None);
                Work::Beside(Thread(Some(thread.spawn(settling).map_err(failed)?)))
            }
            Pace::After(commits) => Work::After { commit: round.commit.saturating_add(commits), tree, round },
        }))
    }

    /// Whether it is over, or should be done with this batch.
    pub(super) fn is_due(&self, commit: u64) -> bool {
        match &self.0 {
            Work::Beside(Thread(thread)) => thread.as_ref().is_none_or(JoinHandle::is_finished),
            Work::After { commit: due, .. } => commit >= *due,
        }
    }

    /// The tree with the round in it. Waits for it.
    pub(super) fn finish(self) -> Result<Snapshot, DatabaseError> {
        match self.0 {
            Work::Beside(mut thread) => thread.join(),
            Work::After { tree, round, .. } => settle(&tree, &round, None),
        }
    }
}

/// Puts a round into the tree, in one durable commit, and gives the tree with it.
pub(super) fn settle(
    tree: &redb::Database,
    round: &Round,
    opens: Option<u64>,
) -> Result<Snapshot, DatabaseError> {
    let transaction = schema::begin(tree).map_err(failed)?;
    write(&transaction, round, opens).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Snapshot::of(tree)
}

fn write(transaction: &redb::WriteTransaction, round: &Round, opens: Option<u64>) -> Result<(), redb::Error> {
    let mut rows = transaction.open_table(rows::ROWS)?;
    for (key, value) in round.rows.iter() {
        match value {
            Some(value) => rows.insert(&**key, &**value)?,
            None => rows.remove(&**key)?,
        };
    }
    let mut meta = transaction.open_table(schema::META)?;
    meta.insert(schema::COMMITS, round.commit)?;
    if let Some(opens) = opens {
        meta.insert(schema::OPENS, opens)?;
    }
    Ok(())
}
