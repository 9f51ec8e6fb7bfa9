//! Records of what is running, so that a start after a crash can end what the crash left behind.
//!
//! While a run is under way, `<directory>/<run>.run` holds the boot it belongs to, then the process group and when its
//! leader started. A line is added by one write and nothing is synced: what a power failure takes from the file, it
//! takes from the processes too.
//!
//! ```text
//!   mesh-run 1
//!   boot 5f0c...
//!   group 4711 8837265        written right after the start
//! ```
//!
//! Killed between the two, an owner leaves a file without a group: the program may be running, and a sweep says so
//! instead of guessing. Sweep before the first run of a start, and let one process at a time use the directory: a sweep
//! takes every file for a dead owner's. Linux only, since it reads `/proc`.

mod leader;
mod sweep;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::engine::RunName;

pub use sweep::{Fate, SweepReport, SweptRun, sweep};

/// What a run file's name ends with.
const EXTENSION: &str = "run";

/// First line of a run file.
const HEADING: &str = "mesh-run 1";

/// The record of one run under way. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct RunFile {
    path: PathBuf,
    file: File,
}

impl RunFile {
    /// Announces a run that is about to start.
    pub(crate) fn create(directory: &Path, run: &RunName) -> Result<Self, RunFileError> {
        let boot = leader::boot_id().map_err(RunFileError::Process)?;
        let path = directory.join(run.as_str()).with_extension(EXTENSION);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let mut file = match file {
            Ok(file) => Self { path, file },
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RunFileError::Exists { path });
            }
            Err(source) => return Err(RunFileError::Write { path, source }),
        };
        file.append(&format!("{HEADING}\nboot {boot}\n"))?;
        Ok(file)
    }

    /// Adds the group that was started. Its leader must not have been collected yet.
    pub(crate) fn record_group(&mut self, group: i32) -> Result<(), RunFileError> {
        let started = leader::start_time(group).map_err(RunFileError::Process)?;
        let started = started.ok_or_else(|| RunFileError::Process(io::ErrorKind::NotFound.into()))?;
        self.append(&format!("group {group} {started}\n"))
    }

    fn append(&mut self, lines: &str) -> Result<(), RunFileError> {
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|source| RunFileError::Write { path: self.path.clone(), source })
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a run file");
        }
    }
}

/// Why a run could not be recorded, or the records not be read.
#[derive(Debug, Error)]
pub enum RunFileError {
    /// A run of this name is under way, or the directory was not swept.
    #[error("{} exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The directory could not be read.
    #[error("cannot read the directory {}", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// `/proc` does not tell what identifies a process.
    #[error("cannot read /proc")]
    Process(#[source] io::Error),
}
