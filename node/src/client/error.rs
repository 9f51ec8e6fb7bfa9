//! Why there is no answer, found out before it is said.
//!
//! A refused connection alone tells nothing: [`diagnose`] looks at the home, the socket and the process behind the
//! lock, and picks the sentence that is true. It runs once, after the fact, and only reads.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_protocol::api::SCHEMA_VERSION;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use thiserror::Error;

use super::Endpoint;
use crate::api::limits::BODY_BYTES_MAX;

/// Bytes of the lock file that are read: a process id and a line end.
const LOCK_BYTES_MAX: u64 = 64;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// There is no home: no node was ever made here.
    #[error("there is no node here: {} does not exist", home.display())]
    NoHome {
        /// Where it would be.
        home: PathBuf,
    },
    /// The home is there, and no process holds its lock.
    #[error("the node is not running")]
    NotRunning {
        /// Where its socket would be, or a dead one is.
        socket: PathBuf,
    },
    /// The process is there and its socket is not, or refuses.
    #[error("the node is running (process {pid}) but does not answer on {}", socket.display())]
    NotAnswering {
        /// The process that holds the lock.
        pid: i32,
        /// The socket tried.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The files are another user's.
    #[error("no permission to use {}", path.display())]
    PermissionDenied {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// None of the above.
    #[error("cannot connect to {}", socket.display())]
    Connect {
        /// The socket tried.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It took too long. What was asked for may still happen.
    #[error("no answer within {} s", after.as_secs())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// The connection ended in the middle. What was asked for may have happened.
    #[error("the connection ended before the answer")]
    Broken(#[source] hyper::Error),
    /// The answer ended in the middle. What was asked for has happened.
    #[error("the answer ended early")]
    CutShort(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The node answered, with a reason.
    #[error("{0}")]
    Refused(ApiError),
    /// A status with no reason we can read.
    #[error("the node answered {status} without saying why")]
    Unexplained {
        /// The HTTP status.
        status: u16,
    },
    /// The node speaks another version of the documents, or none that we know.
    #[error("the node speaks version {} of the API, this program {SCHEMA_VERSION}", shown(*node))]
    Schema {
        /// Its version, when it said one.
        node: Option<u32>,
    },
    /// Over [`BODY_BYTES_MAX`]; nothing was sent.
    #[error("the request has {bytes} bytes, {BODY_BYTES_MAX} are allowed")]
    RequestTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// More than any answer has; what was asked for has happened.
    #[error("the answer is too large")]
    AnswerTooLarge,
    /// The request cannot be written as HTTP; nothing was sent.
    #[error("the request cannot be written as HTTP")]
    Compose,
    /// The request cannot be written as JSON; nothing was sent.
    #[error("the request cannot be written as JSON")]
    Encode(#[source] serde_json::Error),
    /// The answer is not what this program expects; what was asked for has happened.
    #[error("the answer cannot be read")]
    Decode(#[source] serde_json::Error),
}

fn shown(version: Option<u32>) -> String {
    version.map_or_else(|| "an unknown".to_owned(), |version| version.to_string())
}

impl ClientError {
    /// What to do about it, most likely first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let hints: &[&str] = match self {
            Self::NoHome { .. } => &["`mesh-cli init` makes a mesh", "`mesh-cli join TICKET` joins one"],
            Self::NotRunning { .. } => &["`mesh-cli up` starts it"],
            Self::NotAnswering { .. } => {
                &["wait: it may be starting or stopping", "`mesh-cli logs` shows what it is doing"]
            }
            Self::PermissionDenied { .. } => {
                &["run this as the user the node runs as", "set `MESH_HOME` to a home of your own"]
            }
            Self::Schema { node: Some(node) } if *node > SCHEMA_VERSION => &["update `mesh-cli`"],
            Self::Schema { .. } => &["`mesh-cli down` and `mesh-cli up` start the node with this version"],
            Self::TimedOut { .. } | Self::Broken(_) => &[
                "`mesh-cli status` shows whether the node is well",
                "`mesh-cli logs` shows what it is doing",
            ],
            Self::Connect { .. } => &["`mesh-cli doctor` looks for the cause"],
            Self::CutShort(_) => &["ask again", "`mesh-cli logs` shows what the node is doing"],
            Self::RequestTooLarge { .. } => &["send less at once"],
            Self::Refused(error) => return error.hints.clone(),
            Self::Unexplained { .. }
            | Self::AnswerTooLarge
            | Self::Compose
            | Self::Encode(_)
            | Self::Decode(_) => &["`mesh-cli logs` may say more: this is a fault of mesh itself"],
        };
        hints.iter().map(ToString::to_string).collect()
    }

    /// Whether the node may have done what it was asked, in spite of this.
    #[must_use]
    pub fn leaves_open(&self) -> bool {
        match self {
            Self::NoHome { .. }
            | Self::NotRunning { .. }
            | Self::NotAnswering { .. }
            | Self::PermissionDenied { .. }
            | Self::Connect { .. }
            | Self::RequestTooLarge { .. }
            | Self::Compose
            | Self::Encode(_) => false,
            // The node's own time-out leaves what it began; an internal error may come after the commit.
            Self::Refused(refusal) => {
                refusal.kind == ErrorKind::Internal
                    || matches!(refusal.code.as_str(), "no_answer_in_time" | "stopping")
            }
            Self::TimedOut { .. }
            | Self::Broken(_)
            | Self::CutShort(_)
            | Self::Unexplained { .. }
            | Self::Schema { .. }
            | Self::AnswerTooLarge
            | Self::Decode(_) => true,
        }
    }

    /// The same, in the one shape errors have for programs.
    #[must_use]
    pub fn into_api_error(self) -> ApiError {
        let (kind, code) = match self {
            Self::Refused(error) => return error,
            Self::NoHome { .. } => (ErrorKind::NotFound, "no_home"),
            Self::NotRunning { .. } => (ErrorKind::Unavailable, "node_not_running"),
            Self::NotAnswering { .. } => (ErrorKind::Unavailable, "node_not_answering"),
            Self::PermissionDenied { .. } => (ErrorKind::Refused, "permission_denied"),
            Self::Connect { .. } => (ErrorKind::Unavailable, "cannot_connect"),
            Self::TimedOut { .. } => (ErrorKind::Unavailable, "no_answer_in_time"),
            Self::Broken(_) | Self::CutShort(_) => (ErrorKind::Unavailable, "connection_lost"),
            Self::Schema { .. } => (ErrorKind::Conflict, "schema_mismatch"),
            Self::RequestTooLarge { .. } => (ErrorKind::Invalid, "body_too_large"),
            Self::Unexplained { .. }
            | Self::AnswerTooLarge
            | Self::Compose
            | Self::Encode(_)
            | Self::Decode(_) => (ErrorKind::Internal, "answer_not_understood"),
        };
        let hints = self.hints();
        hints.into_iter().fold(ApiError::new(kind, code, self.to_string()), ApiError::hint)
    }
}

/// Why the socket could not be connected to.
pub(crate) fn diagnose(endpoint: &Endpoint, source: io::Error) -> ClientError {
    let socket = endpoint.socket.clone();
    if source.kind() == io::ErrorKind::PermissionDenied {
        return ClientError::PermissionDenied { path: socket, source };
    }
    match endpoint.home.try_exists() {
        Ok(true) => {}
        Ok(false) => return ClientError::NoHome { home: endpoint.home.clone() },
        Err(source) => return ClientError::PermissionDenied { path: endpoint.home.clone(), source },
    }
    match process_holding(&endpoint.lock) {
        Ok(Some(pid)) => ClientError::NotAnswering { pid, socket, source },
        Ok(None) if absent_or_dead(&source) => ClientError::NotRunning { socket },
        Ok(None) => ClientError::Connect { socket, source },
        Err(source) => ClientError::PermissionDenied { path: endpoint.lock.clone(), source },
    }
}

/// No socket file, or one nobody listens on.
fn absent_or_dead(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The process named in the lock file, if it lives. The lock itself is not tried: holding it, even for a moment,
/// could keep a node from starting. A process id that was given to another program since is the price.
fn process_holding(lock: &Path) -> io::Result<Option<i32>> {
    let mut text = String::new();
    let read = std::fs::File::open(lock).and_then(|file| file.take(LOCK_BYTES_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(_) => return Ok(None),
    }
    // `from_raw` panics on a negative number.
    let pid = text.lines().next().and_then(|line| line.trim().parse::<i32>().ok()).filter(|pid| *pid > 0);
    let Some((pid, process)) = pid.and_then(|pid| Some((pid, rustix::process::Pid::from_raw(pid)?))) else {
        return Ok(None);
    };
    match rustix::process::test_kill_process(process) {
        // Not allowed to signal it: it is there, and someone else's.
        Ok(()) | Err(rustix::io::Errno::PERM) => Ok(Some(pid)),
        Err(_) => Ok(None),
    }
}
