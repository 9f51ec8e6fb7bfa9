//! The open database, and opening it again.
//!
//! ```text
//! open ──a commit failed──> reopen: closed ──opened and read──> open
//!                                     └──────error──────> closed (until the next reopen)
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::{Builder, ReadableDatabase, StorageBackend};

use super::batch::Batch;
use super::snapshot::Snapshot;
use super::{DatabaseError, creation, failed, rows, schema};
use crate::limits::{DATABASE_CACHE_BYTES, DATABASE_CHECK_BYTES_MAX};

/// What a database on a backend is called in errors.
const BACKEND: &str = "<backend>";

/// Opens the same database once more.
type Reopen = dyn Fn() -> Result<redb::Database, DatabaseError> + Send + Sync;

/// A database that snapshots and batches are taken from. Shared by the writer and all readers.
pub struct Database {
    /// `None` while closed. The lock is held only to look or to swap, never over a read or a write of the disk.
    open: RwLock<Option<redb::Database>>,
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
        let first = open_at(path, verify)?;
        let again = path.to_owned();
        Self::checked(first, Box::new(move || open_at(&again, false)), path.to_owned())
    }

    /// Opens a database on a backend, making an empty one when the backend is empty. `backend` is called again for
    /// each [`Self::reopen`] and gives a new handle to the same bytes.
    ///
    /// # Errors
    /// [`DatabaseError`] as [`Self::open_file`], with the name `<backend>`.
    pub fn open_backend<B: StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Self, DatabaseError> {
        let open = move || {
            let backend = backend();
            let new = backend.len().is_ok_and(|bytes| bytes == 0);
            let name = Path::new(BACKEND);
            let database = without_panic(name, || builder().create_with_backend(backend).map_err(failed))?;
            if new {
                schema::initialise(&database).map_err(failed)?;
            }
            Ok(database)
        };
        Self::checked(open()?, Box::new(open), PathBuf::from(BACKEND))
    }

    fn checked(first: redb::Database, reopen: Box<Reopen>, name: PathBuf) -> Result<Self, DatabaseError> {
        without_panic(&name, || schema::check_and_migrate(&first, &name))?;
        Ok(Self { open: RwLock::new(Some(first)), reopen, name })
    }

    /// A consistent view of what is committed now. Cheap.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn snapshot(&self) -> Result<Snapshot, DatabaseError> {
        self.with(|database| {
            let rows = database.begin_read().map_err(failed)?.open_table(rows::ROWS).map_err(failed)?;
            Ok(Snapshot::new(rows))
        })
    }

    /// Begins a batch. There is one at a time; a second caller waits for the first's end.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn begin(&self) -> Result<Batch, DatabaseError> {
        self.with(|database| Batch::new(schema::begin(database).map_err(failed)?))
    }

    /// How many batches were ever committed here.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn commits(&self) -> Result<u64, DatabaseError> {
        self.with(|database| Ok(schema::number(database, schema::COMMITS).map_err(failed)?.unwrap_or(0)))
    }

    /// Closes the database and opens it again, as redb asks for after a failed commit. Snapshots taken before answer
    /// with errors from here on. Blocks on the disk.
    ///
    /// # Errors
    /// [`DatabaseError`] when it does not open or does not read; it then stays closed and this may be tried again.
    pub fn reopen(&self) -> Result<(), DatabaseError> {
        drop(self.swap(None));
        let database = (self.reopen)()?;
        without_panic(&self.name, || schema::check_and_migrate(&database, &self.name))?;
        self.swap(Some(database));
        Ok(())
    }

    fn swap(&self, next: Option<redb::Database>) -> Option<redb::Database> {
        std::mem::replace(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner), next)
    }

    fn with<T>(
        &self,
        look: impl FnOnce(&redb::Database) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        look(self.open.read().unwrap_or_else(PoisonError::into_inner).as_ref().ok_or(DatabaseError::Closed)?)
    }
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
