//! A node, from its home to its last word: the order in which the parts start and stop.
//!
//! ```text
//! home, lock, configuration, database ── count this start ── writer ── endpoint, network ── API
//!                                                              └── sandbox observed, in its own time
//! stop: API ── say that this node stops ── agents, jobs ── writer ── lock
//! ```
//! The sandbox is looked at while everything else runs already: a node answers at once, and offers a sandbox only when
//! it was observed.

mod addresses;
mod lookout;
mod start;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use mesh_node_core::event::Event;
use mesh_node_core::machine::Machine;
use mesh_node_core::membership::Identity;
use mesh_node_core::site::{STILL_LOOKING, Site};
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::peer::BootId;
use mesh_protocol::record::Lifecycle;
use mesh_protocol::revocation::RevocationError;
use mesh_protocol::ticket::TicketKey;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::api::listener::{self, ListenError};
use crate::api::tokens::{Token, TokenError, Tokens};
use crate::api::{self, Hosts, Surface, limits::Limits};
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::doorkeeper::{self, Doorkeeper};
use crate::executor::{Executor, ExecutorOptions};
use crate::founding;
use crate::home::{ConfigError, Home, HomeError};
use crate::identity::{Admission, CertificateError, KeyError, RootError};
use crate::local::Local;
use crate::network::{Network, Parts};
use crate::sight::{self, Sources};
use crate::storage::DatabaseError;
use crate::surroundings::{Jobs, Surroundings};
use crate::timer::{self, Timer};
use crate::transport::{BindError, Endpoint, Settings, Socket};
use crate::writer::{self, WriterCore, WriterError};

use lookout::Lookout;
use start::Start;

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
    let me = start.credentials.key.node();
    // Before anything begins: a port that is taken must not cost the work that waits.
    let socket = addresses::bind(start.config.node.listen)?;
    let local_address = socket.local_addr().map_err(NodeError::System)?;
    let api_socket = listener::bind(&home.socket(|name| std::env::var_os(name))?)?;
    let tokens = Tokens::new(&Token::read_or_create(&home.tokens().join("operator"))?);
    sweep_runs(home);
    let agents = Agents::new(home, &start.config.agents, Arc::clone(&tokens));
    let admission = Arc::new(Admission::default());
    start.revocations.iter().for_each(|list| admission.apply(list));
    start.roster.blocked.iter().for_each(|node| admission.block(*node));

    let (executor, observed) = watch::channel(ExecutorView {
        unavailable: Some(STILL_LOOKING.to_owned()),
        ..ExecutorView::default()
    });
    let delivery = Delivery::new(Arc::clone(&start.database));
    let (changes, changed) = watch::channel(0);
    let jobs = Arc::new(Jobs::default());
    let surroundings = Surroundings {
        delivery: Arc::clone(&delivery),
        agents: Arc::clone(&agents),
        jobs: Arc::clone(&jobs),
        timer: Timer::default(),
        changes,
    };
    let timer = surroundings.timer.clone();
    let view = sight::look(&Sources {
        me,
        name: &name,
        agents: &agents.settings(),
        executor: &executor.borrow(),
        admission: &admission,
        peers: &[],
        records: &[],
    });
    let site = Site {
        me,
        agents: agents.settings(),
        executor: executor.borrow().clone(),
        named_executors: start.config.executor.named.clone(),
        view: Arc::clone(&view),
    };
    let clock: Arc<dyn Clock> = Arc::clone(&start.clock) as Arc<dyn Clock>;
    let core = WriterCore::new(
        Arc::clone(&start.database),
        Machine::new(site).awaiting_executor(),
        Arc::clone(&clock),
        Box::new(rand::make_rng::<rand::rngs::StdRng>()),
        Box::new(surroundings),
    );
    let (writer, mut writing) = writer::start(core).map_err(NodeError::System)?;
    delivery.attach(writer.clone());
    agents.attach(writer.clone());
    // First of all events: what a crash interrupted is ended before anything new begins.
    let _ = writer.post(Event::Started, 0).await;
    let ticking = tokio::spawn(timer.run(writer.clone(), Arc::clone(&clock)));
    let tidying = tokio::spawn(timer::tidy(writer.clone()));

    let addresses = addresses::advertised(&start.config.node.advertise, local_address);
    let mut settings = Settings::new(BootId(rand::random()));
    settings.profile = addresses::profile(&addresses);
    let endpoint = Endpoint::bind(
        Socket::Udp(socket),
        start.credentials.clone(),
        Arc::clone(&admission),
        Arc::clone(&clock),
        settings,
    )?;
    let lookout = Lookout::new(lookout::Parts {
        me,
        name: name.clone(),
        agents: Arc::clone(&agents),
        executor: observed.clone(),
        admission: Arc::clone(&admission),
        database: Arc::clone(&start.database),
        writer: writer.clone(),
        clock: Arc::clone(&clock),
        addresses: addresses.clone(),
        view,
    });
    let root_key = *start.credentials.root.key();
    let identity = Identity { mesh: root_key.mesh(), node: me, epoch: start.epoch };
    let (network, driving) = Network::start(
        Parts {
            endpoint,
            identity,
            key: start.credentials.key.clone(),
            root: root_key,
            admission: Arc::clone(&admission),
            clock: Arc::clone(&clock),
            advertisement: lookout.advertisement(),
            stored: start.roster.records.clone(),
            revocations: start.revocations.clone(),
            delivery,
        },
        Arc::clone(&lookout) as Arc<dyn crate::network::Observer>,
    );
    let looking = tokio::spawn(Arc::clone(&lookout).run(network.clone()));

    let (probes, probed) = watch::channel(Vec::new());
    let preparing = prepare_executor(home, &start, jobs.clone(), executor, probes, writer.clone());
    let ticket_key = TicketKey::new(start.credentials.key.derive_secret(b"mesh-tickets"));
    let door = Doorkeeper::start(doorkeeper::Parts {
        root: start.root.clone(),
        credentials: start.credentials.clone(),
        ticket_key: ticket_key.clone(),
        admission: Arc::clone(&admission),
        clock: Arc::clone(&clock),
        database: Arc::clone(&start.database),
        writer: writer.clone(),
        network: network.clone(),
        member_address: local_address,
        advertised: addresses.clone(),
    });
    let service = Arc::new(Local {
        me,
        name: name.clone(),
        home: home.root().to_owned(),
        database: Arc::clone(&start.database),
        writer: writer.clone(),
        clock: Arc::clone(&start.clock),
        network: network.clone(),
        agents: Arc::clone(&agents),
        view: lookout.view(),
        changes: changed,
        executor: observed,
        jobs: Arc::clone(&jobs),
        probes: probed,
        admission,
        root_key,
        root: start.root.clone(),
        ticket_key,
        door,
        addresses,
        started: Instant::now(),
        stopping: stopping.clone(),
        revoking: tokio::sync::Mutex::default(),
    });
    let surface =
        Surface { tokens, hosts: Hosts::unix(), limits: Limits::default(), stopping: stopping.clone() };
    let serving = tokio::spawn(listener::serve(api_socket, api::router(service, surface), stopping.clone()));
    tracing::info!(node = %me.short(), %name, address = %local_address, "the node is up");
    ready();

    let outcome = tokio::select! {
        () = stopping.cancelled() => Ok(()),
        ended = writing.ended() => ended,
    };
    stopping.cancel();
    preparing.abort();
    // What waits begins after the next start, not in the place of what is ended now.
    let _ = writer.post(Event::Stopping, 0).await;
    network.farewell(Lifecycle::Leaving).await;
    agents.shut_down().await;
    if let Some(executor) = jobs.executor()
        && !executor.shutdown().await
    {
        tracing::warn!("a job did not end in time; the next start closes it");
    }
    [looking, ticking, tidying].iter().for_each(tokio::task::JoinHandle::abort);
    let _ = driving.await;
    let _ = serving.await;
    writer.stop();
    let stopped = if outcome.is_ok() { writing.ended().await } else { outcome };
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

