//! Files below one directory, reached without ever leaving it.
//!
//! The kernel resolves a path beneath the directory and through no symbolic link (`openat2`). So nothing that changes the
//! tree meanwhile can lead outside, and a link is refused wherever it stands, even one that stays inside. Where the
//! kernel has no such call, or a container does not let it through, a path is taken one name at a time, each opened
//! relative to the directory before it, which refuses the same.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, fchmod, mkdirat, open, openat, openat2, unlinkat};
use rustix::io::Errno;
use thiserror::Error;

use crate::limits::{PATH_BYTES, PATH_DEPTH};

/// A path below a directory: some names, none of which leads upwards.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathBeneath {
    names: Vec<String>,
}

/// Why a text is no path below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathError {
    /// There is no name in it.
    #[error("the path is empty")]
    Empty,
    /// It starts at the root.
    #[error("the path is absolute; give one relative to the working directory")]
    Absolute,
    /// It leads upwards.
    #[error("the path leaves the working directory")]
    Escapes,
    /// It is too long, too deep, or has a character that no path has.
    #[error("the path is too long or has a NUL character")]
    Unusable,
}

impl PathBeneath {
    /// A path whose names are separated by slashes. Empty and `.` names are left out.
    ///
    /// # Errors
    /// A [`PathError`] for what is empty, absolute or leads upwards.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > PATH_BYTES || text.contains('\0') {
            return Err(PathError::Unusable);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        let names = text.split('/').filter(|name| !name.is_empty() && *name != ".");
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.iter().any(|name| name == "..") {
            return Err(PathError::Escapes);
        }
        match names.len() {
            0 => Err(PathError::Empty),
            depth if depth > PATH_DEPTH => Err(PathError::Unusable),
            _ => Ok(Self { names }),
        }
    }

    /// Its names, from the top.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The directories it lies in and its own name.
    fn split(&self) -> (&[String], &str) {
        self.names.split_last().map_or((&[], ""), |(last, parents)| (parents, last.as_str()))
    }

    /// The first `depth` names as a path of their own.
    pub(crate) fn ancestor(&self, depth: usize) -> Self {
        Self { names: self.names.iter().take(depth).cloned().collect() }
    }
}

impl fmt::Display for PathBeneath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join("/"))
    }
}

