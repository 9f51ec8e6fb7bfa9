//! One machine: its disk, its clocks, and the node that runs on it, in one life after another.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anyhow::Context as _;
use mesh_node::agents::{Agent, Agents};
use mesh_node::api::tokens::{Token, Tokens};
use mesh_node::clock::{ClockRow, NodeClock};
use mesh_node::identity::NodeKey;
use mesh_node::local::Local;
use mesh_node::node::{Look, Looked, Node, Parts};
use mesh_node::randomness::Randomness;
use mesh_node::storage::Database;
use mesh_node::surroundings::RunJobs;
use mesh_node::transport::{Settings, Socket};
use mesh_node::writer::Pace;
use mesh_node_core::site::AgentSetting;
use mesh_node_core::site::JobPolicy;
use mesh_protocol::address::Name;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::peer::BootId;
use mesh_protocol::policy::PermissionProfile;
use rand::Rng;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::agent::Scripted;
use super::founding;
use super::ledger::Ledger;
use super::life::{Grip, Life};
use super::network::Network;
use super::sandbox::Sandbox;
use super::time::Clocks;
use crate::disk::Disk;

/// The one agent of every machine.
pub(super) const AGENT: &str = "worker";

/// How often a sleeping machine's writer looks whether it is awake.
const ASLEEP_MS: u64 = 10;

/// What runs while a node does.
pub(super) struct Running {
    pub(super) node: Node,
    pub(super) local: Arc<Local>,
    life: Life,
}

/// A machine with one home.
pub(super) struct Machine {
    pub(super) index: usize,
    pub(super) id: NodeId,
    pub(super) address: SocketAddr,
    pub(super) disk: Disk,
    pub(super) clocks: Clocks,
    /// Milliseconds a commit takes.
    pub(super) commit_ms: Arc<AtomicU64>,
    pub(super) running: Option<Running>,
    /// Whether its node tells nobody where it is, from its next start on.
    pub(super) hidden: bool,
    key: NodeKey,
    seed: [u8; 32],
    lives: u32,
}

/// What machines share.
#[derive(Debug, Clone)]
pub(super) struct Outside {
    pub(super) network: Network,
    pub(super) ledger: Ledger,
}

impl Machine {
    /// A machine whose home is founded and whose node has not run yet.
    pub(super) fn new(index: usize, member: founding::Member, seed: [u8; 32], clocks: Clocks) -> Self {
        let founding::Member { key, disk, address } = member;
        Self {
            index,
            id: key.node(),
            address,
            disk,
            clocks,
            commit_ms: Arc::new(AtomicU64::new(1)),
            running: None,
            hidden: false,
            key,
            seed,
            lives: 0,
        }
    }

    /// The same home on another machine: its disk copied, at another address.
    pub(super) fn clone_to(&self, address: SocketAddr, clocks: Clocks) -> Self {
        Self {
            index: self.index,
            id: self.id,
            address,
            disk: Disk::with(self.disk.image()),
            clocks,
            commit_ms: Arc::clone(&self.commit_ms),
            running: None,
            hidden: self.hidden,
            key: self.key.clone(),
            seed: Sha256::new().chain_update(self.seed).chain_update(b"clone").finalize().into(),
            lives: self.lives,
        }
    }

    /// How often its node was started.
    pub(super) const fn lives(&self) -> u32 {
        self.lives
    }

