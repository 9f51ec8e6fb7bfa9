//! Layer 1: whole meshes of membership and links machines on one event queue in virtual time.
//!
//! The driver here is the smallest that keeps both machines' contracts: it signs, dials, carries datagrams and
//! exchanges, and ends connections as QUIC would (a silent peer is noticed after 15 s). Records are really signed and
//! bytes are really encoded; only QUIC's own overhead is missing. Everything follows from one seed.

pub mod crowd;
mod driver;
mod host;
mod measure;
mod network;
mod notary;
mod paths;
mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ed25519_dalek::SigningKey;
use mesh_node_core::links::{ConnectionKey, DialFailure, FailureKind, Links};
use mesh_node_core::membership::{Identity, Input, Membership};
use mesh_node_core::time::NodeTime;
use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, PeerState, PeerView};
use mesh_protocol::record::{Advertisement, Capabilities, Load, ProtocolRange, VerifiedRecord};
use mesh_protocol::root::RootKey;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Trace;
use notary::Notary;
use paths::Paths;
use queue::{End, Event, Queue};

pub use host::{Cost, Host};
pub use measure::{Figures, Setting, measure};

/// The key that lets nodes into the simulated mesh.
fn root_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// The root all simulated nodes trust.
fn root() -> RootKey {
    RootKey::from_bytes(root_key().verifying_key().to_bytes())
}

/// How often a condition is looked at that is waited for, milliseconds.
const LOOK_EVERY_MS: u64 = 10;

/// A state some node entered for some peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: u64,
    /// Who says so.
    pub observer: usize,
    /// Of whom.
    pub peer: usize,
    /// Which.
    pub state: PeerState,
}

/// Nodes, paths between them, and a clock.
#[derive(Debug)]
pub struct Mesh {
    /// Milliseconds since the beginning.
    pub now: u64,
    /// The nodes.
    pub hosts: Vec<Host>,
    /// Every state entered.
    pub changes: Vec<Change>,
    /// Over everything that happened.
    pub trace: Trace,
    queue: Queue,
    next_exchange: u64,
    rng: ChaCha8Rng,
    loss_percent: u32,
    paths: Paths,
    connections: BTreeMap<(usize, usize, ConnectionKey), [End; 2]>,
    places: BTreeMap<NodeId, usize>,
    notary: Notary,
    /// Events handled so far.
    events: u64,
    /// Members of whom there is only what an idle neighbour shows ([`crowd`]), and what each says of itself.
    echoes: BTreeSet<usize>,
    records: Vec<VerifiedRecord>,
}

/// What a simulated node says about itself.
#[must_use]
pub fn advertisement(address: SocketAddr, running: u16) -> Advertisement {
    let name = format!("host-{}", address.ip().to_string().replace(['.', ':'], "-"));
    Advertisement {
        name: name.parse().unwrap_or_else(|_| unreachable!("a letter, a hyphen and digits are a name")),
        addresses: vec![address],
        protocol: ProtocolRange { min: 1, max: 1 },
        build: "0.1.0".to_owned(),
        capabilities: Capabilities::default(),
        load: Load { running, queued: 0 },
        agents: Vec::new(),
    }
}

impl Mesh {
    /// So many nodes, all of which know the record of the first one, as after joining through it.
    #[must_use]
    pub fn joined_through_the_first(size: usize, loss_percent: u32, seed: u64) -> Self {
        let mut mesh = Self {
            now: 1_000,
            hosts: Vec::new(),
            changes: Vec::new(),
            trace: Trace::default(),
            queue: Queue::default(),
            next_exchange: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            loss_percent,
            paths: Paths::all(size),
            connections: BTreeMap::new(),
            places: BTreeMap::new(),
            notary: Notary::default(),
            events: 0,
            echoes: BTreeSet::new(),
            records: Vec::new(),
        };
        for index in 0..size {
            mesh.add_host(index);
        }
        for index in 0..size {
            mesh.start(index);
            if index == 0 {
                mesh.hand_out_the_first_record();
            }
        }
        mesh
    }

