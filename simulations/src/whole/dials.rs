//! Two members that dial each other in the same moment, by the thousand: the shipped network sides over real QUIC, and
//! nothing above them, so that a seed takes milliseconds.
//!
//! Each knows the other's record when it starts. The seed draws how much later the second starts, how long the way is,
//! and how many packets are lost, up to one in five. Whatever comes of it, both must end with one and the same
//! connection, for at most two dials and one more for each that failed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use ed25519_dalek::SigningKey;
use mesh_node::clock::{Clock, NodeClock};
use mesh_node::delivery::Delivery;
use mesh_node::identity::{Admission, Credentials, Leaf, MeshRoot, NodeKey};
use mesh_node::network::{self, Observer, Parts};
use mesh_node::randomness::Randomness;
use mesh_node::storage::Database;
use mesh_node::transport::{Endpoint, Paths, Settings, Socket};
use mesh_node_core::membership::Identity;
use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;
use mesh_protocol::policy::{Grant, Trust};
use mesh_protocol::record::{Lifecycle, NodeRecord, RecordVersion, SignedRecord};
use mesh_protocol::revocation::RevocationList;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::time::{Duration, Instant, sleep};

use super::founding::address;
use super::life::JOURNAL_BYTES;
use super::network::{Network, Weather};
use super::time::{Clocks, START_WALL_MS};
use crate::disk::Disk;
use crate::members::advertisement;

/// Packets lost in the worst of weathers, of a thousand.
const LOSE_MAX: u32 = 200;
/// The second starts this much later at most: so long as a handshake takes on a long way. Later, one dial is there before
/// the other begins.
const APART_MS_MAX: u64 = 60;
/// Within this they are linked, or never: some dials may fail, each after five seconds.
const MEET_MS: u64 = 60_000;
/// A loser is retired once its streams ended, after five seconds at the latest.
const SETTLE_MS: u64 = 8_000;
/// Between two looks.
const LOOK_MS: u64 = 5;
/// Dials two nodes need at most while none fails.
const DIALS_MAX: u64 = 2;

/// What one seed came to.
#[derive(Debug, Clone)]
pub struct Meeting {
    /// The seed.
    pub seed: u64,
    /// Packets lost, of a thousand.
    pub lose: u32,
    /// Dials of both.
    pub dials: u64,
    /// Those that nothing answered.
    pub failed: u64,
    /// Whether both had more than one connection for a while.
    pub had_a_loser: bool,
    /// What was broken.
    pub broken: Vec<String>,
}

/// What many came to.
#[derive(Debug, Clone)]
pub struct Meetings {
    /// Each.
    pub all: Vec<Meeting>,
    /// Wall time.
    pub took: Duration,
}

/// Lets so many pairs meet, on all cores.
///
/// # Errors
/// When a world itself fails, which is no verdict on the nodes.
pub fn meet(from: u64, seeds: u64) -> anyhow::Result<Meetings> {
    let began = std::time::Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = |offset: usize| {
        let database = nothing()?;
        (from..from.saturating_add(seeds))
            .skip(offset)
            .step_by(threads)
            .map(|seed| pair(seed, &database))
            .collect()
    };
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|offset| scope.spawn(move || part(offset))).collect();
        let parts = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow::anyhow!("a seed panicked"))?)
            .collect::<anyhow::Result<Vec<Vec<Meeting>>>>()?;
        anyhow::Ok(parts.into_iter().flatten().collect::<Vec<Meeting>>())
    })?;
    all.sort_by_key(|meeting| meeting.seed);
    Ok(Meetings { all, took: began.elapsed() })
}

/// Nobody writes: one empty database does for all.
fn nothing() -> anyhow::Result<Arc<Database>> {
    let disk = Disk::new();
    let database = Database::open_backends(move || disk.backends(JOURNAL_BYTES));
    Ok(Arc::new(database.context("an empty database opens")?))
}

fn pair(seed: u64, database: &Arc<Database>) -> anyhow::Result<Meeting> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let meeting = runtime.block_on(play(seed, database));
    runtime.shutdown_background();
    meeting
}

