//! Directories that are ours alone.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::HomeError;

const PRIVATE: u32 = 0o700;

/// Makes the directory, and those above it, with mode 0700 where missing, and checks what is there. An empty one that
/// others can only look into is closed; one with something in it is refused, for that is not a change to make unasked,
/// and one that others can write to is refused, for someone may put something into it at any moment.
pub(super) fn make_private(path: &Path) -> Result<(), HomeError> {
    let failed = |source| HomeError::Directory { path: path.to_owned(), source };
    match DirBuilder::new().recursive(true).mode(PRIVATE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        // What is there is looked at next, whatever it is.
        _ => {}
    }
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(HomeError::NotOurs { path: path.to_owned() });
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if mode & 0o022 == 0 && fs::read_dir(path).map_err(failed)?.next().is_none() {
        return fs::set_permissions(path, Permissions::from_mode(PRIVATE)).map_err(failed);
    }
    Err(HomeError::OpenToOthers { path: path.to_owned(), mode })
}
