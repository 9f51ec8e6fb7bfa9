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
use mesh_node::node;
use mesh_protocol::api::node::Status;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::commands::tail;
use crate::environment::MESH_HOME;
use crate::exit::Exit;
use crate::failure::Failure;

/// How long a node may take until its socket answers: it opens its database and probes the sandbox first.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
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
            Self::Spawn(_) | Self::Log { .. } => Vec::new(),
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

/// Runs the node of this home in this process until it is stopped: by `down`, SIGTERM or Ctrl-C.
pub(crate) async fn foreground(home: &Path) -> Result<Exit, Failure> {
    let home = Home::open(home)?;
    let stopping = CancellationToken::new();
    let stop = stopping.clone();
    tokio::spawn(async move {
        told_to_stop().await;
        stop.cancel();
    });
    node::run(&home, stopping, || {}).await?;
    Ok(Exit::Done)
}

async fn told_to_stop() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut stream) => drop(stream.recv().await),
            // Without a handler the signal's default ends the process, which the next start mends.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        Ok(()) = tokio::signal::ctrl_c() => {}
    }
}

/// Starts a process for the node of this home and waits until it answers.
pub(crate) async fn start(home: &Path, client: &Client) -> Result<Status, DaemonError> {
    let log = log_file(home);
    let mut child = spawn(home, &log)?;
    let ready = tokio::time::timeout(READY_WITHIN, ready(&mut child, client, &log)).await;
    ready.unwrap_or_else(|_| Err(DaemonError::Silent { pid: child.id(), after: READY_WITHIN }))
}

fn spawn(home: &Path, log: &Path) -> Result<Child, DaemonError> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    let failed = |source| DaemonError::Log { path: log.to_owned(), source };
    let written = options.open(log).map_err(failed)?;
    let also_written = written.try_clone().map_err(failed)?;
    let program = std::env::current_exe().map_err(DaemonError::Spawn)?;
    Command::new(program)
        .args(["up", "--foreground"])
        .env(MESH_HOME, home)
        .stdin(Stdio::null())
        .stdout(written)
        .stderr(also_written)
        .process_group(0)
        .spawn()
        .map_err(DaemonError::Spawn)
}

async fn ready(child: &mut Child, client: &Client, log: &Path) -> Result<Status, DaemonError> {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        if let Ok(status) = client.status().await {
            return Ok(status);
        }
        if let Some(status) = child.try_wait().map_err(DaemonError::Spawn)? {
            let last_words = tail(log, LAST_WORDS).unwrap_or_default();
            return Err(DaemonError::Ended { status, last_words: last_words.trim_end().to_owned() });
        }
    }
}
