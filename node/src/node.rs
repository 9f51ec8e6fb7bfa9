//! A node, from its home to its last word: the order in which the parts start and stop.
//!
//! ```text
//! home, lock, configuration, database ── count this start ── Durable ── Reach ── Surface
//!                                                              └── sandbox observed, in its own time
//! stop: socket ── say that this node stops ── agents, jobs ── port of the job API ── writer ── lock
//! ```
//! Three parts, each in a file of its own that knows how it starts and how it stops: `durable` decides and keeps,
//! `reach` knows and reaches the others, `surface` answers local programs. Ports are bound before any of them, so
//! that one that is taken costs no work. The sandbox is looked at while everything else runs already: a node answers at
//! once, and offers a sandbox only when it was observed.

mod addresses;
mod doors;
mod durable;
mod lookout;
mod parts;
mod reach;
mod start;
mod surface;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_node_core::machine::Machine;
use mesh_node_core::site::JobPolicy;
use mesh_protocol::address::Name;
use mesh_protocol::id::NodeId;
use mesh_protocol::revocation::RevocationError;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::api::listener::{self, ListenError};
use crate::api::tokens::TokenError;
use crate::api::v1::keys::KeysError;
use crate::clock::NodeClock;
use crate::home::{ConfigError, Home, HomeError};
use crate::identity::{CertificateError, KeyError, RootError};
use crate::local::Local;
use crate::network::Network;
use crate::storage::DatabaseError;
use crate::transport::BindError;
use crate::writer::{WriterError, WriterHandle};

pub use parts::{Look, Looked, Parts};

use durable::Durable;
use reach::Reach;
use start::Start;
use surface::Surface;