async fn play(seed: u64, database: &Arc<Database>) -> anyhow::Result<Meeting> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (lose, apart) = (rng.random_range(0..=LOSE_MAX), rng.random_range(0..APART_MS_MAX));
    let fair = Weather { lose: 0, repeat: 0, reorder: 0, latency_min_ms: 2, latency_max_ms: 20 };
    let air = Network::new(rng.random(), Weather { lose, ..fair });
    let root = MeshRoot::from_seed(&rng.random(), START_WALL_MS)?;
    let members = [Member::new(&root, 0, &mut rng)?, Member::new(&root, 1, &mut rng)?];
    let [first, second] = &members;
    let records = [first.record(&root)?, second.record(&root)?];
    let [of_first, of_second] = records;
    let started = Instant::now();
    let one = first.start(&root, &air, database, started, of_second)?;
    sleep(Duration::from_millis(apart)).await;
    let other = second.start(&root, &air, database, started, of_first)?;
    let ends = [(&one, second.id), (&other, first.id)];

    let linked = || ends.iter().all(|(network, peer)| network.current(*peer).is_some());
    let mut had_a_loser = false;
    let until = Instant::now() + Duration::from_millis(MEET_MS);
    while !linked() && Instant::now() < until {
        sleep(Duration::from_millis(LOOK_MS)).await;
        had_a_loser |= ends.iter().any(|(network, _)| network.connections() > 1);
    }
    air.heal(fair);
    let until = Instant::now() + Duration::from_millis(SETTLE_MS);
    while Instant::now() < until {
        sleep(Duration::from_millis(LOOK_MS)).await;
        had_a_loser |= ends.iter().any(|(network, _)| network.connections() > 1);
    }

    let mut broken = Vec::new();
    for (network, peer) in ends {
        let open = network.connections();
        if open != 1 {
            broken.push(format!("{open} connections to {} are left", peer.short()));
        }
        let view = network.view();
        let error = view.peers.iter().find(|seen| seen.node == peer).and_then(|seen| seen.last_error.clone());
        if let Some(error) = error.filter(|_| lose == 0) {
            broken.push(format!("no packet was lost, and something was broken off: {}", error.text));
        }
    }
    let [used, also] = ends.map(|(network, peer)| network.current(peer));
    if used.is_none() || used != also {
        broken.push(format!("one end uses {used:?}, the other {also:?}"));
    }
    let dials = one.dials().saturating_add(other.dials());
    let unanswered = |(network, peer): &(&network::Network, NodeId)| {
        let tried = network.tried(*peer).into_iter().filter(|tried| tried.outcome != "linked");
        tried.map(|tried| tried.times).sum::<u64>()
    };
    let failed = ends.iter().map(unanswered).sum();
    if dials > DIALS_MAX.saturating_add(failed) {
        broken.push(format!("{dials} dials, of which {failed} failed"));
    }
    Ok(Meeting { seed, lose, dials, failed, had_a_loser, broken })
}

/// Somebody who grants nothing and listens to nobody.
struct Deaf;

impl Observer for Deaf {
    fn view_changed(&self) {}
    fn records(&self, _: Vec<(NodeId, SignedRecord)>, _: Vec<NodeId>) {}
    fn raise_epoch(&self, _: u64) {}
    fn revoked(&self, _: RevocationList) {}
    fn grant_of(&self, _: NodeId) -> Grant {
        Grant::from(Trust::None)
    }
}

struct Member {
    id: NodeId,
    seed: [u8; 32],
    boot: BootId,
    leaf: Leaf,
    address: SocketAddr,
}

impl Member {
    fn new(root: &MeshRoot, index: usize, rng: &mut ChaCha8Rng) -> anyhow::Result<Self> {
        let seed: [u8; 32] = rng.random();
        let id = NodeKey::from_seed(&seed).node();
        let (leaf, boot) = (root.issue(id, START_WALL_MS)?, BootId(rng.next_u64()));
        Ok(Self { id, seed, boot, leaf, address: address(index) })
    }

