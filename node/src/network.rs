//! The network side of a node: it keeps links, runs membership, and hands everybody else a link when they need one.
//!
//! ```text
//!   endpoint ── connections ──┐                     ┌── datagrams, dials, exchanges
//!   timers ───────────────────┼─> membership, links ┼── delivery: a link is up, a link is down
//!   node ── say, revoke ──────┘    (pure, in memory)└── observer: the view changed, keep this record
//! ```
//! A peer that cannot be reached directly is reached through another member, if one carries (`detour`, and `relay` at the
//! one between); such a link is a link like any other, and given up for a direct one as soon as there is one.
//!
//! One task owns the two machines' inputs and performs their outputs; each connection has a task that only moves bytes.
//! Nothing here waits for the disk: records go to the writer as events, and what the disk knows came in at the start.

mod carriers;
mod connection;
mod detour;
mod dial;
mod driver;
mod exchange;
mod history;
mod meter;
mod needs;
mod question;
mod quota;
mod relay;
mod ways;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_node_core::links::{ConnectionKey, Path, Routes};
use mesh_node_core::membership::{Identity, Input, Membership};
use mesh_node_core::time::NodeTime;
use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{MeshView, OverQuota};
use mesh_protocol::policy::{Grant, Permission};
use mesh_protocol::record::{Advertisement, Lifecycle, SignedRecord, VerifiedRecord};
use mesh_protocol::revocation::RevocationList;
use mesh_protocol::root::RootKey;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::identity::{Admission, NodeKey};
use crate::limits::RELAY_BYTES_PER_SECOND;
use crate::randomness::Randomness;
use crate::transport::{Connection, Counts, Endpoint, Paths};

use carriers::Carriers;
use history::History;
use quota::Quotas;
use relay::Relays;

pub use history::Tried;
pub use relay::RelayCounts;

/// Events the driver has not looked at. A connection that brings more waits.
const EVENTS_MAX: usize = 1_024;
/// How long a node that leaves or stops lets its last record spread.
const FAREWELL: Duration = Duration::from_millis(300);

/// How long a status waits for the peers to say what this node may do there.
const GRANTS_WITHIN: Duration = Duration::from_millis(300);

/// What the network tells the rest of the node. Called on the driver's task: nothing here may block.
pub trait Observer: Send + Sync + 'static {
    /// Something about members or their records changed.
    fn view_changed(&self);
    /// These records are their nodes' newest; these members are to be forgotten.
    fn records(&self, put: Vec<(NodeId, SignedRecord)>, forget: Vec<NodeId>);
    /// This node's disk was set back: keep this number of starts.
    fn raise_epoch(&self, epoch: u64);
    /// A peer has a newer revocation list, already checked.
    fn revoked(&self, list: RevocationList);
    /// What a peer may do here, for its own question.
    fn grant_of(&self, peer: NodeId) -> Grant;
}

/// What a network is made of.
#[derive(Debug)]
pub struct Parts {
    /// The bound endpoint.
    pub endpoint: Endpoint,
    /// The endpoint of relayed connections.
    pub relayed: Endpoint,
    /// The paths it runs over.
    pub paths: Arc<Paths>,
    /// This start of this node.
    pub identity: Identity,
    /// Its key, to sign its record.
    pub key: NodeKey,
    /// The root, to check revocation lists.
    pub root: RootKey,
    /// Who is let in.
    pub admission: Arc<Admission>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub randomness: Randomness,
    /// What this node says about itself.
    pub advertisement: Advertisement,
    /// Records of an earlier run, or of the node that let this one join.
    pub stored: Vec<SignedRecord>,
    /// The revocation list in force.
    pub revocations: Option<RevocationList>,
    /// What carries durable messages over links.
    pub delivery: Arc<Delivery>,
}

/// What reaches the driver.
enum Event {
    Arrived(Connection),
    DialFailed(NodeId, u64, mesh_node_core::links::DialFailure),
    Ended(NodeId, ConnectionKey, String),
    Membership(Input),
    NewerRevocations(RevocationList),
    Farewell(oneshot::Sender<()>),
}

