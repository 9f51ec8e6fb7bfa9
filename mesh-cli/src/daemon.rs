//! The node as a process of its own: started in the background by `up`, run in this process by `up --foreground`.
//!
//! ```text
//!   up ── starts ──> up --foreground ── runs the node
//!    │                     └── standard error ──> <home>/node.log
//!    └── asks the socket until it answers, or the process has ended
//! ```
//!
//! The process gets a process group of its own, so that a Ctrl-C meant for the command that started it does not reach
//! it, and no standard input.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use mesh_node::client::Client;
use mesh_node::home::Home;
use mesh_node::node::NodeError;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::commands::tail;
use crate::environment::{MESH_HOME, MESH_TOKEN};
use crate::exit::Exit;
use crate::failure::Failure;

/// How long a node may take until its socket answers: it opens and checks its database first.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Bytes of the log after which a new one is begun at the next start.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Lines of the log shown when the node did not start.
const LAST_WORDS: usize = 8;

/// Why the node did not start or stop.
#[derive(Debug, Error)]
pub(crate) enum DaemonError {
    /// This program cannot be found or started again.
    #[error("cannot start a process for the node")]
    Spawn(#[source] io::Error),
    /// Its log cannot be written.
    #[error("cannot write {}", path.display())]
    Log {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It ended at once.
    #[error("the node ended at once ({status}): {last_words}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of its log.
        last_words: String,
    },
    /// It runs and says nothing.
    #[error("the node (process {pid}) does not answer after {} s", after.as_secs())]
    Silent {
        /// The process.
        pid: u32,
        /// How long it had.
        after: Duration,
    },
    /// It was told to stop and has not.
    #[error("the node is still running after {} s", after.as_secs())]
    StillRunning {
        /// How long it had.
        after: Duration,
    },
}

impl DaemonError {
    /// What to do about it.
    pub(crate) fn hints(&self) -> Vec<String> {
        match self {
            Self::Spawn(_) => vec!["`mesh-cli up --foreground` runs it in this process".to_owned()],
            Self::Log { .. } => vec!["check that the home is writable and not on a full disk".to_owned()],
            Self::Ended { .. } => vec!["`mesh-cli up --foreground` shows it all".to_owned()],
            Self::Silent { .. } | Self::StillRunning { .. } => {
                vec!["`mesh-cli logs` shows what it is doing".to_owned()]
            }
        }
    }
}

/// Where a node in the background writes.
pub(crate) fn log_file(home: &Path) -> PathBuf {
    home.join("node.log")
}

/// The home, when it is a member of a mesh. One that is not there is not made.
fn member_home(root: &Path) -> Result<Home, Failure> {
    let not_a_member = || NodeError::NotAMember { home: root.to_owned() };
    if !root.exists() {
        return Err(not_a_member().into());
    }
    let home = Home::open(root)?;
    if home.key_file().exists() { Ok(home) } else { Err(not_a_member().into()) }
}

/// Runs the node of this home in this process until it is stopped: by `down`, Ctrl-C or SIGTERM.
pub(crate) async fn foreground(root: &Path) -> Result<Exit, Failure> {
    let home = member_home(root)?;
    let stopping = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Runtime)?;
    let asked = stopping.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        asked.cancel();
    });
    Box::pin(mesh_node::node::run(&home, stopping, || {})).await?;
    Ok(Exit::Done)
}

/// Starts a process for the node of this home and waits until it answers.
pub(crate) async fn start(root: &Path, client: &Client) -> Result<(), Failure> {
    let home = member_home(root)?;
    let mut child = spawn(home.root())?;
    Ok(until_ready(&mut child, home.root(), client).await?)
}

/// Waits until a node that was just started answers.
pub(crate) async fn until_ready(child: &mut Child, home: &Path, client: &Client) -> Result<(), DaemonError> {
    let ready = tokio::time::timeout(READY_WITHIN, ready(child, client, &log_file(home))).await;
    ready.unwrap_or_else(|_| Err(DaemonError::Silent { pid: child.id(), after: READY_WITHIN }))
}

/// Keeps the log from growing for ever: what is long enough is put aside when a node starts, in place of what was put
/// aside before.
fn put_aside(log: &Path) -> io::Result<()> {
    match std::fs::metadata(log) {
        Ok(metadata) if metadata.len() > LOG_BYTES_MAX => std::fs::rename(log, log.with_extension("log.1")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Starts a process for the node of this home.
pub(crate) fn spawn(home: &Path) -> Result<Child, DaemonError> {
    let log = log_file(home);
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    let failed = |source| DaemonError::Log { path: log.clone(), source };
    let written = put_aside(&log).and_then(|()| options.open(&log)).map_err(failed)?;
    let also_written = written.try_clone().map_err(failed)?;
    let program = std::env::current_exe().map_err(DaemonError::Spawn)?;
    Command::new(program)
        .args(["up", "--foreground"])
        .env(MESH_HOME, home)
        .env_remove(MESH_TOKEN)
        .stdin(Stdio::null())
        .stdout(written)
        .stderr(also_written)
        .process_group(0)
        .spawn()
        .map_err(DaemonError::Spawn)
}

async fn ready(child: &mut Child, client: &Client, log: &Path) -> Result<(), DaemonError> {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        if client.status().await.is_ok() {
            return Ok(());
        }
        if let Some(status) = child.try_wait().map_err(DaemonError::Spawn)? {
            let last_words = tail(log, LAST_WORDS).unwrap_or_default();
            return Err(DaemonError::Ended { status, last_words: last_words.trim_end().to_owned() });
        }
    }
}
