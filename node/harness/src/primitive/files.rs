//! `read_file` and `list_files`: files of the working directory, never outside it and never through a link.
//!
//! Which names there are is the model's business only below the directory: a path that leads out of it is an error, and
//! everything that is no plain file of a bounded size is "not found", for whatever reason.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;

use super::arguments;
use crate::beneath::{PathBeneath, PathError, Tree};
use crate::limits::{LISTED_DEPTH, LISTED_ENTRIES, LISTED_FILES, READ_FILE_BYTES};
use crate::message::{JsonObject, ToolSpec};
use crate::tool::{Executing, Tool, ToolContext, ToolError, ToolOutput};

/// What a listing leaves out: the history of the directory, which is no part of what is in it.
const HISTORY: &CStr = c".git";

/// Why nothing of the working directory could be read.
#[derive(Debug, Error)]
pub enum FileError {
    /// The path is none below the directory.
    #[error("{path:?} cannot be read")]
    Path {
        /// As given.
        path: String,
        /// What is wrong with it.
        #[source]
        source: PathError,
    },
    /// The working directory itself cannot be read.
    #[error("the working directory cannot be read")]
    Workdir(#[source] io::Error),
    /// The work was given up.
    #[error("reading was given up")]
    GivenUp,
}

/// The tool `read_file`.
pub(super) struct ReadFile {
    spec: ToolSpec,
    workdir: PathBuf,
}

/// The tool `list_files`.
pub(super) struct ListFiles {
    spec: ToolSpec,
    workdir: PathBuf,
}

#[derive(Deserialize)]
struct ReadRequest {
    path: String,
}

#[derive(Deserialize)]
struct ListRequest {
    #[serde(default)]
    dir: Option<String>,
}

impl ReadFile {
    pub(super) fn new(workdir: PathBuf) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"path": {"type": "string", "description": "relative to the working directory"}},
            "required": ["path"],
        });
        let description =
            format!("Read a text file of the working directory, of up to {READ_FILE_BYTES} bytes.");
        Self { spec: ToolSpec::new("read_file", description, schema), workdir }
    }
}

impl ListFiles {
    pub(super) fn new(workdir: PathBuf) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"dir": {"type": "string", "description": "relative to the working directory, which it is if absent"}},
        });
        let description = "List the files of the working directory and below, one a line.";
        Self { spec: ToolSpec::new("list_files", description, schema), workdir }
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a> {
        Box::pin(async move {
            let request: ReadRequest = arguments(input)?;
            let path = parsed(&request.path)?;
            let workdir = self.workdir.clone();
            let found = blocking(context, move || {
                let tree = Tree::open(&workdir).map_err(FileError::Workdir)?;
                Ok(tree.read(&path, READ_FILE_BYTES).ok().flatten())
            });
            Ok(match found.await? {
                Some((bytes, _mode)) => ToolOutput::text(String::from_utf8_lossy(&bytes)),
                None => ToolOutput::text(format!(
                    "not found: {:?} is no file of up to {READ_FILE_BYTES} bytes; links are not followed",
                    request.path
                )),
            })
        })
    }
}

impl Tool for ListFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a> {
        Box::pin(async move {
            let request: ListRequest = arguments(input)?;
            let named = request.dir.unwrap_or_default();
            let path = match named.as_str() {
                "" | "." | "./" => None,
                named => Some(parsed(named)?),
            };
            let workdir = self.workdir.clone();
            let found = blocking(context, move || {
                let tree = Tree::open(&workdir).map_err(FileError::Workdir)?;
                let Ok(top) = tree.open_directory(path.as_ref()) else { return Ok(None) };
                let prefix = path.map_or_else(String::new, |path| format!("{path}/"));
                Ok(Some(Listing::of(top, prefix)))
            });
            Ok(match found.await? {
                Some(listing) => ToolOutput::text(listing.into_text()),
                None => {
                    ToolOutput::text(format!("not found: {named:?} is no directory; links are not followed"))
                }
            })
        })
    }
}

fn parsed(path: &str) -> Result<PathBeneath, ToolError> {
    let parsed = PathBeneath::parse(path);
    parsed.map_err(|source| ToolError::failed(FileError::Path { path: path.to_owned(), source }))
}

/// Does what may wait for a disk on a thread that may.
async fn blocking<T: Send + 'static>(
    context: &ToolContext,
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = context.stop.or_drop(tokio::task::spawn_blocking(work)).await?;
    done.unwrap_or(Err(FileError::GivenUp)).map_err(ToolError::failed)
}

/// The files below a directory.
#[derive(Debug, Default)]
struct Listing {
    paths: Vec<String>,
    /// Entries looked at, directories included.
    seen: usize,
    cut: bool,
}

impl Listing {
    /// Lists what is below `top`, whose own path, with a slash at its end, is `prefix`. What cannot be opened is left
    /// out, as if it were not there.
    fn of(top: OwnedFd, prefix: String) -> Self {
        let mut listing = Self::default();
        listing.add(top, &prefix, 0);
        listing.paths.sort_unstable();
        listing
    }

    fn add(&mut self, directory: OwnedFd, prefix: &str, depth: usize) {
        let Ok(entries) = Dir::read_from(&directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." || name == HISTORY {
                continue;
            }
            self.seen += 1;
            if self.paths.len() >= LISTED_FILES || self.seen > LISTED_ENTRIES {
                self.cut = true;
                return;
            }
            let path = format!("{prefix}{}", name.to_string_lossy());
            // A link to a directory is no directory here, whatever file system tells the type.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = || openat(&directory, name, flags, Mode::empty());
            match entry.file_type() {
                FileType::RegularFile => self.paths.push(path),
                FileType::Directory | FileType::Unknown if depth >= LISTED_DEPTH => self.cut = true,
                FileType::Directory => {
                    if let Ok(below) = below() {
                        self.add(below, &format!("{path}/"), depth + 1);
                    }
                }
                FileType::Unknown => match below() {
                    Ok(below) => self.add(below, &format!("{path}/"), depth + 1),
                    Err(_) => self.paths.push(path),
                },
                _ => {}
            }
        }
    }

    fn into_text(mut self) -> String {
        if self.cut {
            self.paths.push("(there are more; list a directory below)".into());
        }
        self.paths.join("\n")
    }
}
