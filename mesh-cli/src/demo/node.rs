//! One node of the demo: a home, and the process that runs it.
//!
//! Everything is done the way a person would: by commands of this same program, and through the node's own socket. A
//! node that is dropped is killed; whoever holds several stops them together first.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use mesh_node::api::tokens::Token;
use mesh_node::client::{Client, Endpoint};
use mesh_node::home::Home;
use mesh_protocol::api::node::Status;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::commands::tail;
use crate::daemon;
use crate::environment::{MESH_HOME, MESH_TOKEN};

use super::report::NodeLog;
use super::setback::Setback;

/// Lines of a log that are kept when a step fails.
const LAST_WORDS: usize = 12;
/// Between two looks at a process that is to end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its home.
    pub(crate) home: PathBuf,
    process: Option<Child>,
}

impl Node {
    /// Makes a home in `folder` with this configuration. Nothing runs yet.
    pub(crate) fn prepare(folder: &Path, name: &'static str, config: &str) -> Result<Self, Setback> {
        let home = Home::open(&folder.join(name))?;
        let path = home.config_file();
        std::fs::write(&path, config).map_err(|source| Setback::File { path, source })?;
        Ok(Self { name, home: home.root().to_owned(), process: None })
    }

    /// Runs a command of this program for this home. What it reads may be a secret, so it goes through a pipe.
    pub(crate) async fn command(&self, arguments: &[&str], input: &str) -> Result<(), Setback> {
        let command = arguments.join(" ");
        let failed = |source| Setback::Spawn { command: command.clone(), source };
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(arguments)
            .env(MESH_HOME, &self.home)
            .env_remove(MESH_TOKEN)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        if let Some(mut pipe) = child.stdin.take() {
            // A command that did not read it says why when it ends.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await.map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Setback::Command { command, status: output.status, said })
    }

    /// Starts its process and waits until it answers.
    pub(crate) async fn start(&mut self) -> Result<Status, Setback> {
        let client = self.client()?;
        let process = self.process.insert(daemon::spawn(&self.home)?);
        daemon::until_ready(process, &self.home, &client).await?;
        Ok(client.status().await?)
    }

    /// Speaks to it as its operator; before its first start as nobody.
    pub(crate) fn client(&self) -> Result<Client, Setback> {
        let home = Home::open(&self.home)?;
        let socket = home.socket(|name| std::env::var_os(name))?;
        let file = home.tokens().join("operator");
        let token = file.exists().then(|| Token::read(&file)).transpose()?;
        Ok(Client::new(Endpoint {
            lock: self.home.join("mesh.lock"),
            home: self.home.clone(),
            socket,
            token,
        }))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Kills its process as a power cut would: SIGKILL, nothing is said to anybody.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only for a process that has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Asks its process to stop in its own order; returns at once.
    pub(crate) fn ask_to_stop(&self) {
        if let Some(process) = &self.process {
            let _ = kill_process(Pid::from_child(process), Signal::TERM);
        }
    }

    /// Waits until its process has ended, and kills it at `deadline`. Blocks: this is also how a drop ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "a drop cannot await, and a child cannot be waited for with a deadline"
    )]
    pub(crate) fn stopped_by(&mut self, deadline: Instant) {
        while let Some(process) = &mut self.process {
            match process.try_wait() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                Ok(Some(_)) => self.process = None,
                Ok(None) | Err(_) => self.kill(),
            }
        }
    }

    /// Leaves its process running.
    pub(crate) fn leave(&mut self) {
        self.process = None;
    }

    /// What it said last, and whether it has ended by itself.
    pub(crate) fn last_words(&mut self) -> NodeLog {
        let log = tail(&daemon::log_file(&self.home), LAST_WORDS).unwrap_or_default();
        let ended = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
        NodeLog {
            node: self.name,
            ended: ended.map(|status| status.to_string()),
            lines: log.lines().map(str::to_owned).collect(),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The lines of a file that may not be there yet.
pub(crate) fn lines(path: &Path) -> Result<usize, Setback> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().count()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(Setback::File { path: path.to_owned(), source }),
    }
}
