//! The open database, and opening it again.
//!
//! ```text
//! open ──a commit failed──> reopen: closed ──opened and read──> open
//!                                     └──────error──────> closed (until the next reopen)
//! ```
//!
//! Whoever opens it puts what is in the journal into the tree first, durably, and begins the journal anew.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use redb::{Builder, StorageBackend};

use super::batch::Batch;
use super::open::{JournalFile, Open};
use super::settling::Pace;
use super::snapshot::Snapshot;
use super::{DatabaseError, creation, failed, schema};
use crate::limits::{DATABASE_CACHE_BYTES, DATABASE_CHECK_BYTES_MAX, JOURNAL_BYTES};

/// What a database on a backend is called in errors.
const BACKEND: &str = "<backend>";

/// On a backend a round is settled with the batch so many commits after it: there are no threads then, and some batches
/// between, as there are on a disk.
const SETTLED_AFTER: u64 = 2;

/// Opens the same database once more.
type Reopen = dyn Fn() -> Result<Arc<Open>, DatabaseError> + Send + Sync;

/// The bytes of a database somewhere else than in files.
#[derive(Debug)]
pub struct Backends<B> {
    /// Those of the tree.
    pub tree: B,
    /// Those of the journal.
    pub journal: B,
    /// How long the journal is. A quarter of it is a round.
    pub journal_bytes: u64,
}

/// A database that snapshots and batches are taken from. Shared by the writer and all readers.
pub struct Database {
    /// `None` while closed. The lock is held only to look or to swap, never over a read or a write of the disk.
    open: RwLock<Option<Arc<Open>>>,
    reopen: Box<Reopen>,
    name: PathBuf,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.name.display())
    }
}

impl Database {
    /// Creates the file, empty, and opens it. Blocks on the disk.
    ///
    /// # Errors
    /// [`DatabaseError::Exists`] when there is one, otherwise as [`Self::open_file`].
    pub fn create_file(path: &Path) -> Result<Self, DatabaseError> {
        creation::create(path)?;
        Self::open_file(path)
    }

    /// Opens a file that must be there, verifies it, migrates it, and removes what a crashed creation left. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// [`DatabaseError`], naming the file, when it is missing, damaged, in use, foreign or of a newer release.
    pub fn open_file(path: &Path) -> Result<Self, DatabaseError> {
        creation::remove_leftover(path)?;
        let verify = path.metadata().is_ok_and(|file| file.len() <= DATABASE_CHECK_BYTES_MAX);
        let name = path.to_owned();
        let open = move |verify| {
            let tree = open_at(&name, verify)?;
            let journal = || {
                let file = creation::journal(&name)?;
                Ok(JournalFile { file, bytes: JOURNAL_BYTES, pace: Pace::Beside })
            };
            ready(tree, journal, &name)
        };
        Ok(Self {
            open: RwLock::new(Some(open(verify)?)),
            reopen: Box::new(move || open(false)),
            name: path.to_owned(),
        })
    }

    /// Opens a database on backends, making an empty one when that of the tree is empty. `backends` is called again for
    /// each [`Self::reopen`] and gives new handles to the same bytes.
    ///
    /// # Errors
    /// [`DatabaseError`] as [`Self::open_file`], with the name `<backend>`.
    pub fn open_backends<B: StorageBackend>(
        backends: impl Fn() -> Backends<B> + Send + Sync + 'static,
    ) -> Result<Self, DatabaseError> {
        let open = move || {
            let Backends { tree, journal, journal_bytes } = backends();
            let pace = Pace::After(SETTLED_AFTER);
            let journal = JournalFile { file: Box::new(journal), bytes: journal_bytes, pace };
            ready(tree_on(tree)?, || Ok(journal), Path::new(BACKEND))
        };
        let first = open()?;
        Ok(Self { open: RwLock::new(Some(first)), reopen: Box::new(open), name: PathBuf::from(BACKEND) })
    }

    /// A consistent view of what is committed now. Cheap.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn snapshot(&self) -> Result<Snapshot, DatabaseError> {
        Ok(self.now_open()?.state().1)
    }

    /// Begins a batch. Of two that were begun together the first to be committed is kept.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] after a failure and during a reopen.
    pub fn begin(&self) -> Result<Batch, DatabaseError> {
        let open = self.now_open()?;
        if open.has_failed() {
            return Err(DatabaseError::Closed);
        }
        Ok(Batch::new(open))
    }

    /// How many batches were ever committed here.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn commits(&self) -> Result<u64, DatabaseError> {
        Ok(self.now_open()?.state().0)
    }

    /// Closes the database and opens it again, as redb asks for after a failed commit. Snapshots taken before answer
    /// with errors from here on. Blocks on the disk.
    ///
    /// # Errors
    /// [`DatabaseError`] when it does not open or does not read; it then stays closed and this may be tried again.
    pub fn reopen(&self) -> Result<(), DatabaseError> {
        drop(self.swap(None));
        self.swap(Some((self.reopen)()?));
        Ok(())
    }

    fn swap(&self, next: Option<Arc<Open>>) -> Option<Arc<Open>> {
        std::mem::replace(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner), next)
    }

    fn now_open(&self) -> Result<Arc<Open>, DatabaseError> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(DatabaseError::Closed)
    }
}

/// A tree that was opened, made ready: of this release's schema, and with what its journal has.
fn ready(
    tree: redb::Database,
    journal: impl FnOnce() -> Result<JournalFile, DatabaseError>,
    name: &Path,
) -> Result<Arc<Open>, DatabaseError> {
    without_panic(name, move || {
        let version = schema::check(&tree, name)?;
        let open = Open::ready(tree, journal()?)?;
        schema::migrate(open.tree(), version)?;
        Ok(Arc::new(open))
    })
}

/// The tree on a backend, with both tables when that is empty.
fn tree_on(backend: impl StorageBackend) -> Result<redb::Database, DatabaseError> {
    let new = backend.len().is_ok_and(|bytes| bytes == 0);
    let tree = without_panic(Path::new(BACKEND), || builder().create_with_backend(backend).map_err(failed))?;
    if new {
        schema::initialise(&tree).map_err(failed)?;
    }
    Ok(tree)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(DATABASE_CACHE_BYTES);
    builder
}

fn open_at(path: &Path, verify: bool) -> Result<redb::Database, DatabaseError> {
    if !path.exists() {
        return Err(DatabaseError::Missing { path: path.to_owned() });
    }
    let open = || builder().set_check_integrity_on_open(verify).open(path);
    without_panic(path, || {
        open().map_err(|error| DatabaseError::Open { path: path.to_owned(), source: error.into() })
    })
}

/// Answers with an error where redb panics: pages that are not what they should be may lead it out of bounds before it
/// has compared their checksums.
fn without_panic<T>(
    path: &Path,
    read: impl FnOnce() -> Result<T, DatabaseError>,
) -> Result<T, DatabaseError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let source = redb::Error::Corrupted("its pages do not fit together".to_owned());
        Err(DatabaseError::Open { path: path.to_owned(), source })
    })
}