/// Why a node does not run, or stopped by itself.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The home has no identity yet.
    #[error("{} is not a member of any mesh", home.display())]
    NotAMember {
        /// The home.
        home: PathBuf,
    },
    /// The database says nothing of a mesh.
    #[error("the database has no place in any mesh")]
    NoPlace,
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The database cannot be used.
    #[error("cannot use the database")]
    Database(#[from] DatabaseError),
    /// Stored state cannot be read.
    #[error("cannot read stored state")]
    Store(#[from] mesh_node_core::store::StoreError),
    /// The key cannot be used.
    #[error("cannot use the node's key")]
    Key(#[from] KeyError),
    /// The key is not the one the certificate is for.
    #[error("node.key belongs to node {}, the certificate to node {}", key.short(), certificate.short())]
    OtherKey {
        /// Whose key it is.
        key: NodeId,
        /// Whose certificate it is.
        certificate: NodeId,
    },
    /// A stored certificate cannot be read.
    #[error("cannot read a stored certificate")]
    Certificate(#[from] CertificateError),
    /// The root cannot be made again from its seed.
    #[error("cannot use the mesh's root")]
    Root(#[from] RootError),
    /// The stored revocation list is not the mesh's.
    #[error("the stored revocation list is not valid")]
    Revocations(#[from] RevocationError),
    /// The operator's token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The tenants' keys cannot be used.
    #[error("cannot use the keys of the job API")]
    Keys(#[from] KeysError),
    /// The API's socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The member port, or that of the job API, cannot be opened.
    #[error("cannot listen on {address}")]
    Socket {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The endpoint cannot be made.
    #[error("cannot open the member port")]
    Bind(#[from] BindError),
    /// A part of the operating system's is not there.
    #[error("the system does not give what a node needs")]
    System(#[source] std::io::Error),
    /// The writer ended by itself.
    #[error("the node stopped because of its storage")]
    Writer(#[from] WriterError),
}

/// A running node, without its surface.
#[expect(missing_debug_implementations, reason = "it is all secrets and handles")]
pub struct Node {
    start: Start,
    name: Name,
    clock: Arc<NodeClock>,
    job_policy: JobPolicy,
    durable: Durable,
    reach: Reach,
}

impl Node {
    /// Starts a node of these parts.
    ///
    /// # Errors
    /// [`NodeError`].
    pub async fn start(parts: Parts) -> Result<Self, NodeError> {
        let Parts { name, key, database, clock, randomness, socket, addresses, settings, .. } = parts;
        let start = Start::read(key, database)?;
        let given = durable::Given {
            name: name.clone(),
            clock: Arc::clone(&clock),
            randomness,
            agents: parts.agents,
            named_executors: parts.named_executors,
            job_policy: parts.job_policy,
            look: parts.look,
            pace: parts.pace,
        };
        let durable = Durable::start(&start, given).await?;
        let given = reach::Given { name: name.clone(), socket, addresses, settings, randomness };
        let reach = Reach::start(&start, &durable, given)?;
        // Before anybody can ask: a name that was known before the restart is never unknown after it.
        reach.lookout.look(&reach.network).await;
        Ok(Self { start, name, clock, job_policy: parts.job_policy, durable, reach })
    }

    /// What answers programs of this node's machine. `home` is where it says that its files are.
    #[must_use]
    pub fn local(&self, home: &Path, stopping: &CancellationToken) -> Arc<Local> {
        Surface::open(home, self, stopping).0
    }

    /// How this node sees the others.
    #[must_use]
    pub const fn network(&self) -> &Network {
        &self.reach.network
    }

    /// What carries its durable changes.
    #[must_use]
    pub const fn writer(&self) -> &WriterHandle<Machine> {
        &self.durable.writer
    }

    /// Waits until its storage fails for good.
    ///
    /// # Errors
    /// [`WriterError`], which is why.
    pub async fn ended(&mut self) -> Result<(), WriterError> {
        self.durable.ended().await
    }

    /// Stops it in order: what runs is ended and taken in, the others are told, what is queued is kept. `outcome` is
    /// what ended it.
    ///
    /// # Errors
    /// `outcome`, or how the writer ended.
    pub async fn stop(self, outcome: Result<(), WriterError>) -> Result<(), WriterError> {
        self.end_work().await;
        self.close(outcome).await
    }

    /// Has nothing more begin, tells the others, and takes in how what runs was ended.
    async fn end_work(&self) {
        self.durable.begin_nothing_more().await;
        self.reach.farewell().await;
        self.durable.end_work().await;
    }

    async fn close(self, outcome: Result<(), WriterError>) -> Result<(), WriterError> {
        let Self { start, durable, reach, .. } = self;
        reach.stop().await;
        let stopped = durable.stop(outcome).await;
        start.released().await;
        stopped
    }

    /// Ends it where it stands, as a crash does. What its tasks still do, they do to a socket and a disk that whoever
    /// gave them has made deaf; they end by themselves, since all they could wait for is gone.
    pub fn kill(self) {
        self.durable.kill();
        self.reach.kill();
    }
}

/// Runs a node until `stopping` is cancelled, the API asks for it, or its storage fails. `ready` is called once local
/// programs can talk to it.
///
/// # Errors
/// [`NodeError`].
pub async fn run(home: &Home, stopping: CancellationToken, ready: impl FnOnce()) -> Result<(), NodeError> {
    let lock = home.lock()?;
    let (parts, doors) = Parts::of_home(home, &lock)?;
    let api_socket = listener::bind(&home.socket(|name| std::env::var_os(name))?)?;
    sweep_runs(home);

    let mut node = Node::start(parts).await?;
    let surface = Surface::open(home.root(), &node, &stopping);
    let closing = CancellationToken::new();
    let serving = doors.open(surface.0, api_socket, (&stopping, &closing))?;
    let (id, address) = (node.start.credentials.key.node(), node.reach.local_address);
    tracing::info!(node = %id.short(), %address, "the node is up");
    ready();

    let outcome = tokio::select! {
        () = stopping.cancelled() => Ok(()),
        ended = node.ended() => ended,
    };
    stopping.cancel();
    node.end_work().await;
    closing.cancel();
    let (stopped, _served) = tokio::join!(node.close(outcome), serving);
    tracing::info!("the node is down");
    Ok(stopped?)
}

/// Ends what agents of an earlier process left running.
fn sweep_runs(home: &Home) {
    match mesh_harness::sweep(&home.run()) {
        Ok(report) if report.runs.is_empty() => {}
        Ok(report) => tracing::warn!(runs = report.runs.len(), "runs of an earlier process were ended"),
        Err(error) => tracing::error!(%error, "runs of an earlier process cannot be looked for"),
    }
}
