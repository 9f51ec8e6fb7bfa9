//! Two nodes as processes of their own: founded, joined and started by the program's own commands.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mesh_node::api::tokens::Token;
use mesh_node::client::{Client, Endpoint};
use mesh_node::home::Home;
use mesh_protocol::api::mesh::InviteRequest;
use mesh_protocol::api::node::Status;
use mesh_protocol::policy::Trust;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

/// The same `main` as the installed program, built with the same profile.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mesh-under-test");

/// How long a node may take to start, see the other, or stop.
const WITHIN: Duration = Duration::from_secs(60);

/// Between two looks at something that is not there yet: what a start time is exact to.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// One node: its home, and its process while it runs.
pub(crate) struct Node {
    dir: PathBuf,
    child: Option<Child>,
    pub(crate) client: Client,
}

/// The node asked, and the node that has the agent and the sandbox.
pub(crate) struct Mesh {
    pub(crate) atlas: Node,
    pub(crate) nova: Node,
}

impl Mesh {
    /// Makes both, starts them, and waits until each sees the other.
    pub(crate) async fn found(root: &Path) -> anyhow::Result<Self> {
        let dir = configure(root, "atlas", "[executor]\nenabled = false\n")?;
        command(&dir, &["init", "--trust", "mine"], "").await?;
        let mut atlas = Node::new(dir)?;
        atlas.start().await?;
        let dir = configure(root, "nova", "[[agent]]\nname = \"echo\"\ncommand = [\"/bin/cat\"]\n")?;
        let invited = atlas.client.invite(&InviteRequest { ttl_seconds: 60, trust: Trust::Mine }).await?;
        command(&dir, &["join", "-", "--trust", "mine"], &invited.ticket).await?;
        let mut nova = Node::new(dir)?;
        nova.start().await?;
        let mesh = Self { atlas, nova };
        mesh.linked().await?;
        Ok(mesh)
    }

    /// Waits until each sees the other alive.
    pub(crate) async fn linked(&self) -> anyhow::Result<()> {
        let alive = |status: &Status| status.peers.iter().any(|peer| peer.state == "alive");
        self.atlas.status_when("atlas sees nova", alive).await?;
        self.nova.status_when("nova sees atlas", alive).await?;
        Ok(())
    }

    /// Stops both.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.nova.stop().await?;
        self.atlas.stop().await
    }
}

impl Node {
    fn new(dir: PathBuf) -> anyhow::Result<Self> {
        let home = Home::open(&dir)?;
        // The node reads the same file, or makes it at its first start.
        let token = Token::read_or_create(&home.tokens().join("operator"))?;
        let socket = home.socket(|name| std::env::var_os(name))?;
        let endpoint =
            Endpoint { home: dir.clone(), lock: dir.join("mesh.lock"), socket, token: Some(token) };
        Ok(Self { dir, child: None, client: Client::new(endpoint) })
    }

    /// Starts the process; how long it took until the socket answered.
    pub(crate) async fn start(&mut self) -> anyhow::Result<Duration> {
        let log = File::options().append(true).create(true).open(self.dir.join("node.log"))?;
        let mut command = Command::new(PROGRAM);
        command.args(["up", "--foreground"]).env("MESH_HOME", &self.dir).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let started = Instant::now();
        self.child = Some(command.spawn()?);
        let answering = async {
            while self.client.status().await.is_err() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            started.elapsed()
        };
        tokio::time::timeout(WITHIN, answering).await.context("the node answers in time")
    }

    /// Stops the process as a service manager does; the home stays.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill_process(pid(&child)?, Signal::TERM)?;
        let status = tokio::time::timeout(WITHIN, child.wait()).await.context("the node stops in time")??;
        ensure!(status.success(), "the node ended with {status}");
        Ok(())
    }

    /// The process's directory below `/proc`.
    pub(crate) fn proc(&self) -> anyhow::Result<PathBuf> {
        let child = self.child.as_ref().context("the node runs")?;
        Ok(Path::new("/proc").join(pid(child)?.as_raw_nonzero().to_string()))
    }

    /// The status, once it is as it should be.
    pub(crate) async fn status_when(
        &self,
        what: &str,
        holds: impl Fn(&Status) -> bool,
    ) -> anyhow::Result<Status> {
        let look = async {
            loop {
                let status = self.client.status().await?;
                if holds(&status) {
                    return anyhow::Ok(status);
                }
                tokio::time::sleep(LOOK_EVERY * 20).await;
            }
        };
        tokio::time::timeout(WITHIN, look).await.with_context(|| what.to_owned())?
    }
}

fn pid(child: &Child) -> anyhow::Result<Pid> {
    let id = i32::try_from(child.id().context("the process runs")?)?;
    Pid::from_raw(id).context("a process id")
}

/// A home with a configuration and nothing else.
fn configure(root: &Path, name: &str, extra: &str) -> anyhow::Result<PathBuf> {
    let dir = root.join(name);
    let home = Home::open(&dir)?;
    let config = format!("[node]\nname = \"{name}\"\nlisten = \"127.0.0.1:0\"\n\n{extra}");
    std::fs::write(home.config_file(), config)?;
    Ok(dir)
}

/// Runs one command of the program to its end.
async fn command(dir: &Path, arguments: &[&str], stdin: &str) -> anyhow::Result<()> {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("MESH_HOME", dir).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("a pipe")?;
    input.write_all(stdin.as_bytes()).await?;
    drop(input);
    let output = child.wait_with_output().await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {}: {said}", output.status);
    Ok(())
}
