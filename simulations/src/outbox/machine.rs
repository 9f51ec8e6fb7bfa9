//! A machine with a disk: an event commits, or a crash takes it back to the last commit.

use mesh_node_core::store::{Change, OrderedStore, Overlay, Table};

/// Where in an event the machine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrashPoint {
    /// It does not.
    Never,
    /// Before its changes are durable.
    BeforeCommit,
    /// After that, before its actions.
    AfterCommit,
}

/// What became of an event.
pub(super) struct Committed<T> {
    /// What it decided.
    pub(super) decided: T,
    /// Its changes are on the disk.
    pub(super) durable: bool,
    /// Its actions are to be performed: the machine still runs.
    pub(super) acts: bool,
}

/// A disk and whether its machine runs.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) disk: OrderedStore,
    pub(super) backup: Option<OrderedStore>,
    pub(super) up: bool,
    /// Tables whose changes a mutant loses.
    pub(super) unwritten: Vec<Table>,
}

impl Machine {
    /// Runs one event up to its crash point.
    pub(super) fn commit<T>(
        &mut self,
        crash: CrashPoint,
        event: impl FnOnce(&mut Overlay<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Committed<T>> {
        let mut tx = Overlay::new(&self.disk);
        let decided = event(&mut tx)?;
        let mut changes: Vec<Change> = tx.into_changes();
        changes.retain(|change| !self.unwritten.contains(&change.table));
        let durable = crash != CrashPoint::BeforeCommit;
        if durable {
            self.disk.apply(changes);
        }
        let acts = crash == CrashPoint::Never;
        self.up = acts;
        Ok(Committed { decided, durable, acts })
    }
}
