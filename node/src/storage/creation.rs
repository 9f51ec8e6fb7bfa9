//! A database file appears whole or not at all.
//!
//! It is made under a temporary name, closed, flushed, renamed, and its directory flushed: a crash in between leaves
//! the temporary file, which the next start removes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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

fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    File::open(temporary)?.sync_all()?;
    fs::rename(temporary, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".tmp");
    path.with_file_name(name)
}
