//! Text that a command reads: from a file, or from standard input where the command line says `-`.
//!
//! Reading is bounded, and off the thread that listens for Ctrl-C.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// Where text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// `-`.
    Stdin,
    /// A path.
    File(PathBuf),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" { Self::Stdin } else { Self::File(text.into()) })
    }
}

/// Why there is no text.
#[derive(Debug, Error)]
pub(crate) enum InputError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Standard input cannot be read.
    #[error("cannot read standard input")]
    Stdin(#[source] io::Error),
    /// It is longer than the mesh takes.
    #[error("{what} has more than {bytes_max} bytes")]
    TooLarge {
        /// What was read.
        what: String,
        /// What is allowed.
        bytes_max: usize,
    },
    /// It is not UTF-8.
    #[error("{what} is not UTF-8 text")]
    NotText {
        /// What was read.
        what: String,
    },
}

impl InputError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => Some("check the path, and that this user may read it".to_owned()),
            Self::Write { .. } => {
                Some("check the path, and that the disk is writable and not full".to_owned())
            }
            Self::Stdin(_) => Some("give it through a pipe, or name a file".to_owned()),
            Self::TooLarge { .. } => {
                Some("send less, or put it where the other machine can fetch it".to_owned())
            }
            Self::NotText { .. } => Some("encode it first, for example with `base64`".to_owned()),
        }
    }
}

impl Source {
    /// All of it, when it is text of at most `bytes_max` bytes.
    pub(crate) async fn text(&self, bytes_max: usize) -> Result<String, InputError> {
        let bytes = self.bytes(bytes_max).await?;
        String::from_utf8(bytes).map_err(|_| InputError::NotText { what: self.name() })
    }

    /// All of it, when it has at most `bytes_max` bytes.
    pub(crate) async fn bytes(&self, bytes_max: usize) -> Result<Vec<u8>, InputError> {
        let source = self.clone();
        let read = tokio::task::spawn_blocking(move || source.read(bytes_max)).await;
        read.map_err(|gone| InputError::Stdin(io::Error::other(gone)))?
    }

    fn read(&self, bytes_max: usize) -> Result<Vec<u8>, InputError> {
        let bytes = match self {
            Self::Stdin => bounded(io::stdin().lock(), bytes_max).map_err(InputError::Stdin),
            Self::File(path) => File::open(path)
                .and_then(|file| bounded(file, bytes_max))
                .map_err(|source| InputError::Read { path: path.clone(), source }),
        }?;
        if bytes.len() > bytes_max {
            return Err(InputError::TooLarge { what: self.name(), bytes_max });
        }
        Ok(bytes)
    }

    /// What it is called in an error.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// Writes a file that only its owner can read; it may hold what a job printed.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), InputError> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|source| InputError::Write { path: path.to_owned(), source })
}

/// One byte more than allowed, so that the caller can tell.
fn bounded(reader: impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take((bytes_max as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_of_the_limit_is_read_and_one_byte_more_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "12345").unwrap();
        let source = Source::File(path);
        assert_eq!(source.text(5).await.unwrap(), "12345");
        assert!(matches!(source.text(4).await, Err(InputError::TooLarge { bytes_max: 4, .. })));
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_refused_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, [0xff]).unwrap();
        assert!(matches!(Source::File(path).text(5).await, Err(InputError::NotText { .. })));
    }
}
