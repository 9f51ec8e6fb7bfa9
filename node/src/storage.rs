//! Durable state on disk: the core's [`Store`](mesh_node_core::store::Store) over redb.
//!
//! One redb table holds every row, keyed by the table's prefix byte and the key, so that a batch touches one tree. A
//! second small table, `meta`, holds the schema version and the number of commits. What rows mean is the core's
//! business; this module only keeps them.
//!
//! A batch is made durable by one flush of a journal beside the tree, and its rows are kept in memory, on top of the
//! tree. When the journal has grown to a round, and at every start and end, they go into the tree together, beside the
//! batches that follow.
//!
//! Invariants:
//! - A [`Snapshot`] never waits for the writer and never changes; it keeps old pages alive, so it is held for one
//!   request, not for a session.
//! - A [`Batch`] is kept whole or not at all. After a failed commit no more is taken, and only reopening tells whether
//!   the batch was kept: [`Database::commits`] against [`Batch::number`].
//! - A database file exists either whole or under a temporary name. A file that should be there and is not, or does
//!   not read, is an error with its path; never a new empty database.

mod batch;
mod creation;
mod database;
mod journal;
mod open;
mod recent;
mod rows;
mod schema;
mod settling;
mod snapshot;

pub use batch::Batch;
pub use database::{Backends, Database};
pub use schema::SCHEMA_VERSION;
pub use snapshot::Snapshot;

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use mesh_node_core::store::StoreError;
use thiserror::Error;

/// Why the database did not open, or a batch was not committed.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// A database that was there before is not.
    #[error("database {path} is missing")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// A new database would replace one that is there.
    #[error("database {path} exists already")]
    Exists {
        /// Where it is.
        path: PathBuf,
    },
    /// The file is damaged, is something else, or is in use by another process.
    #[error("cannot open database {path}")]
    Open {
        /// Where it is.
        path: PathBuf,
        /// What redb says.
        #[source]
        source: redb::Error,
    },
    /// The file could not be created or made durable.
    #[error("cannot create database {path}")]
    Create {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A newer release wrote this database.
    #[error("database {path} has schema {found}, this release reads up to {known}")]
    NewerSchema {
        /// Where it is.
        path: PathBuf,
        /// Its schema version.
        found: u64,
        /// The newest this release reads.
        known: u64,
    },
    /// A database without a schema version: another program's.
    #[error("database {path} was not made by this program")]
    Foreign {
        /// Where it is.
        path: PathBuf,
    },
    /// It was closed after a failure and is not open again yet.
    #[error("the database is closed")]
    Closed,
    /// Another batch was committed since this one was begun. Nothing was kept: begin it again.
    #[error("another batch was committed first")]
    Overtaken,
    /// A transaction could not be begun, written or committed. Whether a commit was kept is not known until the
    /// database is opened again.
    #[error("the database failed")]
    Transaction(#[source] redb::Error),
}

impl DatabaseError {
    /// What to do next, when there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing { .. } => Some(
                "put it back: it holds what this node owes others; without it, move the home away and join anew",
            ),
            Self::Exists { .. } | Self::Foreign { .. } => {
                Some("move that file away, or set MESH_HOME to another directory")
            }
            Self::Open { source: redb::Error::DatabaseAlreadyOpen, .. } => {
                Some("end the process that has it open")
            }
            Self::Open { .. } => Some(
                "check who may read it; if it is damaged, put a copy back: the mesh finds out what is missing",
            ),
            Self::Create { .. } | Self::Transaction(_) => {
                Some("check that the disk is writable, sound and not full")
            }
            Self::NewerSchema { .. } => Some("update mesh-cli on this machine"),
            Self::Closed | Self::Overtaken => None,
        }
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        Self::Backend(Box::new(error))
    }
}

/// Whether a failure is for want of room and nothing else: it ends when somebody makes room.
#[must_use]
pub fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let no_room =
        |error: &io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let here = match error.downcast_ref::<redb::Error>() {
        Some(redb::Error::Io(error)) => no_room(error),
        Some(_) => false,
        None => error.downcast_ref::<io::Error>().is_some_and(no_room),
    };
    here || error.source().is_some_and(is_disk_full)
}

/// A failure inside a transaction, whichever of redb's error types it came as.
fn failed(error: impl Into<redb::Error>) -> DatabaseError {
    DatabaseError::Transaction(error.into())
}