/// State the driver, its connections and readers share. Locks are held for one call and never over an await.
struct Shared {
    me: NodeId,
    endpoint: Endpoint,
    relayed: Endpoint,
    paths: Arc<Paths>,
    carriers: Carriers,
    relays: Arc<Relays>,
    routes: Mutex<Routes>,
    /// Spreads when a relay that failed is tried again.
    chance: Mutex<StdRng>,
    history: Mutex<History>,
    /// When each peer that is linked through another is next dialled directly, on the node's clock.
    upgrades: Mutex<BTreeMap<NodeId, NodeTime>>,
    membership: Mutex<Membership>,
    links: Mutex<BTreeMap<(NodeId, ConnectionKey), Connection>>,
    used: Mutex<BTreeMap<NodeId, ConnectionKey>>,
    revocations: watch::Sender<Option<RevocationList>>,
    root: RootKey,
    admission: Arc<Admission>,
    clock: Arc<dyn Clock>,
    delivery: Arc<Delivery>,
    observer: Arc<dyn Observer>,
    quotas: Quotas,
    /// Dials begun.
    dials: AtomicU64,
    events: mpsc::Sender<Event>,
}

impl Shared {
    fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<(NodeId, ConnectionKey), Connection>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<NodeId, ConnectionKey>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chance(&self) -> MutexGuard<'_, StdRng> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what came of a try.
    fn note(&self, peer: NodeId, way: Option<Path>, outcome: &str) {
        self.history().note(self.clock.now().wall_ms, peer, way, outcome.to_owned());
    }

    /// Where a peer says it is.
    fn addresses(&self, peer: NodeId) -> Vec<SocketAddr> {
        let membership = self.membership();
        let entry = membership.directory().get(&peer);
        entry.map(|entry| entry.record().advertisement.addresses.clone()).unwrap_or_default()
    }

    /// Whether this node carries packets for a peer, by its grant as it is now.
    fn relays_for(&self, peer: NodeId) -> bool {
        self.observer.grant_of(peer).permits(Permission::Relay, self.clock.now().wall_ms)
    }

    /// The connection new streams to a peer go on.
    fn link(&self, peer: NodeId) -> Option<Connection> {
        let key = *self.used().get(&peer)?;
        self.connections().get(&(peer, key)).cloned()
    }
}

/// The running network. Clones share it.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({} connections)", self.shared.connections().len())
    }
}

impl Network {
    /// Starts to keep links. The driver ends when the node says farewell.
    #[must_use]
    pub fn start(parts: Parts, observer: Arc<dyn Observer>) -> (Self, JoinHandle<()>) {
        let Parts {
            endpoint,
            relayed,
            paths,
            identity,
            key,
            root,
            admission,
            clock,
            randomness,
            advertisement,
            stored,
            revocations,
            delivery,
        } = parts;
        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        let revoked = revocations.iter().flat_map(RevocationList::entries).map(|entry| entry.node).collect();
        let start = Input::Start { advertisement: Box::new(advertisement), stored, revoked };
        let shared = Arc::new(Shared {
            me: identity.node,
            endpoint,
            relayed,
            paths,
            carriers: Carriers::default(),
            relays: Arc::new(Relays::new(RELAY_BYTES_PER_SECOND)),
            routes: Mutex::default(),
            chance: Mutex::new(randomness.stream("routes")),
            history: Mutex::default(),
            upgrades: Mutex::default(),
            membership: Mutex::new(Membership::new(identity.clone())),
            links: Mutex::default(),
            used: Mutex::default(),
            revocations: watch::Sender::new(revocations),
            root,
            admission,
            clock,
            delivery,
            observer,
            quotas: Quotas::default(),
            dials: AtomicU64::new(0),
            events,
        });
        needs::watch(&shared);
        let mut driver = driver::Driver::new(Arc::clone(&shared), &identity, key, randomness);
        driver.begin(start);
        let task = tokio::spawn(driver.run(inbox));
        (Self { shared }, task)
    }

    /// How this node sees the others.
    #[must_use]
    pub fn view(&self) -> MeshView {
        let now = self.shared.clock.now();
        self.shared.membership().view(now.node)
    }

