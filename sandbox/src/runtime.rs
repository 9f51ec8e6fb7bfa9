//! Finds gVisor's `runsc` and says which one it is.
//!
//! It does not start sandboxes. Whether the runtime works on this kernel is the preflight's business; here only
//! its age is judged, because builds before [`OLDEST_FIT_BUILD`] are known to break ordinary programs (`stat`
//! and `ls` fail inside, and a passed descriptor is not supported).

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use crate::hex;

/// The oldest build (YYYYMMDD) whose behaviour this crate relies on and tests.
pub const OLDEST_FIT_BUILD: u32 = 20_240_729;

/// One `runsc` binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Where it is, symbolic links resolved.
    pub path: PathBuf,
    /// Its version, from `runsc --version`.
    pub version: String,
    /// The build date (YYYYMMDD) in that version.
    pub build: Option<u32>,
    /// SHA-256 of the binary, in hex.
    pub sha256: String,
    /// Tells whether the file is still the one that was hashed.
    identity: Identity,
}

/// What changes when a file is replaced or written to: device, inode, length, change time.
type Identity = (u64, u64, u64, i64, i64);

/// Why there is no fit runtime. An ordinary answer: most machines have none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// There is no `runsc` on PATH.
    #[error("gVisor's runsc is not installed")]
    Absent,
    /// The binary could not be read or started.
    #[error("cannot use {path}")]
    Unusable {
        /// The binary.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The binary is no longer the one that was proven.
    #[error("{path} was replaced since the preflight")]
    Replaced {
        /// The binary.
        path: PathBuf,
    },
    /// The binary is older than what this crate relies on.
    #[error("{version} is older than {OLDEST_FIT_BUILD}")]
    TooOld {
        /// What it calls itself.
        version: String,
    },
}

impl RuntimeError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Absent | Self::TooOld { .. } => {
                "install gVisor's runsc, release 2024-07 or later; the setup step shows how on this system"
            }
            Self::Replaced { .. } => "restart the node, so that the new runsc is proven",
            Self::Unusable { .. } => "check the file's permissions, or reinstall runsc",
        }
    }
}

impl Runtime {
    /// Finds a fit runtime: `path` if given, else `runsc` on PATH.
    pub fn find(path: Option<&Path>) -> Result<Self, RuntimeError> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => find_on_path("runsc").ok_or(RuntimeError::Absent)?,
        };
        let runtime = Self::inspect(&path)?;
        if runtime.build.is_some_and(|build| build >= OLDEST_FIT_BUILD) {
            Ok(runtime)
        } else {
            Err(RuntimeError::TooOld { version: runtime.version })
        }
    }

    /// Refuses to go on with a binary that is not the one whose version and digest are reported.
    pub(crate) fn check_unchanged(&self) -> Result<(), RuntimeError> {
        match identity(&self.path) {
            Ok(now) if now == self.identity => Ok(()),
            Ok(_) | Err(_) => Err(RuntimeError::Replaced { path: self.path.clone() }),
        }
    }

    /// Reads version and digest of the binary at `path`, fit or not.
    pub fn inspect(path: &Path) -> Result<Self, RuntimeError> {
        let unusable = |source| RuntimeError::Unusable { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(unusable)?;
        let identity = identity(&path).map_err(unusable)?;
        let sha256 = sha256_of_file(&path).map_err(unusable)?;
        let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output().map_err(unusable)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version =
            text.lines().next().unwrap_or("").trim().trim_start_matches("runsc version ").to_owned();
        let build = build_date(&version);
        Ok(Self { path, version, build, sha256, identity })
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec()))
}

/// The first program called `name` on PATH.
#[must_use]
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

/// The build date in a version such as `0.0~20240729.0-4` or `release-20250407.0`: its first eight digits in a
/// row that start a date of this century.
#[must_use]
pub(crate) fn build_date(version: &str) -> Option<u32> {
    version
        .split(|character: char| !character.is_ascii_digit())
        .find(|digits| digits.len() == 8 && digits.starts_with("20"))
        .and_then(|digits| digits.parse().ok())
}

/// SHA-256 of a file's bytes, in hex.
pub(crate) fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 256 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_dates_are_read_from_both_version_styles() {
        assert_eq!(build_date("runsc version 0.0~20240729.0-4+b1"), Some(20_240_729));
        assert_eq!(build_date("release-20250407.0"), Some(20_250_407));
        assert_eq!(build_date("runsc version VERSION_MISSING"), None);
        assert_eq!(build_date("12345678"), None);
    }

    #[test]
    fn a_missing_binary_is_an_ordinary_answer_with_a_hint() {
        let error = Runtime::find(Some(Path::new("/nonexistent/runsc"))).unwrap_err();
        assert!(matches!(error, RuntimeError::Unusable { .. }));
        assert!(!error.hint().is_empty());
    }

    #[test]
    fn a_replaced_binary_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runsc");
        let place = |text: &str| {
            let new = dir.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            std::fs::rename(&new, &path).unwrap();
        };
        place("#!/bin/sh\necho runsc version 0.0~20240729.0\n");
        let runtime = Runtime::find(Some(&path)).unwrap();
        assert_eq!((runtime.version.as_str(), runtime.build), ("0.0~20240729.0", Some(20_240_729)));
        assert!(runtime.check_unchanged().is_ok());
        place("#!/bin/sh\necho runsc version 0.0~20240729.1\n");
        assert!(matches!(runtime.check_unchanged(), Err(RuntimeError::Replaced { .. })));
    }
}
