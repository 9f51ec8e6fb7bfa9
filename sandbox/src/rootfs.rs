//! The read-only root file system that jobs see, made from this machine's own programs.
//!
//! It holds the interpreters, what they link to, a handful of text tools, and a minimal `/etc`; nothing of the
//! host's packages, users or configuration, and no set-user-id file. A dedicated tree starts faster than a
//! bind of `/usr` and hides what is installed. A runtime pack becomes a tree of its own in the same way.
//!
//! ```text
//! <dir>/lock                     held while building or tidying
//! <dir>/.building-…              a tree not finished yet, or one to be deleted
//! <dir>/<key>/tree               a finished tree; key = digest of the sources' names, sizes and times
//! <dir>/<key>/image              the same as one file, for gVisor
//! <dir>/<key>/manifest.json      the digests of both, and the interpreters
//! <dir>/<key>/in-use             share-locked by every process that runs jobs from it
//! ```
//!
//! Invariants: a tree under its key is complete (it is renamed into place); its digest and its image's were recomputed
//! in this process before any job ran from either; equal sources give an equal digest.

mod build;
mod digest;
mod image;
mod oci;
mod own;
mod pack;
mod recipe;
mod unpack;

pub use digest::tree_sha256;
pub use pack::RuntimePack;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::language::Language;
use crate::runtime::sha256_of_file;
use crate::wait::pause;
use recipe::Recipe;

/// Another process may be building; that takes about three seconds on an idle machine.
const LOCK_DEADLINE: Duration = Duration::from_secs(120);

/// A finished root file system.
#[derive(Debug)]
pub struct Rootfs {
    /// The tree on the host.
    pub path: PathBuf,
    /// The tree as one file.
    pub(crate) image: PathBuf,
    /// Digest of the whole tree, see [`tree_sha256`].
    pub sha256: String,
    /// Path of each interpreter inside the tree.
    pub(crate) interpreters: BTreeMap<Language, String>,
    /// Keeps others from deleting the tree.
    _in_use: File,
}

/// Why there is no root file system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootfsError {
    /// No interpreter was found on this machine.
    #[error("neither python3 nor node nor bash is installed")]
    NoInterpreter,
    /// The name of a pack cannot be one.
    #[error("not a usable name of a runtime pack: {name:?}")]
    PackName {
        /// The name as given.
        name: String,
    },
    /// A pack has more in it than one may have.
    #[error("{path} is too large for a runtime pack")]
    PackTooLarge {
        /// Its source.
        path: PathBuf,
    },
    /// A pack could not be unpacked.
    #[error("{path} cannot be unpacked")]
    Pack {
        /// Its source.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Reading the sources or writing the tree failed.
    #[error("cannot {doing} {path}")]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The tree was changed while other processes run jobs from it.
    #[error("{path} was changed while in use")]
    Changed {
        /// The tree's directory.
        path: PathBuf,
    },
    /// Another process has been building for too long.
    #[error("another process has kept {path} locked for {} s", LOCK_DEADLINE.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
}

impl RootfsError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoInterpreter => "install python3, nodejs or bash with the system's package manager",
            Self::PackName { .. } => "use up to 64 letters, digits, -, _ and .",
            Self::PackTooLarge { .. } => "leave out of the image what jobs do not need",
            Self::Pack { .. } => {
                "give a directory, an OCI image layout or a tar file of one, with layers in tar or gzip"
            }
            Self::Io { .. } => "check space and permissions of the directory",
            Self::Changed { .. } => "find out what changed it, end the other nodes, and start again",
            Self::Locked { .. } => "end the other process, or give this one a directory of its own",
        }
    }

    fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

/// The interpreters of a tree that was made.
type Made = Result<BTreeMap<Language, String>, RootfsError>;

/// What is known about a finished tree.
#[derive(Serialize, Deserialize)]
struct Manifest {
    sha256: String,
    image_sha256: String,
    interpreters: BTreeMap<Language, String>,
}

impl Rootfs {
    /// Loads the tree that fits this machine's current programs from `dir`, building it first if it is absent,
    /// damaged or out of date. Takes about 0.5 s to load and 4 s to build.
    pub fn load_or_build(dir: &Path) -> Result<Self, RootfsError> {
        let recipe = Recipe::for_this_machine()?;
        Self::load_or(dir, &recipe.key(), |tree, _| {
            build::build(&recipe, tree)?;
            Ok(recipe.interpreters.clone())
        })
    }