    /// The newest records, this node's own included, as their owners signed them.
    #[must_use]
    pub fn records(&self) -> Vec<VerifiedRecord> {
        self.shared.membership().directory().iter().map(|(_, entry)| entry.verified().clone()).collect()
    }

    /// The newest record of one node, as its owner signed it.
    #[must_use]
    pub fn signed_record(&self, node: NodeId) -> Option<SignedRecord> {
        self.shared.membership().directory().get(&node).map(|entry| entry.signed().clone())
    }

    /// How many connections are open, those included that are about to be retired.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections().len()
    }

    /// The round trip of a peer's link, if there is one.
    #[must_use]
    pub fn rtt(&self, peer: NodeId) -> Option<Duration> {
        self.shared.link(peer).map(|connection| connection.rtt())
    }

    /// What a peer sent faster than it may.
    #[must_use]
    pub fn over_quota(&self, peer: NodeId) -> OverQuota {
        self.shared.quotas.over(peer)
    }

    /// Whether nothing is taken from a peer until its next link.
    #[must_use]
    pub fn is_paused(&self, peer: NodeId) -> bool {
        self.shared.delivery.is_paused(peer)
    }

    /// What happened to those who dialled this node.
    #[must_use]
    pub fn connection_counts(&self) -> Counts {
        self.shared.endpoint.counts()
    }

    /// The revocation list in force.
    #[must_use]
    pub fn revocations(&self) -> Option<RevocationList> {
        self.shared.revocations.borrow().clone()
    }

    /// Says something else about this node from now on.
    pub async fn advertise(&self, advertisement: Advertisement) {
        self.feed(Input::Advertise(Box::new(advertisement))).await;
    }

    /// Puts a newer revocation list in force here, at once, and tells every linked peer. The caller has it on disk, or
    /// is about to: losing it in a crash between the two loses nothing that a peer does not give back.
    pub async fn revoke(&self, list: RevocationList) {
        // Fails only when the driver is gone, and then nothing is linked.
        let _ = self.shared.events.send(Event::NewerRevocations(list)).await;
    }

    /// Something that is not membership's changed what this node sees.
    pub fn look_again(&self) {
        self.shared.observer.view_changed();
    }

    /// A peer that was kept away is welcome again: dial it now, whatever the back-off says.
    pub async fn retry(&self, peer: NodeId) {
        self.feed(Input::Retry(peer)).await;
    }

    /// What this node may do at each of these peers that is linked and answers in a moment.
    pub async fn grants_at(&self, peers: impl Iterator<Item = NodeId>) -> BTreeMap<NodeId, Grant> {
        let mut asked = JoinSet::new();
        for peer in peers {
            if let Some(connection) = self.shared.link(peer) {
                asked.spawn(async move { Some((peer, question::ask_grant(&connection).await?)) });
            }
        }
        let mut answers = BTreeMap::new();
        let all = async {
            while let Some(answer) = asked.join_next().await {
                answers.extend(answer.ok().flatten());
            }
        };
        // Whoever is slower is shown as not having answered.
        let _ = tokio::time::timeout(GRANTS_WITHIN, all).await;
        answers
    }

    /// Tells the others that this node stops (`Leaving`) or leaves for good (`Left`), and ends the links.
    pub async fn farewell(&self, lifecycle: Lifecycle) {
        self.feed(Input::Announce(lifecycle)).await;
        tokio::time::sleep(FAREWELL).await;
        let (done, ended) = oneshot::channel();
        if self.shared.events.send(Event::Farewell(done)).await.is_ok() {
            let _ = ended.await;
        }
        // First what travels on the other's connections.
        self.shared.relayed.close(CloseCode::Leaving).await;
        self.shared.endpoint.close(CloseCode::Leaving).await;
    }

    /// Ends every connection without a word to anybody, as a crash does.
    pub(crate) fn cut(&self) {
        self.shared.endpoint.cut();
    }

    async fn feed(&self, input: Input) {
        // Fails only when the driver is gone, and then there is nobody to tell.
        let _ = self.shared.events.send(Event::Membership(input)).await;
    }
}
