//! A directory of one run's own, outside its working directory: for configuration that holds tokens.
//!
//! It is readable by this user alone and gone when the run ends, however it ends.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::EngineError;
use crate::beneath::{PathBeneath, Tree};
use crate::environment::EnvironmentFile;
use crate::model::BoxError;

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct PrivateDir {
    directory: TempDir,
}

impl PrivateDir {
    /// A new one that is not below `workdir`.
    pub(super) fn outside(workdir: &Path) -> Result<Self, EngineError> {
        let directory = tempfile::Builder::new().prefix("mesh-run-").tempdir().map_err(failed)?;
        let own = directory.path().canonicalize().map_err(failed)?;
        if workdir.canonicalize().is_ok_and(|workdir| own.starts_with(workdir)) {
            return Err(failed("the directory for temporary files is below the working directory"));
        }
        Ok(Self { directory })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file that only this user can read.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, EngineError> {
        let path = self.directory.path().join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content)).map_err(failed)?;
        Ok(path)
    }

    /// What a program has left here under a name, at most `limit` bytes; None if there is nothing. The program and all it
    /// runs can reach this directory, so a link or a pipe in the file's place is an error, and is not waited for.
    pub(super) fn read(&self, name: &str, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let name = PathBeneath::parse(name).map_err(io::Error::other)?;
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        Ok(Tree::open(self.path())?.read(&name, limit)?.map(|(content, _mode)| content))
    }

    /// Writes files of a run's environment below a directory, whose paths are the caller's.
    pub(super) fn write_below(&self, name: &str, files: &[EnvironmentFile]) -> Result<PathBuf, EngineError> {
        let path = self.directory.path().join(name);
        std::fs::create_dir(&path).map_err(failed)?;
        let tree = Tree::open(&path).map_err(failed)?;
        for file in files {
            let below = PathBeneath::parse(&file.path).map_err(failed)?;
            tree.create_parents(&below).map_err(failed)?;
            tree.create(&below, &file.content).map_err(failed)?;
        }
        Ok(path)
    }
}

fn failed(source: impl Into<BoxError>) -> EngineError {
    EngineError::Setup { what: "the run's private directory".into(), source: source.into() }
}
