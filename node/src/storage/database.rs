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
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redb::{Builder, ReadableDatabase, StorageBackend};

use super::batch::Batch;
use super::journal::{Beginning, Journal};
use super::snapshot::Snapshot;
use super::{DatabaseError, creation, failed, rows, schema};
use crate::limits::{DATABASE_CACHE_BYTES, DATABASE_CHECK_BYTES_MAX, JOURNAL_BYTES};

/// What a database on a backend is called in errors.
const BACKEND: &str = "<backend>";

/// Opens the same database once more.
type Reopen = dyn Fn() -> Result<Open, DatabaseError> + Send + Sync;

/// A journal's file, and how long it is.
type JournalFile = (Box<dyn StorageBackend>, u64);

/// What is open.
struct Open {
    tree: redb::Database,
    /// Where batches are made durable; the tree itself where there is none.
    journal: Option<Arc<Mutex<Journal>>>,
}

/// The bytes of a database somewhere else than in files.
#[derive(Debug)]
pub struct Backends<B> {
    /// Those of the tree.
    pub tree: B,
    /// Those of the journal.
    pub journal: B,
    /// How long the journal becomes before the tree is made durable.
    pub journal_bytes: u64,
}

/// A database that snapshots and batches are taken from. Shared by the writer and all readers.
pub struct Database {
    /// `None` while closed. The lock is held only to look or to swap, never over a read or a write of the disk.
    open: RwLock<Option<Open>>,
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
            let journal = || creation::journal(&name).map(|file| (file, JOURNAL_BYTES));
            Open::ready(tree, Some(journal), &name)
        };
        Ok(Self {
            open: RwLock::new(Some(open(verify)?)),
            reopen: Box::new(move || open(false)),
            name: path.to_owned(),
        })
    }

    /// Opens a database without a journal on a backend, making an empty one when the backend is empty: every batch is
    /// made durable in the tree. `backend` is called again for each [`Self::reopen`] and gives a new handle to the same
    /// bytes.
    ///
    /// # Errors
    /// [`DatabaseError`] as [`Self::open_file`], with the name `<backend>`.
    pub fn open_backend<B: StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Self, DatabaseError> {
        Self::on_backend(move || {
            let no_journal = None::<fn() -> Result<JournalFile, DatabaseError>>;
            Open::ready(tree_on(backend())?, no_journal, Path::new(BACKEND))
        })
    }

    /// The same with a journal.
    ///
    /// # Errors
    /// [`DatabaseError`] as [`Self::open_file`], with the name `<backend>`.
    pub fn open_backends<B: StorageBackend>(
        backends: impl Fn() -> Backends<B> + Send + Sync + 'static,
    ) -> Result<Self, DatabaseError> {
        Self::on_backend(move || {
            let Backends { tree, journal, journal_bytes } = backends();
            let journal = || Ok((Box::new(journal) as Box<dyn StorageBackend>, journal_bytes));
            Open::ready(tree_on(tree)?, Some(journal), Path::new(BACKEND))
        })
    }

    fn on_backend(
        open: impl Fn() -> Result<Open, DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self, DatabaseError> {
        let first = open()?;
        Ok(Self { open: RwLock::new(Some(first)), reopen: Box::new(open), name: PathBuf::from(BACKEND) })
    }

    /// A consistent view of what is committed now. Cheap.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn snapshot(&self) -> Result<Snapshot, DatabaseError> {
        self.with(|database| {
            let read = database.tree.begin_read().map_err(failed)?;
            Ok(Snapshot::new(read.open_table(rows::ROWS).map_err(failed)?))
        })
    }

    /// Begins a batch. There is one at a time; a second caller waits for the first's end.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn begin(&self) -> Result<Batch, DatabaseError> {
        self.with(|database| {
            Batch::new(schema::begin(&database.tree).map_err(failed)?, database.journal.clone())
        })
    }

    /// How many batches were ever committed here.
    ///
    /// # Errors
    /// [`DatabaseError::Closed`] during a reopen, [`DatabaseError::Transaction`] when redb fails.
    pub fn commits(&self) -> Result<u64, DatabaseError> {
        self.with(|database| commits(&database.tree))
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

    fn swap(&self, next: Option<Open>) -> Option<Open> {
        std::mem::replace(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner), next)
    }

    fn with<T>(&self, look: impl FnOnce(&Open) -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
        look(self.open.read().unwrap_or_else(PoisonError::into_inner).as_ref().ok_or(DatabaseError::Closed)?)
    }
}

impl Open {
    /// A tree that was opened, made ready: what the journal has is in it, and nothing is in the journal.
    fn ready(
        tree: redb::Database,
        journal: Option<impl FnOnce() -> Result<JournalFile, DatabaseError>>,
        name: &Path,
    ) -> Result<Self, DatabaseError> {
        without_panic(name, move || {
            let version = schema::check(&tree, name)?;
            let journal = match journal {
                Some(journal) => {
                    let (file, capacity) = journal()?;
                    Some(Arc::new(Mutex::new(take_in(&tree, file, capacity)?)))
                }
                None => None,
            };
            schema::migrate(&tree, version)?;
            Ok(Self { tree, journal })
        })
    }
}

/// Puts what is in a journal into the tree, in one durable commit.
fn take_in(
    tree: &redb::Database,
    file: Box<dyn StorageBackend>,
    capacity: u64,
) -> Result<Journal, DatabaseError> {
    let opens = schema::number(tree, schema::OPENS).map_err(failed)?.unwrap_or(0);
    let mut commit = commits(tree)?;
    let mut journal = Journal::open(file, capacity, Beginning { opens, commit }).map_err(failed)?;
    let transaction = schema::begin(tree).map_err(failed)?;
    {
        let mut rows = transaction.open_table(rows::ROWS).map_err(failed)?;
        let mut take = |key: &[u8], value: Option<&[u8]>| match value {
            Some(value) => rows.insert(key, value).map(drop).map_err(redb::Error::from),
            None => rows.remove(key).map(drop).map_err(redb::Error::from),
        };
        while journal.read(commit.saturating_add(1), &mut take).map_err(failed)? {
            commit = commit.saturating_add(1);
        }
        let mut meta = transaction.open_table(schema::META).map_err(failed)?;
        meta.insert(schema::COMMITS, commit).map_err(failed)?;
        meta.insert(schema::OPENS, opens.saturating_add(1)).map_err(failed)?;
    }
    transaction.commit().map_err(failed)?;
    journal.clear(Beginning { opens: opens.saturating_add(1), commit }).map_err(failed)?;
    Ok(journal)
}

fn commits(tree: &redb::Database) -> Result<u64, DatabaseError> {
    Ok(schema::number(tree, schema::COMMITS).map_err(failed)?.unwrap_or(0))
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
