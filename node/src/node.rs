//! A node, from its home to its last word: the order in which the parts start and stop.
//!
//! ```text
//! home, lock, configuration, database ── count this start ── Durable ── Reach ── Surface
//!                                                              └── sandbox observed, in its own time
//! stop: Surface ── say that this node stops ── agents, jobs ── writer ── lock
//! ```
//! Three parts, each in a file of its own that knows how it starts and how it stops: `durable` decides and keeps,
//! `reach` knows and reaches the others, `surface` answers local programs. Ports are bound before any of them, so
//! that one that is taken costs no work. The sandbox is looked at while everything else runs already: a node answers at
//! once, and offers a sandbox only when it was observed.

mod addresses;
mod durable;
mod lookout;
mod reach;
mod start;
mod surface;

use std::net::SocketAddr;
use std::path::PathBuf;

use mesh_protocol::id::NodeId;
use mesh_protocol::revocation::RevocationError;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::api::listener::{self, ListenError};
use crate::api::tokens::{Token, TokenError, Tokens};
use crate::founding;
use crate::home::{ConfigError, Home, HomeError};
use crate::identity::{CertificateError, KeyError, RootError};
use crate::storage::DatabaseError;
use crate::transport::BindError;
use crate::writer::WriterError;

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
    /// The API's socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The member port cannot be opened.
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

/// Runs a node until `stopping` is cancelled, the API asks for it, or its storage fails. `ready` is called once local
/// programs can talk to it.
///
/// # Errors
/// [`NodeError`].
pub async fn run(home: &Home, stopping: CancellationToken, ready: impl FnOnce()) -> Result<(), NodeError> {
    let lock = home.lock()?;
    let start = Start::read(home, home.open_database(&lock)?)?;
    let name = founding::name_of(&start.config);
    let socket = addresses::bind(start.config.node.listen)?;
    let local_address = socket.local_addr().map_err(NodeError::System)?;
    let api_socket = listener::bind(&home.socket(|name| std::env::var_os(name))?)?;
    let tokens = Tokens::new(&Token::read_or_create(&home.tokens().join("operator"))?);

    let mut durable = Durable::start(home, &start, &name, &tokens).await?;
    let reach = Reach::start(&start, &name, &durable, socket)?;
    // Before anybody can ask: a name that was known before the restart is never unknown after it.
    reach.lookout.look(&reach.network).await;
    let surface = Surface::open(home, &start, name, (&durable, &reach), &stopping);
    let serving = surface.serve(api_socket, tokens, stopping.clone());
    tracing::info!(node = %start.credentials.key.node().short(), address = %local_address, "the node is up");
    ready();

    let outcome = tokio::select! {
        () = stopping.cancelled() => Ok(()),
        ended = durable.ended() => ended,
    };
    stopping.cancel();
    durable.begin_nothing_more().await;
    reach.farewell().await;
    durable.end_work().await;
    reach.stop().await;
    // A connection that broke while it was served is no matter any more.
    let _ = serving.await;
    let stopped = durable.stop(outcome).await;
    start.released().await;
    tracing::info!("the node is down");
    Ok(stopped?)
}