    fn identity(&self, root: &MeshRoot) -> Identity {
        Identity {
            root: *root.certificate().key(),
            node: self.id,
            certificate: Certificate::from_der(self.leaf.as_der().to_vec()),
            epoch: 1,
        }
    }

    fn record(&self, root: &MeshRoot) -> anyhow::Result<SignedRecord> {
        let record = NodeRecord {
            mesh: root.certificate().key().mesh(),
            node: self.id,
            certificate: self.identity(root).certificate,
            version: RecordVersion { epoch: 1, ver: 0 },
            lifecycle: Lifecycle::Up,
            advertisement: advertisement(self.address, 0),
            wall_ms: START_WALL_MS,
        };
        Ok(record.sign(&SigningKey::from_bytes(&self.seed))?)
    }

    fn start(
        &self,
        root: &MeshRoot,
        air: &Network,
        database: &Arc<Database>,
        started: Instant,
        other: SignedRecord,
    ) -> anyhow::Result<network::Network> {
        let clocks = Clocks::new(started);
        let clock: Arc<dyn Clock> = Arc::new(NodeClock::reading(move || clocks.reading(), None));
        let randomness = Randomness::seeded(self.seed);
        let settings = Settings { seed: randomness.seed("quic"), ..Settings::new(self.boot) };
        let admission = Arc::new(Admission::default());
        let key = NodeKey::from_seed(&self.seed);
        let credentials =
            Credentials { key: key.clone(), leaf: self.leaf.clone(), root: root.certificate().clone() };
        let paths = Arc::new(Paths::default());
        let bind = |socket| {
            let (admission, clock) = (Arc::clone(&admission), Arc::clone(&clock));
            Endpoint::bind(socket, credentials.clone(), admission, clock, settings.clone())
        };
        let parts = Parts {
            endpoint: bind(Socket::Packets(air.plug(self.address)))?,
            relayed: bind(Socket::Paths(Arc::clone(&paths)))?,
            paths,
            identity: self.identity(root),
            key,
            root: *root.certificate().key(),
            admission: Arc::clone(&admission),
            clock: Arc::clone(&clock),
            advertisement: advertisement(self.address, 0),
            stored: vec![other],
            revocations: None,
            delivery: Delivery::new(Arc::clone(database), randomness),
            randomness,
        };
        let (network, _driver) = network::Network::start(parts, Arc::new(Deaf));
        Ok(network)
    }
}

impl Meetings {
    /// Those in which something was broken.
    pub fn failures(&self) -> impl Iterator<Item = &Meeting> {
        self.all.iter().filter(|meeting| !meeting.broken.is_empty())
    }

    /// How many had a connection too many for a while: those in which there was something to settle.
    #[must_use]
    pub fn with_a_loser(&self) -> usize {
        self.all.iter().filter(|meeting| meeting.had_a_loser).count()
    }
}

impl fmt::Display for Meetings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seeds, wall) = (self.all.len(), self.took.as_secs_f64());
        let mut by_dials: BTreeMap<u64, usize> = BTreeMap::new();
        self.all.iter().for_each(|meeting| *by_dials.entry(meeting.dials).or_default() += 1);
        let dials: Vec<String> =
            by_dials.iter().map(|(dials, pairs)| format!("{dials} in {pairs}")).collect();
        let failed: u64 = self.all.iter().map(|meeting| meeting.failed).sum();
        writeln!(f, "pairs            {seeds} in {wall:.1} s, {:.0} a second", seeds as f64 / wall)?;
        writeln!(f, "two connections  in {} of them, for a while", self.with_a_loser())?;
        write!(f, "dials            {}; {failed} failed", dials.join(", "))?;
        for meeting in self.failures() {
            for broken in &meeting.broken {
                write!(f, "\nBROKEN with seed {}: {broken}", meeting.seed)?;
            }
            write!(
                f,
                "\nreplay: cargo run -p mesh-simulations --release -- dials --seeds 1 --from {}",
                meeting.seed
            )?;
        }
        Ok(())
    }
}
