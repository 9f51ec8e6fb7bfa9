//! The directory a node lives in, and who may touch it.
//!
//! ```text
//! $MESH_HOME/            0700, ours
//!   config.toml          what people write
//!   node.key             this node's identity; made last, so that its presence says the home is complete
//!   root.crt             the mesh's root certificate, to give to whoever checks evidence
//!   mesh.redb            all durable state, but for the last of it
//!   mesh.journal         that: what was committed since the other was last flushed
//!   tokens/              access tokens of local programs
//!   keys/                digests of tenants' keys, where the configuration does not say another place
//!   run/                 the socket, and records of the agents' processes
//!   mesh.lock            held by the one process that runs the node; names its pid
//!   node.log             what a node in the background writes
//! ```
//!
//! `$MESH_HOME` is, unless set, the platform's data directory (XDG Base Directory Specification). The Unix socket is
//! `run/mesh.sock`, or elsewhere when that path is too long for one.
//!
//! Invariant: every directory used here is a directory, is owned by the user and closed to all others; otherwise
//! nothing is read from it or written to it.

mod config;
mod directory;
mod lock;
mod socket;

pub use config::{
    AgentSection, Config, ConfigError, ExecutorSection, HttpSection, NodeSection, Problem, Visibility,
};
pub use lock::HomeLock;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::storage::{Database, DatabaseError};

/// Why a home cannot be used. Nothing in it was changed.
#[derive(Debug, Error)]
pub enum HomeError {
    /// No variable says where it is.
    #[error("no home directory is known")]
    Nowhere,
    /// A directory cannot be made or looked at.
    #[error("cannot use directory {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Something that is not a directory, or another user's.
    #[error("{path} is not a directory of this user")]
    NotOurs {
        /// Which.
        path: PathBuf,
    },
    /// Other users may look into or write to it.
    #[error("directory {path} is open to other users (mode {mode:03o})")]
    OpenToOthers {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another process runs a node there.
    #[error("{}", in_use(path, *pid))]
    InUse {
        /// The home.
        path: PathBuf,
        /// The process, when it wrote its id.
        pid: Option<u32>,
    },
    /// The lock file cannot be opened or written.
    #[error("cannot lock {path}")]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl HomeError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Nowhere => "set MESH_HOME to a directory of your own".to_owned(),
            Self::Directory { .. } => "check the path, or set MESH_HOME to another directory".to_owned(),
            Self::NotOurs { .. } => "set MESH_HOME to a directory of your own".to_owned(),
            Self::OpenToOthers { path, .. } => format!("run `chmod 700 {}`", path.display()),
            Self::InUse { .. } => "stop that process first, or set MESH_HOME to run a second node".to_owned(),
            Self::Lock { .. } => "check that the home is writable and not on a full disk".to_owned(),
        }
    }
}

fn in_use(path: &Path, pid: Option<u32>) -> String {
    let by = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    format!("{} is in use by {by}", path.display())
}

/// A home that exists and is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Where the home is: `$MESH_HOME`, `$XDG_DATA_HOME/mesh` or `~/.local/share/mesh`. `variable` reads the
    /// environment.
    ///
    /// # Errors
    /// [`HomeError::Nowhere`] when no variable is set.
    pub fn locate(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, HomeError> {
        let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("MESH_HOME")
            // The specification says to ignore a relative path here.
            .or_else(|| set("XDG_DATA_HOME").filter(|path| path.is_absolute()).map(|path| path.join("mesh")))
            .or_else(|| set("HOME").map(|path| path.join(".local/share/mesh")))
            .ok_or(HomeError::Nowhere)
    }

    /// Makes the directory and its parts where they are missing, and checks that they are closed to others.
    ///
    /// # Errors
    /// [`HomeError`] when they cannot be made or are not ours alone.
    pub fn open(root: &Path) -> Result<Self, HomeError> {
        directory::make_private(root)?;
        let root =
            root.canonicalize().map_err(|source| HomeError::Directory { path: root.to_owned(), source })?;
        let home = Self { root };
        for part in [home.tokens(), home.run()] {
            directory::make_private(&part)?;
        }
        Ok(home)
    }

    /// The directory itself, absolute.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What people configure.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The key that is this node's identity. Make it last: [`Self::open_database`] takes its presence to mean that the
    /// database was there before.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.root.join("node.key")
    }

    /// The mesh's root certificate, PEM: public, and all that checking evidence needs.
    #[must_use]
    pub fn root_file(&self) -> PathBuf {
        self.root.join("root.crt")
    }

    /// Durable state.
    #[must_use]
    pub fn database_file(&self) -> PathBuf {
        self.root.join("mesh.redb")
    }

    /// Digests of tenants' keys, and what they are made under. Made by whoever makes the first key.
    #[must_use]
    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    /// Access tokens of local programs.
    #[must_use]
    pub fn tokens(&self) -> PathBuf {
        self.root.join("tokens")
    }

    /// What only matters while a node runs: its socket, the records of its child processes.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Where the node listens for local programs; the same for everyone who asks. Makes and checks the directory when
    /// it is outside the home. Connect only to a path this returned: it is in a directory no one else can write to.
    ///
    /// # Errors
    /// [`HomeError`] when that directory is not ours alone.
    pub fn socket(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, HomeError> {
        let place = socket::place(&self.run(), variable("XDG_RUNTIME_DIR").map(PathBuf::from));
        if let Some(outside) = place.parent().filter(|parent| !parent.starts_with(&self.root)) {
            directory::make_private(outside)?;
        }
        Ok(place)
    }

    /// Takes the home for this process until the lock is dropped.
    ///
    /// # Errors
    /// [`HomeError::InUse`] with the other process.
    pub fn lock(&self) -> Result<HomeLock, HomeError> {
        HomeLock::take(&self.root, &self.root.join("mesh.lock"))
    }

    /// The configuration; all defaults when there is no file.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and the key.
    pub fn config(&self) -> Result<Config, ConfigError> {
        Config::read(&self.config_file())
    }

    /// Opens the database, making it in a home that has no identity yet. The lock shows that no other process does the
    /// same.
    ///
    /// # Errors
    /// [`DatabaseError`]; [`DatabaseError::Missing`] when there is an identity but no database: an empty one would
    /// silently forget everything this node owes its peers.
    pub fn open_database(&self, _: &HomeLock) -> Result<Database, DatabaseError> {
        let path = self.database_file();
        if !path.exists() && !self.key_file().exists() {
            return Database::create_file(&path);
        }
        Database::open_file(&path)
    }
}
