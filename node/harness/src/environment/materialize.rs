//! Putting an environment's files into a working directory, and taking them out again.
//!
//! Invariants: every path is checked before anything is written; what fails half way is taken back; what somebody changed
//! after it was written is kept and reported, never lost. Blocking: call it where that is allowed.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use thiserror::Error;

use super::{EnvironmentFile, RunEnvironment, Skill};
use crate::beneath::{PathBeneath, PathError, Tree};
use crate::limits::{ENVIRONMENT_FILE_BYTES, ENVIRONMENT_FILES};

/// Where skills go.
const SKILLS: &str = ".agents/skills";

/// The file that tells agents about a directory.
const AGENTS_MD: &str = "AGENTS.md";

/// An environment that lies in a working directory until it is [restored](Self::restore).
#[derive(Debug)]
#[must_use = "what was written stays until it is restored"]
pub struct MaterializedEnvironment {
    tree: Tree,
    /// In the order they were made.
    directories: Vec<PathBeneath>,
    files: Vec<Written>,
}

/// A file that was written.
#[derive(Debug)]
struct Written {
    path: PathBeneath,
    content: Vec<u8>,
    /// What was there before, and its permissions; None if nothing was.
    before: Option<(Vec<u8>, u32)>,
    /// Whether all of it was written; if not, whatever is there is ours.
    is_whole: bool,
}

/// A file that is to be written.
struct Planned<'a> {
    path: PathBeneath,
    content: &'a [u8],
    /// Whether it may be added to what is there.
    merges: bool,
}

/// What was left as it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// Files that were changed after they were written; they are as the last writer left them.
    pub kept: Vec<String>,
}

/// Why an environment was not written, or not taken back.
#[derive(Debug, Error)]
pub enum EnvironmentError {
    /// A path leads elsewhere.
    #[error("{path:?} cannot be a file of an environment")]
    Path {
        /// As it was given.
        path: String,
        /// Why.
        #[source]
        source: PathError,
    },
    /// A path has a meaning of its own.
    #[error("{path:?} cannot be a file of an environment: {why}")]
    Forbidden {
        /// As it was given.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// Two files of one path.
    #[error("the environment has two files {path}")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// There are too many files, or one is too large.
    #[error(
        "the environment is too large: at most {ENVIRONMENT_FILES} files of {ENVIRONMENT_FILE_BYTES} bytes"
    )]
    TooLarge,
    /// The file is there already, and ours cannot be added to it.
    #[error("{path} is in the working directory already")]
    Exists {
        /// The path.
        path: String,
    },
    /// The system refused.
    #[error("cannot write or restore {path}")]
    File {
        /// The path.
        path: String,
        /// What it says.
        #[source]
        source: io::Error,
    },
}

/// Writes an environment below `workdir`. The run's caller does this before the setup, and restores before it looks at
/// what changed.
///
/// # Errors
/// An [`EnvironmentError`]; the working directory is then as it was.
pub fn materialize_environment(
    environment: &RunEnvironment,
    workdir: &Path,
) -> Result<MaterializedEnvironment, EnvironmentError> {
    let planned = plan(environment)?;
    let tree = Tree::open(workdir).map_err(|source| EnvironmentError::File { path: ".".into(), source })?;
    let mut written = MaterializedEnvironment { tree, directories: Vec::new(), files: Vec::new() };
    for file in planned {
        if let Err(error) = written.add(file) {
            // The first failure is the one to tell; what cannot be taken back now stays in the report of nobody.
            let _undone = written.restore();
            return Err(error);
        }
    }
    Ok(written)
}

impl MaterializedEnvironment {
    fn add(&mut self, file: Planned<'_>) -> Result<(), EnvironmentError> {
        let Planned { path, content, merges } = file;
        let failed = |source| EnvironmentError::File { path: path.to_string(), source };
        if !merges && self.tree.exists(&path).map_err(failed)? {
            return Err(EnvironmentError::Exists { path: path.to_string() });
        }
        // What is made before a failure is taken back too.
        for depth in 1..path.names().len() {
            let directory = path.ancestor(depth);
            if !self.tree.exists(&directory).map_err(failed)? {
                self.directories.push(directory);
            }
        }
        self.tree.create_parents(&path).map_err(failed)?;
        let before = self.tree.read(&path, ENVIRONMENT_FILE_BYTES).map_err(failed)?;
        let content = match &before {
            Some((old, _)) => merged(old, content),
            None => content.to_vec(),
        };
        let is_new = before.is_none();
        self.files.push(Written { path: path.clone(), content: content.clone(), before, is_whole: false });
        let written =
            if is_new { self.tree.create(&path, &content) } else { self.tree.write(&path, &content) };
        match written {
            Ok(()) => self.files.last_mut().into_iter().for_each(|file| file.is_whole = true),
            Err(error) => {
                if error.kind() == io::ErrorKind::AlreadyExists {
                    // Somebody made it meanwhile: it is theirs.
                    self.files.pop();
                }
                return Err(failed(error));
            }
        }
        Ok(())
    }