    /// Starts its node.
    ///
    /// # Errors
    /// When it does not start, as on a disk that died meanwhile.
    pub(super) async fn start(&mut self, outside: &Outside) -> anyhow::Result<()> {
        self.lives += 1;
        let life = Life::default();
        let grip = (self.disk.clone(), life.clone());
        let open = move || Grip::backends(&grip.0, &grip.1);
        let database = Arc::new(Database::open_backends(open).context("the database does not open")?);
        let row = ClockRow::read(&database.snapshot()?)?;
        let clocks = self.clocks.clone();
        let clock = Arc::new(NodeClock::reading(move || clocks.reading(), row.as_ref()));
        let seed = Sha256::new().chain_update(self.seed).chain_update(self.lives.to_be_bytes()).finalize();
        let randomness = Randomness::seeded(seed.into());
        let settings = Settings {
            seed: randomness.seed("quic"),
            ..Settings::new(BootId(randomness.stream("boot").next_u64()))
        };
        let parts = Parts {
            name: name(self.index)?,
            key: self.key.clone(),
            database,
            clock,
            randomness,
            socket: Socket::Packets(outside.network.plug(self.address)),
            addresses: if self.hidden { Vec::new() } else { vec![self.address] },
            settings,
            agents: self.agents(outside, &life)?,
            named_executors: Vec::new(),
            job_policy: JobPolicy::default(),
            look: self.look(outside, &life),
            pace: Some(self.pace()),
        };
        let node = Node::start(parts).await?;
        let local = node.local(Path::new(""), &CancellationToken::new());
        self.running = Some(Running { node, local, life });
        Ok(())
    }

    /// Why its node ended by itself, if it did. To be asked until it did.
    pub(super) fn gave_up(&mut self) -> Option<String> {
        let ended = pin!(self.running.as_mut()?.node.ended());
        match ended.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => Some(format!("{:#}", anyhow::Error::from(ended.err()?))),
            Poll::Pending => None,
        }
    }

    /// Ends its node where it stands.
    pub(super) fn kill(&mut self, outside: &Outside) {
        outside.network.pull(self.address);
        if let Some(Running { node, local, life }) = self.running.take() {
            life.end();
            drop(local);
            node.kill();
        }
    }

    /// Stops its node in order. Nothing of it is left when this returns.
    pub(super) async fn stop(&mut self, outside: &Outside) {
        if let Some(Running { node, local, life }) = self.running.take() {
            drop(local);
            // How its writer ended is of no matter: what it kept is on the disk.
            let _ = node.stop(Ok(())).await;
            life.end();
        }
        outside.network.pull(self.address);
    }

    fn agents(&self, outside: &Outside, life: &Life) -> anyhow::Result<Arc<Agents>> {
        let engine = Scripted {
            machine: self.index,
            number_of_life: self.lives,
            life: life.clone(),
            ledger: outside.ledger.clone(),
        };
        let setting = AgentSetting {
            harness: "scripted".to_owned(),
            profile: PermissionProfile::Review,
            advertised: true,
            slots: 1,
            offline: None,
            description: String::new(),
        };
        let agent = Agent { engine: Box::new(engine), setting };
        let tokens = Tokens::new(&Token::parse(&"a".repeat(52))?);
        let agents = BTreeMap::from([(AGENT.parse::<Name>()?, agent)]);
        Ok(Agents::new(agents, Path::new("").to_owned(), tokens))
    }

    fn look(&self, outside: &Outside, life: &Life) -> Look {
        let (machine, number_of_life) = (self.index, self.lives);
        let (life, ledger) = (life.clone(), outside.ledger.clone());
        Look::new(move |_, writer| async move {
            let running = Arc::new(Mutex::default());
            let sandbox = Sandbox { machine, number_of_life, life, ledger, writer, running };
            let view = ExecutorView {
                classes: vec![IsolationClass::GvisorApplicationKernel],
                languages: vec!["bash".to_owned()],
                slots: 2,
                ..ExecutorView::default()
            };
            let runs: Option<Arc<dyn RunJobs>> = Some(Arc::new(sandbox));
            Looked { runs, view, checks: Vec::new() }
        })
    }

    /// A commit takes its time, and on a sleeping machine until it wakes.
    fn pace(&self) -> Pace {
        let (commit_ms, clocks) = (Arc::clone(&self.commit_ms), self.clocks.clone());
        Pace::new(move || {
            let ms = commit_ms.load(Ordering::Relaxed);
            let asleep = clocks.is_asleep().then_some(ASLEEP_MS);
            Duration::from_millis(asleep.unwrap_or(ms))
        })
    }
}

/// The name of a machine.
pub(super) fn name(index: usize) -> anyhow::Result<Name> {
    Ok(format!("n{index}").parse()?)
}