    /// The same for a runtime pack, and the time that its size takes.
    pub fn load_or_unpack(dir: &Path, pack: &RuntimePack) -> Result<Self, RootfsError> {
        Self::load_or(dir, &pack.key()?, |tree, aside| pack.build(tree, aside))
    }

    /// Deletes trees nobody uses.
    pub fn tidy(dir: &Path) -> Result<(), RootfsError> {
        let _building = lock(dir)?;
        tidy(dir);
        Ok(())
    }

    fn load_or(dir: &Path, key: &str, make: impl FnOnce(&Path, &Path) -> Made) -> Result<Self, RootfsError> {
        fs::create_dir_all(dir).map_err(RootfsError::at("create", dir))?;
        let _building = lock(dir)?;
        let home = dir.join(key);
        if let Some(rootfs) = Self::load(&home) {
            return Ok(rootfs);
        }
        Self::build(dir, &home, make)?;
        Self::load(&home).ok_or_else(|| RootfsError::Io {
            doing: "load",
            path: home.clone(),
            source: io::ErrorKind::InvalidData.into(),
        })
    }

    /// The tree at `home`, if it is there and still what its manifest says.
    fn load(home: &Path) -> Option<Self> {
        let manifest: Manifest = serde_json::from_slice(&fs::read(home.join("manifest.json")).ok()?).ok()?;
        let (path, image) = (home.join("tree"), home.join("image"));
        if tree_sha256(&path).ok()? != manifest.sha256
            || sha256_of_file(&image).ok()? != manifest.image_sha256
        {
            tracing::warn!(path = %path.display(), "the root file system was changed");
            return None;
        }
        let in_use = File::open(home.join("in-use")).ok()?;
        flock(&in_use, FlockOperation::NonBlockingLockShared).ok()?;
        let Manifest { sha256, interpreters, .. } = manifest;
        Some(Self { path, image, sha256, interpreters, _in_use: in_use })
    }

    fn build(dir: &Path, home: &Path, make: impl FnOnce(&Path, &Path) -> Made) -> Result<(), RootfsError> {
        let aside = dir.join(format!(".building-{}", std::process::id()));
        remove_tree(&aside).map_err(RootfsError::at("remove", &aside))?;
        if home.exists() {
            if is_in_use(home) {
                return Err(RootfsError::Changed { path: home.to_owned() });
            }
            fs::rename(home, &aside).map_err(RootfsError::at("move", home))?;
            remove_tree(&aside).map_err(RootfsError::at("remove", &aside))?;
        }
        let tree = aside.join("tree");
        fs::create_dir_all(&tree).map_err(RootfsError::at("create", &tree))?;
        let interpreters = make(&tree, &aside)?;
        let layout = aside.join("layout");
        remove_tree(&layout).map_err(RootfsError::at("remove", &layout))?;
        let sha256 = tree_sha256(&tree).map_err(RootfsError::at("read", &tree))?;
        let path = aside.join("image");
        image::write(&tree, &path).map_err(RootfsError::at("write", &path))?;
        let image_sha256 = sha256_of_file(&path).map_err(RootfsError::at("read", &path))?;
        let manifest = Manifest { sha256, image_sha256, interpreters };
        let text = serde_json::to_vec(&manifest).map_err(io::Error::from);
        let path = aside.join("manifest.json");
        text.and_then(|text| fs::write(&path, text)).map_err(RootfsError::at("write", &path))?;
        let path = aside.join("in-use");
        fs::write(&path, "").map_err(RootfsError::at("write", &path))?;
        fs::rename(&aside, home).map_err(RootfsError::at("move", &aside))
    }
}

/// Takes the lock of `dir`, waiting while another process builds.
fn lock(dir: &Path) -> Result<File, RootfsError> {
    let path = dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(RootfsError::at("open", &path))?;
    let started = Instant::now();
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if started.elapsed() > LOCK_DEADLINE {
            return Err(RootfsError::Locked { path });
        }
        pause(Duration::from_millis(50));
    }
    Ok(file)
}

/// Deletes half-built trees and finished ones that no process uses. Called with the lock held.
fn tidy(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir()
            && !is_in_use(&path)
            && let Err(error) = remove_tree(&path)
        {
            tracing::debug!(path = %path.display(), %error, "an old root file system stays");
        }
    }
}

/// Whether any process runs jobs from the tree at `home`.
fn is_in_use(home: &Path) -> bool {
    File::open(home.join("in-use"))
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// Removes a directory tree; absent is fine.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
