//! What a node is made of. Production makes it of a home ([`Parts::of_home`]); a simulation of a socket, a disk, a clock
//! and agents of its own, so that what it runs is the shipped node and not a likeness.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use mesh_node_core::machine::Machine;
use mesh_node_core::roster::Place;
use mesh_node_core::site::{JobPolicy, STILL_LOOKING};
use mesh_node_core::store::get;
use mesh_protocol::address::Name;
use mesh_protocol::api::node::{Check, ExecutorView};
use mesh_protocol::peer::BootId;
use rand::Rng;

use super::doors::Doors;
use super::{NodeError, addresses, lookout};
use crate::agents::Agents;
use crate::clock::{ClockRow, NodeClock};
use crate::executor::{Executor, ExecutorOptions, SWITCHED_OFF};
use crate::founding;
use crate::home::{ExecutorSection, Home, HomeLock};
use crate::identity::{Credentials, NodeKey};
use crate::randomness::Randomness;
use crate::storage::Database;
use crate::surroundings::RunJobs;
use crate::transport::{Settings, Socket};
use crate::writer::{Pace, WriterHandle};

/// What a node is made of.
#[derive(Debug)]
pub struct Parts {
    /// Its label.
    pub name: Name,
    /// Its key.
    pub key: NodeKey,
    /// Its durable state, with its place in a mesh.
    pub database: Arc<Database>,
    /// Its time.
    pub clock: Arc<NodeClock>,
    /// Its chance.
    pub randomness: Randomness,
    /// Carries its packets.
    pub socket: Socket,
    /// Where members reach that socket, as they are told.
    pub addresses: Vec<SocketAddr>,
    /// How its connections behave.
    pub settings: Settings,
    /// Its agents.
    pub agents: Arc<Agents>,
    /// Executors its operator named, in order of preference.
    pub named_executors: Vec<String>,
    /// What jobs may take here.
    pub job_policy: JobPolicy,
    /// Finds out what runs its jobs.
    pub look: Look,
    /// How long the disk takes for a batch, in virtual time. Without it the writer has a thread of its own.
    pub pace: Option<Pace>,
}

/// Finds out what runs jobs here, and gives it the way to report. May take its time.
pub struct Look {
    /// What is said until it is known.
    before: String,
    begin: Box<dyn FnOnce(Credentials, WriterHandle<Machine>) -> Looking + Send>,
}

type Looking = Pin<Box<dyn Future<Output = Looked> + Send>>;

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look").field("before", &self.before).finish_non_exhaustive()
    }
}

/// What was found.
#[expect(missing_debug_implementations, reason = "what runs jobs shows nothing of itself")]
pub struct Looked {
    /// Runs jobs, or only closes them; absent when not even that could be set up.
    pub runs: Option<Arc<dyn RunJobs>>,
    /// What is offered.
    pub view: ExecutorView,
    /// How it was found out.
    pub checks: Vec<Check>,
}

impl Look {
    /// Looks like this.
    pub fn new<F: Future<Output = Looked> + Send + 'static>(
        look: impl FnOnce(Credentials, WriterHandle<Machine>) -> F + Send + 'static,
    ) -> Self {
        Self {
            before: STILL_LOOKING.to_owned(),
            begin: Box::new(move |who, writer| Box::pin(look(who, writer))),
        }
    }

    /// What is offered until it is known: nothing, and why.
    pub(super) fn before(&self) -> ExecutorView {
        ExecutorView { unavailable: Some(self.before.clone()), ..ExecutorView::default() }
    }

    pub(super) fn begin(self, who: Credentials, writer: WriterHandle<Machine>) -> Looking {
        (self.begin)(who, writer)
    }

    /// Looks at this machine's gVisor.
    fn at_sandbox(dir: PathBuf, section: ExecutorSection) -> Self {
        let off = (!section.enabled).then(|| SWITCHED_OFF.to_owned());
        let look = Self::new(move |who, writer| async move {
            let prepared = Executor::prepare(options(dir, &section, who), lookout::report_to(writer)).await;
            match prepared {
                Ok((executor, found)) => {
                    Looked { runs: Some(Arc::new(executor)), view: found.view, checks: found.checks }
                }
                Err(error) => {
                    tracing::error!(%error, "the sandbox cannot be looked at");
                    let unavailable = Some("the sandbox cannot be looked at".to_owned());
                    let view = ExecutorView { unavailable, ..ExecutorView::default() };
                    Looked { runs: None, view, checks: Vec::new() }
                }
            }
        });
        Self { before: off.unwrap_or(look.before), ..look }
    }
}

impl Parts {
    /// What a home and its configuration say, and the credentials of who may talk to it.
    ///
    /// # Errors
    /// [`NodeError`] when a part cannot be had.
    pub(super) fn of_home(home: &Home, lock: &HomeLock) -> Result<(Self, Doors), NodeError> {
        let database = Arc::new(home.open_database(lock)?);
        let config = home.config()?;
        let snapshot = database.snapshot()?;
        let row = ClockRow::read(&snapshot)?;
        let clock = Arc::new(NodeClock::start(row.as_ref()).map_err(NodeError::System)?);
        if !home.key_file().exists() || get::<Place>(&snapshot, &())?.is_none() {
            return Err(NodeError::NotAMember { home: home.root().to_owned() });
        }
        drop(snapshot);
        let key = NodeKey::load(&home.key_file())?;
        let socket = addresses::bind(config.node.listen)?;
        let local = socket.local_addr().map_err(NodeError::System)?;
        let addresses = addresses::advertised(&config.node.advertise, local);
        let doors = Doors::of(home, &config.http)?;
        let randomness = Randomness::SYSTEM;
        let mut settings = Settings::new(BootId(randomness.stream("boot").next_u64()));
        settings.profile = addresses::profile(&addresses);
        let parts = Self {
            name: founding::name_of(&config),
            database,
            clock,
            randomness,
            socket: Socket::Udp(socket),
            addresses,
            settings,
            agents: Agents::configured(home, &config.agents, Arc::clone(&doors.tokens)),
            named_executors: config.executor.named.clone(),
            job_policy: config.executor.policy(),
            look: Look::at_sandbox(home.root().to_owned(), config.executor),
            pace: None,
            key,
        };
        Ok((parts, doors))
    }
}

fn options(dir: PathBuf, section: &ExecutorSection, who: Credentials) -> ExecutorOptions {
    ExecutorOptions {
        dir,
        rootfs: None,
        instance: who.key.node().short(),
        enabled: section.enabled,
        shared_kernel: section.allows_shared_kernel(),
        packs: section.packs.clone(),
        slots: section.slots,
        ready: section.ready,
        runsc: section.runsc.clone(),
        certificate: Some(who.leaf.as_der().to_vec()),
        key: who.key,
    }
}
