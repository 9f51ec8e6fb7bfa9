//! Files that hold secrets or say who is believed: read only if they are nobody else's, and replaced whole.
//!
//! Such a file is plain, of this user or of root, closed to all others, and under directories nobody else can change.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use thiserror::Error;
use zeroize::Zeroizing;

/// Why there are no keys. A node does not start with half of them.
#[derive(Debug, Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not a plain file of this user or of root, or lies in a directory of another.
    #[error("{} is not a plain file or a directory of this user", path.display())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
    },
    /// Others can read the file, or change the directory.
    #[error("{} is open to others (mode {mode:03o})", path.display())]
    Exposed {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is larger than it can be.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// What is allowed.
        limit: u64,
    },
    /// Not what it should be.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, without any of the secret.
        reason: String,
    },
}

impl KeysError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Exposed { path, .. } => format!("close {} to others with `chmod`", path.display()),
            Self::Foreign { path } => format!("give {} to the user the node runs as", path.display()),
            Self::Read { .. } => {
                "name files in `[http]` that are there, or none: `mesh-cli keys add` makes them".to_owned()
            }
            Self::TooLong { .. } | Self::Malformed { .. } => "`docs/http-api.md` has the format".to_owned(),
        }
    }

    /// Whether it is only that there is no such file.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn malformed(path: &Path, reason: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), reason: reason.into() }
    }
}

/// The bytes of a file that is nobody else's.
pub(in crate::api::v1) fn read(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, KeysError> {
    let failed = |source| KeysError::Read { path: path.to_owned(), source };
    for directory in path.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty()) {
        check_directory(directory)?;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || !is_trusted(metadata.uid()) {
        return Err(KeysError::Foreign { path: path.to_owned() });
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeysError::Exposed { path: path.to_owned(), mode });
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        return Err(KeysError::TooLong { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Puts a file in the place of another, or where none is, with mode 0600: whole and durable, or not at all. It stays
/// whose it was, so that root can write what the node's user reads.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = folder.join(format!(".{}.new", name.to_string_lossy()));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let owner = fs::symlink_metadata(path).or_else(|_| fs::metadata(folder))?;
    if rustix::process::geteuid().is_root() && owner.uid() != 0 {
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()
}

/// The folder of a file, made for this user alone if there is none, and held until it is dropped: whoever changes what is
/// in it takes turns.
pub(super) fn hold_folder(of: &Path) -> io::Result<File> {
    let folder = folder_of(of);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let held = File::open(folder)?;
    held.lock()?;
    Ok(held)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// A directory that others can change could hold another file tomorrow; one with the sticky bit could not.
fn check_directory(path: &Path) -> Result<(), KeysError> {
    let metadata =
        fs::symlink_metadata(path).map_err(|source| KeysError::Read { path: path.to_owned(), source })?;
    if !metadata.is_dir() || !is_trusted(metadata.uid()) {
        return Err(KeysError::Foreign { path: path.to_owned() });
    }
    let mode = metadata.mode() & 0o1777;
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return Err(KeysError::Exposed { path: path.to_owned(), mode: mode & 0o777 });
    }
    Ok(())
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}