    /// Takes everything back: files that were merged are what they were, those that were made are gone, and so are their
    /// directories if nothing else is in them. May be called again after an error, and does nothing once it is done.
    ///
    /// # Errors
    /// The first file that the system would not restore; the others are restored.
    pub fn restore(&mut self) -> Result<RestoreReport, EnvironmentError> {
        let mut report = RestoreReport::default();
        let mut failed = None;
        let mut left = Vec::new();
        for file in std::mem::take(&mut self.files).into_iter().rev() {
            match self.take_back(&file) {
                Ok(true) => {}
                Ok(false) => report.kept.push(file.path.to_string()),
                Err(source) => {
                    failed.get_or_insert_with(|| EnvironmentError::File {
                        path: file.path.to_string(),
                        source,
                    });
                    left.push(file);
                }
            }
        }
        left.reverse();
        self.files = left;
        // One that holds something of somebody else's stays.
        for directory in std::mem::take(&mut self.directories).into_iter().rev() {
            if self.tree.remove_directory(&directory).is_err() && !self.files.is_empty() {
                self.directories.insert(0, directory);
            }
        }
        report.kept.sort_unstable();
        failed.map_or(Ok(report), Err)
    }

    /// Takes one file back. False if somebody changed it.
    fn take_back(&self, file: &Written) -> io::Result<bool> {
        let now = match self.tree.read(&file.path, ENVIRONMENT_FILE_BYTES) {
            Ok(now) => now,
            // Something else stands in its place, a link or a directory, or it grew.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Ok(false),
            Err(error) => return Err(error),
        };
        match (now, &file.before) {
            // What we made is gone already.
            (None, None) => Ok(true),
            // Somebody removed what was there before us.
            (None, Some(_)) => Ok(false),
            (Some((now, _)), before) if now == file.content || !file.is_whole => {
                match before {
                    Some((old, mode)) => {
                        self.tree.write(&file.path, old)?;
                        self.tree.set_mode(&file.path, *mode)?;
                    }
                    None => self.tree.remove_file(&file.path)?,
                }
                Ok(true)
            }
            // Our write did not come through: it is as it was.
            (Some((now, _)), Some((old, _))) if now == *old => Ok(true),
            (Some(_), _) => Ok(false),
        }
    }
}

/// Ours after theirs.
fn merged(theirs: &[u8], ours: &[u8]) -> Vec<u8> {
    let gap: &[u8] = if theirs.is_empty() {
        b""
    } else if theirs.ends_with(b"\n") {
        b"\n"
    } else {
        b"\n\n"
    };
    [theirs, gap, ours].concat()
}

/// Every file of an environment with its checked path.
fn plan(environment: &RunEnvironment) -> Result<Vec<Planned<'_>>, EnvironmentError> {
    let mut planned = Vec::new();
    if let Some(text) = &environment.instructions.agents_md {
        planned.push(Planned { path: checked(AGENTS_MD)?, content: text.as_bytes(), merges: true });
    }
    for EnvironmentFile { path, content } in &environment.agent_files {
        let checked = checked(path)?;
        if checked.names().last().is_none_or(|name| name != AGENTS_MD) {
            return Err(EnvironmentError::Forbidden {
                path: path.clone(),
                why: "it is not called AGENTS.md",
            });
        }
        planned.push(Planned { path: checked, content, merges: true });
    }
    for Skill { name, files } in &environment.skills {
        if checked(name)?.names() != [name.clone()] {
            return Err(EnvironmentError::Forbidden {
                path: name.clone(),
                why: "a skill's name is one name",
            });
        }
        for EnvironmentFile { path, content } in files {
            checked(path)?;
            let path = checked(&format!("{SKILLS}/{name}/{path}"))?;
            planned.push(Planned { path, content, merges: false });
        }
    }
    for EnvironmentFile { path, content } in &environment.sources {
        planned.push(Planned { path: checked(path)?, content, merges: false });
    }
    let is_large =
        |file: &Planned<'_>| u64::try_from(file.content.len()).unwrap_or(u64::MAX) > ENVIRONMENT_FILE_BYTES;
    if planned.len() > ENVIRONMENT_FILES || planned.iter().any(is_large) {
        return Err(EnvironmentError::TooLarge);
    }
    let mut seen = BTreeSet::new();
    match planned.iter().find(|file| !seen.insert(&file.path)) {
        Some(twice) => Err(EnvironmentError::Duplicate { path: twice.path.to_string() }),
        None => Ok(planned),
    }
}

fn checked(text: &str) -> Result<PathBeneath, EnvironmentError> {
    let path = PathBeneath::parse(text)
        .map_err(|source| EnvironmentError::Path { path: text.to_owned(), source })?;
    if path.names().iter().any(|name| name.eq_ignore_ascii_case(".git")) {
        return Err(EnvironmentError::Forbidden { path: text.to_owned(), why: "it lies in .git" });
    }
    Ok(path)
}