    fn add_host(&mut self, index: usize) {
        let key = SigningKey::from_bytes(&self.rng.random());
        let id = NodeId::from_bytes(key.verifying_key().to_bytes());
        let [.., high, low] = u32::try_from(index).unwrap_or(u32::MAX).to_be_bytes();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 1, high, low)), 4_433);
        self.places.insert(id, index);
        self.hosts.push(Host {
            id,
            machine: None,
            address,
            cost: Cost::default(),
            boot: BootId(0),
            key,
            asleep: None,
            links: Links::new(id, 0),
            epoch: 0,
            disk: BTreeMap::new(),
            revoked: BTreeSet::new(),
            exchanges: BTreeMap::new(),
            dialling: BTreeSet::new(),
            wake_at: None,
        });
    }

    fn hand_out_the_first_record(&mut self) {
        let first = self.hosts[0].disk.clone();
        for host in &mut self.hosts[1..] {
            host.disk.clone_from(&first);
        }
    }

    /// Starts a node, or starts it again with what its disk holds and a new epoch.
    pub fn start(&mut self, index: usize) {
        let boot = BootId(self.rng.next_u64());
        let host = &mut self.hosts[index];
        host.boot = boot;
        host.epoch += 1;
        host.wake_at = None;
        host.asleep = None;
        host.exchanges.clear();
        host.dialling.clear();
        host.links = Links::new(host.id, host.epoch);
        host.machine = Some(Membership::new(Identity {
            root: root(),
            node: host.id,
            certificate: Certificate::bare(&root_key(), host.id),
            epoch: host.epoch,
        }));
        let stored = host.disk.values().map(|record| record.signed().clone()).collect();
        let revoked = host.revoked.iter().copied().collect();
        let advertisement = Box::new(advertisement(host.address, 0));
        self.feed(index, Input::Start { advertisement, stored, revoked });
    }

    /// Stops a node as a power cut does: nobody is told.
    pub fn crash(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        (host.machine, host.asleep) = (None, None);
        self.break_connections();
    }

    /// Puts each node in parts, a bit each; two nodes reach each other when they have a part in common.
    pub fn split(&mut self, parts_of: impl Fn(usize) -> u32) {
        self.paths.split(parts_of);
        self.break_connections();
    }

    /// Loses everything that goes from one node to another, and nothing the other way.
    pub fn cut_one_way(&mut self, from: usize, to: usize) {
        self.paths.cut_one_way(from, to);
        self.break_connections();
    }

    /// Ends every split and cut.
    pub fn heal(&mut self) {
        self.paths.heal();
        self.break_connections();
    }

    /// Takes a node's machine from it, as suspend does: it hears nothing, and its clock goes on.
    pub fn suspend(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.asleep = host.machine.take();
        self.break_connections();
    }

    /// Gives it back, with the connections the others have long given up.
    pub fn resume(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.machine = host.asleep.take();
        let view = host.machine.as_ref().map(|machine| machine.view(NodeTime(self.now)));
        let dialled = view.into_iter().flat_map(|view| view.peers).filter(|it| it.next_dial_in_ms == Some(0));
        let under_way: Vec<NodeId> = dialled.map(|peer| peer.node).collect();
        host.wake_at = None;
        host.exchanges.clear();
        host.dialling.clear();
        host.links = Links::new(host.id, host.epoch + 1);
        self.feed(index, Input::Wake);
        let peers: Vec<NodeId> = self.hosts.iter().map(|host| host.id).collect();
        for peer in peers {
            self.feed(index, Input::LinkDown { peer, cause: "idle for 15 s".to_owned() });
        }
        // A dial that was under way has an end too: its time was over long ago.
        for peer in under_way {
            let text = "no answer within 5 s".to_owned();
            let failure = DialFailure { kind: FailureKind::Passing, text, address: None };
            self.feed(index, Input::DialFailed { peer, failure });
        }
    }

    /// Restores a node's committed epoch from a backup; it counts from its next start.
    pub fn set_back_epoch(&mut self, index: usize, epoch: u64) {
        self.hosts[index].epoch = epoch;
    }

    /// Makes the next start of a node go without its directory, as after its database was lost but for the identity.
    pub fn forget_directory(&mut self, index: usize) {
        let first = self.hosts[0].disk.get(&self.hosts[0].id).cloned();
        self.hosts[index].disk = first.into_iter().map(|record| (record.record().node, record)).collect();
    }

    /// Lets a node say something else about itself.
    pub fn change(&mut self, index: usize, running: u16) {
        let changed = advertisement(self.hosts[index].address, running);
        self.feed(index, Input::Advertise(Box::new(changed)));
    }

    fn break_connections(&mut self) {
        let broken: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, ends)| !self.is_live(**ends))
            .map(|((_, _, key), ends)| (*key, *ends))
            .collect();
        for (key, ends) in broken {
            self.plan(network::IDLE_TIMEOUT_MS, Event::IdleCheck { ends, key });
        }
    }

    fn is_live(&self, ends: [End; 2]) -> bool {
        let [one, other] = ends;
        let there = |end: End| self.is_up(end) || self.echoes.contains(&end.host);
        there(one) && there(other) && self.paths.both_ways(one.host, other.host)
    }

    fn is_up(&self, end: End) -> bool {
        let host = &self.hosts[end.host];
        host.machine.is_some() && host.boot == end.boot
    }

    /// Lets time pass.
    pub fn run_for(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some((at, event)) = self.queue.next(end) {
            self.now = at;
            self.events += 1;
            self.happen(event);
        }
        self.now = end;
    }

    /// Runs until the condition holds, at most so long; how long it took.
    pub fn run_until(&mut self, at_most_ms: u64, holds: impl Fn(&Self) -> bool) -> Option<u64> {
        let began = self.now;
        while self.now - began <= at_most_ms {
            if holds(self) {
                return Some(self.now - began);
            }
            self.run_for(LOOK_EVERY_MS);
        }
        None
    }

    fn latency(&mut self) -> u64 {
        self.rng.random_range(2..=20)
    }

    fn is_lost(&mut self) -> bool {
        self.loss_percent > 0 && self.rng.random_range(0..100) < self.loss_percent
    }

    /// The time a reliable message takes: each loss costs a retransmission.
    fn reliable_latency(&mut self) -> u64 {
        let mut ms = self.latency();
        while self.is_lost() {
            ms += 60;
        }
        ms
    }

    fn plan(&mut self, after_ms: u64, event: Event) {
        self.queue.plan(self.now + after_ms, event);
    }

    fn place_of(&self, id: &NodeId) -> usize {
        self.places[id]
    }

    /// Nodes that run.
    pub fn up(&self) -> impl Iterator<Item = (usize, &Membership)> + Clone {
        self.hosts.iter().enumerate().filter_map(|(index, host)| Some((index, host.machine.as_ref()?)))
    }

    /// Everything one node would say of another, if it runs and knows it.
    #[must_use]
    pub fn view(&self, observer: usize, peer: usize) -> Option<PeerView> {
        self.hosts[observer].machine.as_ref()?.peer(NodeTime(self.now), &self.hosts[peer].id)
    }

    /// Whether one node is in this state to another.
    #[must_use]
    pub fn sees(&self, observer: usize, peer: usize, state: PeerState) -> bool {
        let machine = self.hosts[observer].machine.as_ref();
        machine.and_then(|machine| machine.state(&self.hosts[peer].id)) == Some(state)
    }

    /// Whether every running node has every record in its newest version.
    #[must_use]
    pub fn has_every_record_everywhere(&self) -> bool {
        let mut directories = self.up().map(|(_, machine)| machine.directory());
        let Some(first) = directories.next() else { return true };
        let newest = |(_, machine): (usize, &Membership)| {
            let own = machine.directory().version(&machine.node());
            first.version(&machine.node()) == own
        };
        directories.all(|directory| directory.root() == first.root()) && self.up().all(newest)
    }

    /// Whether, beside that, every running node finds every running neighbour alive: in a small mesh, every node.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let alive = |(_, machine): (usize, &Membership)| {
            machine.kept().all(|peer| {
                let down = self.hosts[self.place_of(&peer)].machine.is_none();
                down || machine.state(&peer) == Some(PeerState::Alive)
            })
        };
        self.has_every_record_everywhere() && self.up().all(alive)
    }

    /// Whether a node gets no answer from another, or has heard from somebody who gets none.
    #[must_use]
    pub fn finds_silent(&self, observer: usize, peer: usize) -> bool {
        self.view(observer, peer).is_some_and(|view| {
            view.state == PeerState::Unreachable || view.seen_by.iter().any(|seen| !seen.answers)
        })
    }

    /// Verdicts of unreachability, by whom and of whom.
    pub fn verdicts(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.state == PeerState::Unreachable)
    }
}
