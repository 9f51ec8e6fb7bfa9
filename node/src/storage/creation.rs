//! A database file appears whole or not at all, and its journal beside it.
//!
//! It is made under a temporary name, closed, flushed, renamed, and its directory flushed: a crash in between leaves
//! the temporary file, which the next start removes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::{DatabaseError, schema};

/// Creates the file with an empty database of the current schema.
pub(super) fn create(path: &Path) -> Result<(), DatabaseError> {
    if path.exists() {
        return Err(DatabaseError::Exists { path: path.to_owned() });
    }
    remove_leftover(path)?;
    let temporary = temporary_name(path);
    let io_error = |source| DatabaseError::Create { path: path.to_owned(), source };
    let open_error = |source| DatabaseError::Open { path: temporary.clone(), source };

    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(io_error)?;
    let database = redb::Database::create(&temporary).map_err(|error| open_error(error.into()))?;
    schema::initialise(&database).map_err(open_error)?;
    database.close().map_err(|error| open_error(error.into()))?;
    publish(&temporary, path).map_err(io_error)
}

/// Removes what a crash during an earlier creation left. Nothing was ever acknowledged from it.
pub(super) fn remove_leftover(path: &Path) -> Result<(), DatabaseError> {
    match fs::remove_file(temporary_name(path)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(DatabaseError::Create { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The journal of the database at this path, made when it is missing: `mesh.journal` beside `mesh.redb`.
pub(super) fn journal(path: &Path) -> Result<Box<dyn StorageBackend>, DatabaseError> {
    let path = path.with_extension("journal");
    let new = !path.exists();
    let open_error = |source| DatabaseError::Open { path: path.clone(), source };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|error| open_error(error.into()))?;
    if new {
        sync_directory_of(&path).map_err(|source| DatabaseError::Create { path: path.clone(), source })?;
    }
    Ok(Box::new(FileBackend::new(file).map_err(|error| open_error(error.into()))?))
}

fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    File::open(temporary)?.sync_all()?;
    fs::rename(temporary, path)?;
    sync_directory_of(path)
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".tmp");
    path.with_file_name(name)
}