/// Looks at the sandbox; when that is done, jobs can begin.
fn prepare_executor(
    home: &Home,
    start: &Start,
    jobs: Arc<Jobs>,
    executor: watch::Sender<ExecutorView>,
    probes: watch::Sender<Vec<mesh_protocol::api::node::Check>>,
    writer: crate::writer::WriterHandle<Machine>,
) -> tokio::task::JoinHandle<()> {
    let options = ExecutorOptions {
        dir: home.root().to_owned(),
        rootfs: None,
        instance: start.credentials.key.node().short(),
        // gVisor is the one class there is: an operator who does not list it wants no jobs.
        enabled: start.config.executor.enabled
            && start.config.executor.allow_classes.contains(&IsolationClass::GvisorApplicationKernel),
        slots: start.config.executor.slots,
        runsc: start.config.executor.runsc.clone(),
        key: start.credentials.key.clone(),
        certificate: Some(start.credentials.leaf.as_der().to_vec()),
    };
    let report = lookout::report_to(writer.clone());
    tokio::spawn(async move {
        let view = match Executor::prepare(options, report).await {
            Ok((prepared, found)) => {
                jobs.attach(Arc::new(prepared));
                probes.send_replace(found.checks);
                found.view
            }
            Err(error) => {
                tracing::error!(%error, "the sandbox cannot be looked at");
                let unavailable = Some("the sandbox cannot be looked at".to_owned());
                ExecutorView { unavailable, ..ExecutorView::default() }
            }
        };
        executor.send_replace(view.clone());
        // Refused only when the node is stopping.
        let _ = writer.post(Event::Executor(view), 0).await;
    })
}
