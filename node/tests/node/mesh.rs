//! Nodes that a test founds, joins, runs, kills and asks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_node::api::tokens::Token;
use mesh_node::client::{Client, Endpoint};
use mesh_node::founding::{self, Choice};
use mesh_node::home::Home;
use mesh_node::node;
use mesh_protocol::api::mesh::InviteRequest;
use mesh_protocol::api::node::Status;
use mesh_protocol::policy::Trust;
use tokio_util::sync::CancellationToken;

/// How long anything a test waits for may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);

/// Longest a sandbox is looked at on a busy machine.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(120);

/// An agent that says its task back.
pub(crate) const ECHO: &str = "[[agent]]\nname = \"echo\"\ncommand = [\"/bin/cat\"]\n";

/// One node and its home.
pub(crate) struct Node {
    dir: PathBuf,
    stopping: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
    pub(crate) client: Client,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

fn home(dir: &Path, name: &str, extra: &str) -> Home {
    let home = Home::open(dir).unwrap();
    let jobs = if extra.contains("[executor]") { "" } else { "[executor]\nenabled = false\n" };
    let config = format!("[node]\nname = \"{name}\"\nlisten = \"127.0.0.1:0\"\n\n{jobs}\n{extra}");
    std::fs::write(home.config_file(), config).unwrap();
    home
}

fn choice(trust: Trust) -> Choice {
    Choice { name: None, trust }
}

impl Node {
    /// A new mesh of one node, running.
    pub(crate) async fn found(root: &Path, name: &str, extra: &str, trust: Trust) -> Self {
        let dir = root.join(name);
        let home = home(&dir, name, extra);
        founding::init(&home, &choice(trust)).unwrap();
        Self::start(dir).await
    }

    /// Another node of this node's mesh, running.
    pub(crate) async fn join(&self, root: &Path, name: &str, extra: &str, trust: Trust) -> Self {
        let invited = self.client.invite(&InviteRequest { ttl_seconds: 60, trust }).await.unwrap();
        let dir = root.join(name);
        let home = home(&dir, name, extra);
        founding::join(&home, &choice(trust), &invited.ticket.parse().unwrap()).await.unwrap();
        Self::start(dir).await
    }

    pub(crate) async fn start(dir: PathBuf) -> Self {
        let home = Home::open(&dir).unwrap();
        let socket = home.socket(|_| None).unwrap();
        let stopping = CancellationToken::new();
        let (ready, up) = tokio::sync::oneshot::channel();
        let stop = stopping.clone();
        let task = tokio::spawn(async move {
            node::run(&home, stop, move || ready.send(()).unwrap()).await.unwrap();
        });
        tokio::time::timeout(WITHIN, up).await.expect("the node starts in time").expect("the node starts");
        let token = Token::read(&dir.join("tokens/operator")).unwrap();
        let endpoint =
            Endpoint { home: dir.clone(), lock: dir.join("mesh.lock"), socket, token: Some(token) };
        Self { dir, stopping, task: Some(task), client: Client::new(endpoint) }
    }

    /// One more client for its operator, with connections of its own.
    pub(crate) fn another_client(&self) -> Client {
        self.client_by(self.socket())
    }

    /// A client of this node for whoever holds the token in this file, once the file is there.
    pub(crate) async fn client_with(&self, token: &Path) -> Client {
        let deadline = tokio::time::Instant::now() + WITHIN;
        while !token.exists() {
            assert!(tokio::time::Instant::now() < deadline, "{} should be there", token.display());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (home, lock, socket) = (self.dir.clone(), self.dir.join("mesh.lock"), self.socket());
        Client::new(Endpoint { home, lock, socket, token: Some(Token::read(token).unwrap()) })
    }

    /// Stops the node; its home stays.
    pub(crate) async fn stop(mut self) -> PathBuf {
        self.stopping.cancel();
        let task = self.task.take().unwrap();
        tokio::time::timeout(WITHIN, task).await.expect("the node stops in time").unwrap();
        self.dir.clone()
    }

    /// The status, once it is as it should be.
    pub(crate) async fn status_when(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let deadline = tokio::time::Instant::now() + WITHIN;
        loop {
            let status = self.client.status().await.unwrap();
            if holds(&status) {
                return status;
            }
            assert!(tokio::time::Instant::now() < deadline, "{what}: {status:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until this node knows what it can run. Without a sandbox on this machine says why the test is skipped.
    pub(crate) async fn runs_jobs(&self) -> bool {
        let deadline = tokio::time::Instant::now() + LOOKED_AT_WITHIN;
        loop {
            let executor = self.client.status().await.unwrap().executor;
            if !executor.classes.is_empty() {
                return true;
            }
            if let Some(why) = executor.unavailable.filter(|why| why.contains("not installed")) {
                assert!(std::env::var_os("MESH_REQUIRE_SANDBOX").is_none(), "{why}");
                eprintln!("SKIPPED: {why}");
                return false;
            }
            assert!(tokio::time::Instant::now() < deadline, "a sandbox is offered");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Where this node's socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        Home::open(&self.dir).unwrap().socket(|_| None).unwrap()
    }

    /// A client of this node that goes another way to its socket.
    pub(crate) fn client_by(&self, socket: PathBuf) -> Client {
        let token = Token::read(&self.dir.join("tokens/operator")).unwrap();
        let (home, lock) = (self.dir.clone(), self.dir.join("mesh.lock"));
        Client::new(Endpoint { home, lock, socket, token: Some(token) })
    }

    /// Waits until this node sees the peer in a state.
    pub(crate) async fn sees(&self, peer: &str, state: &str) {
        let is = |status: &Status| status.peers.iter().any(|p| p.name == peer && p.state == state);
        self.status_when(&format!("{peer} should be {state}"), is).await;
    }
}