/// A directory and what is below it.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Tree {
    /// The tree below `root`, which is trusted: it may be reached through links.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: open(root, DIRECTORY, Mode::empty())? })
    }

    /// Opens a directory for listing; None is the top.
    pub(crate) fn open_directory(&self, path: Option<&PathBeneath>) -> io::Result<OwnedFd> {
        self.directory(path.map_or(&[], PathBeneath::names))
    }

    fn directory(&self, names: &[String]) -> io::Result<OwnedFd> {
        self.reach(names, DIRECTORY, Mode::empty())
    }

    /// Opens what these names lead to; no name is the top.
    fn reach(&self, names: &[String], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = if names.is_empty() { ".".to_owned() } else { names.join("/") };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.root, path, flags, mode, beneath) {
            Err(Errno::NOSYS | Errno::PERM) => self.walk(names, flags, mode),
            opened => Ok(opened?),
        }
    }

    /// The same, name by name.
    fn walk(&self, names: &[String], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let Some((last, parents)) = names.split_last() else { return self.root.try_clone() };
        let mut at = self.root.try_clone()?;
        for name in parents {
            at = openat(&at, name.as_str(), DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(openat(&at, last.as_str(), flags, mode)?)
    }

    /// Opens a file that is there, for reading. Does not wait for a pipe's other end.
    ///
    /// # Errors
    /// What the system says; a link is an error.
    pub fn open_file(&self, path: &PathBeneath) -> io::Result<File> {
        self.open_with(path, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// The bytes of a regular file and its permission bits; None if there is nothing of that name.
    ///
    /// # Errors
    /// What the system says, or that it is no regular file, or larger than `limit` bytes.
    pub fn read(&self, path: &PathBeneath, limit: u64) -> io::Result<Option<(Vec<u8>, u32)>> {
        let file = match self.open_file(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
        }
        Ok(Some((bytes, std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()))))
    }

    /// Makes a file that is not there yet. Its directory has to be.
    ///
    /// # Errors
    /// What the system says; something of that name is an error.
    pub fn create(&self, path: &PathBeneath, content: &[u8]) -> io::Result<()> {
        self.make(path)?.write_all(content)
    }

    /// Makes an empty file that is not there yet, for writing.
    pub(crate) fn make(&self, path: &PathBeneath) -> io::Result<File> {
        self.open_with(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Replaces what is in a regular file, which is made if it is not there. Its directory has to be.
    ///
    /// # Errors
    /// What the system says; anything but a regular file is an error.
    pub fn write(&self, path: &PathBeneath, content: &[u8]) -> io::Result<()> {
        let mut file = self.open_with(path, OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        file.set_len(0)?;
        file.write_all(content)
    }

    /// Sets the permission bits of a file.
    pub(crate) fn set_mode(&self, path: &PathBeneath, mode: u32) -> io::Result<()> {
        let file = self.open_file(path)?;
        // The type of the file is in the same word; only permissions can be set.
        Ok(fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?)
    }

    /// Makes the directories a path lies in, and says which were not there before, from the top.
    ///
    /// # Errors
    /// What the system says; what was made until then stays.
    pub fn create_parents(&self, path: &PathBeneath) -> io::Result<Vec<PathBeneath>> {
        let (parents, _) = path.split();
        let mut made = Vec::new();
        let mut at = self.root.try_clone()?;
        for (depth, name) in parents.iter().enumerate() {
            match mkdirat(&at, name.as_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) => made.push(path.ancestor(depth + 1)),
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = openat(&at, name.as_str(), DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(made)
    }

    /// Removes a file, or a link in its place.
    pub(crate) fn remove_file(&self, path: &PathBeneath) -> io::Result<()> {
        let (parents, name) = path.split();
        Ok(unlinkat(self.directory(parents)?, name, AtFlags::empty())?)
    }

    /// Removes a directory that is empty.
    pub(crate) fn remove_directory(&self, path: &PathBeneath) -> io::Result<()> {
        let (parents, name) = path.split();
        Ok(unlinkat(self.directory(parents)?, name, AtFlags::REMOVEDIR)?)
    }

    /// Whether there is anything of that name, a link included.
    pub(crate) fn exists(&self, path: &PathBeneath) -> io::Result<bool> {
        let (parents, name) = path.split();
        let directory = match self.directory(parents) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn open_with(&self, path: &PathBeneath, flags: OFlags) -> io::Result<File> {
        // Permissions go with making a file, and `openat2` refuses them otherwise.
        let makes = flags.contains(OFlags::CREATE);
        let mode = if makes { Mode::from_raw_mode(0o644) } else { Mode::empty() };
        Ok(File::from(self.reach(path.names(), flags, mode)?))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> PathBeneath {
        PathBeneath::parse(text).unwrap()
    }

    #[test]
    fn what_leads_outside_is_no_path() {
        for (text, why) in [
            ("", PathError::Empty),
            (".", PathError::Empty),
            ("./", PathError::Empty),
            ("/etc/passwd", PathError::Absolute),
            ("..", PathError::Escapes),
            ("a/../../b", PathError::Escapes),
            ("a/..", PathError::Escapes),
            ("a\0b", PathError::Unusable),
        ] {
            assert_eq!(PathBeneath::parse(text), Err(why), "{text:?}");
        }
        assert_eq!(path("./a//b/.").to_string(), "a/b");
        assert_eq!(PathBeneath::parse(&"a/".repeat(PATH_DEPTH + 1)), Err(PathError::Unusable));
    }

    proptest! {
        #[test]
        fn no_text_becomes_a_path_that_leads_upwards(text in "[./a\\\\]{0,12}") {
            if let Ok(path) = PathBeneath::parse(&text) {
                prop_assert!(!path.names().is_empty());
                prop_assert!(path.names().iter().all(|name| !name.contains('/') && name != ".." && name != "."));
            }
        }
    }

    #[test]
    fn no_link_is_followed_wherever_it_stands_and_wherever_it_leads() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "canary").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir(inside.path().join("real")).unwrap();
        std::fs::write(inside.path().join("real/file"), "x").unwrap();
        symlink(outside.path(), inside.path().join("out")).unwrap();
        symlink(outside.path().join("secret"), inside.path().join("leak")).unwrap();
        symlink("real", inside.path().join("in")).unwrap();
        symlink("real/file", inside.path().join("alias")).unwrap();

        let tree = Tree::open(inside.path()).unwrap();
        for text in
            ["real", "real/file", "out", "out/secret", "leak", "in", "in/file", "alias", "none", "real/none"]
        {
            let (path, flags) = (path(text), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC);
            let reached = tree.reach(path.names(), flags, Mode::empty()).is_ok();
            assert_eq!(reached, text.starts_with("real") && !text.ends_with("none"), "{text}");
            let walked = tree.walk(path.names(), flags, Mode::empty()).is_ok();
            assert_eq!(reached, walked, "{text}: both ways lead to the same");
        }
        assert_eq!(tree.read(&path("real/file"), 10).unwrap().unwrap().0, b"x");
        for link in ["out/secret", "leak", "in/file", "alias"] {
            assert!(tree.read(&path(link), 10).is_err(), "{link}");
            assert!(tree.write(&path(link), b"y").is_err(), "{link}");
        }
        assert!(tree.create_parents(&path("out/new/file")).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"canary");
    }

    #[test]
    fn a_pipe_or_a_directory_is_no_file_and_a_large_file_is_not_read() {
        let inside = tempfile::tempdir().unwrap();
        let tree = Tree::open(inside.path()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(inside.path().join("pipe")).status().unwrap();
        assert!(made.success());
        std::fs::create_dir(inside.path().join("dir")).unwrap();
        std::fs::write(inside.path().join("large"), [0; 11]).unwrap();
        for name in ["pipe", "dir", "large"] {
            assert!(tree.read(&path(name), 10).is_err(), "{name}");
        }
        assert!(tree.write(&path("pipe"), b"x").is_err());
        assert!(tree.read(&path("missing"), 10).unwrap().is_none());
    }
}
