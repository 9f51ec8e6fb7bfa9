//! Whole meshes of membership and links machines on one event queue in virtual time.
//!
//! The driver here is the smallest that keeps both machines' contracts: it signs, dials, carries datagrams and
//! exchanges, and ends connections as QUIC would (a silent peer is noticed after 15 s). Records are really signed and
//! bytes are really encoded; only QUIC's own overhead is missing. Everything follows from one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use ed25519_dalek::SigningKey;
use mesh_node_core::directory::exchange::Exchange;
use mesh_node_core::links::{self, ConnectionKey, DialFailure, FailureKind, Links};
use mesh_node_core::membership::{Identity, Input, Membership};

use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, PeerState};
use mesh_protocol::record::{Advertisement, Capabilities, Load, ProtocolRange, SignedRecord};
use mesh_protocol::root::RootKey;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

mod driver;
mod network;

/// The key that lets nodes into the simulated mesh.
pub(crate) fn root() -> SigningKey {
    SigningKey::from_bytes(&[77; 32])
}

/// What makes a node a member of it, in this start of its process.
pub(crate) fn identity(node: NodeId, epoch: u64) -> Identity {
    let root = root();
    let key = RootKey::from_bytes(root.verifying_key().to_bytes());
    Identity { root: key, node, certificate: Certificate::bare(&root, node), epoch }
}

/// A state some node entered for some peer.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) at: u64,
    pub(crate) observer: usize,
    pub(crate) peer: usize,
    pub(crate) state: PeerState,
}

pub(crate) struct Host {
    pub(crate) key: SigningKey,
    pub(crate) id: NodeId,
    pub(crate) machine: Option<Membership>,
    asleep: Option<Membership>,
    links: Links,
    pub(crate) boot: BootId,
    epoch: u64,
    pub(crate) address: SocketAddr,
    pub(crate) disk: BTreeMap<NodeId, SignedRecord>,
    exchanges: BTreeMap<(u64, bool), Exchange>,
    wake_at: Option<u64>,
    pub(crate) datagram_bytes: u64,
    pub(crate) exchange_bytes: u64,
    pub(crate) dials: u64,
}

#[derive(Debug, Clone)]
enum Event {
    Wake { host: usize, boot: BootId },
    Datagram { from: usize, to: usize, bytes: Vec<u8> },
    DialTry { from: usize, to: usize, number: u64, boot: BootId, plan: Vec<SocketAddr> },
    DialTimeout { from: usize, to: usize, number: u64, boot: BootId },
    Established { host: usize, boot: BootId, peer: usize, peer_boot: BootId, key: ConnectionKey },
    Ended { host: usize, boot: BootId, peer: usize, key: ConnectionKey, cause: &'static str },
    IdleCheck { ends: [(usize, BootId); 2], key: ConnectionKey },
    Frame { from: usize, to: usize, exchange: u64, from_initiator: bool, bytes: Vec<u8> },
    ExchangeTimeout { host: usize, peer: usize, exchange: u64 },
}

pub(crate) struct Mesh {
    pub(crate) now: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) changes: Vec<Change>,
    queue: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    next_exchange: u64,
    rng: ChaCha8Rng,
    loss_percent: u32,
    side: Vec<u8>,
    connections: BTreeMap<(usize, usize, ConnectionKey), [(usize, BootId); 2]>,
}

pub(crate) fn advertisement(index: usize, address: SocketAddr) -> Advertisement {
    Advertisement {
        name: format!("host-{index}").parse().unwrap(),
        addresses: vec![address],
        protocol: ProtocolRange { min: 1, max: 1 },
        build: "0.1.0".to_owned(),
        capabilities: Capabilities::default(),
        load: Load::default(),
        agents: Vec::new(),
    }
}

impl Mesh {
    /// So many nodes, all of which know the record of the first one, as after joining through it.
    pub(crate) fn joined_through_the_first(size: usize, loss_percent: u32, seed: u64) -> Self {
        let mut mesh = Self {
            now: 1_000,
            hosts: Vec::new(),
            changes: Vec::new(),
            queue: BTreeMap::new(),
            next_event: 0,
            next_exchange: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            loss_percent,
            side: vec![0; size],
            connections: BTreeMap::new(),
        };
        for index in 0..size {
            mesh.add_host(index);
            mesh.start(index);
        }
        mesh
    }

    fn add_host(&mut self, index: usize) {
        let key = SigningKey::from_bytes(&self.rng.random());
        let id = NodeId::from_bytes(key.verifying_key().to_bytes());
        let port = u16::try_from(10_000 + index).unwrap();
        let founder = self.hosts.first().map(|first| (first.id, first.disk[&first.id].clone()));
        self.hosts.push(Host {
            key,
            id,
            machine: None,
            asleep: None,
            links: Links::new(id, 0),
            boot: BootId(0),
            epoch: 0,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            disk: founder.into_iter().collect(),
            exchanges: BTreeMap::new(),
            wake_at: None,
            datagram_bytes: 0,
            exchange_bytes: 0,
            dials: 0,
        });
    }

    /// Starts a node, or starts it again with what its disk holds and a new epoch.
    pub(crate) fn start(&mut self, index: usize) {
        let boot = BootId(self.rng.next_u64());
        let host = &mut self.hosts[index];
        host.boot = boot;
        host.epoch += 1;
        host.wake_at = None;
        host.exchanges.clear();
        host.links = Links::new(host.id, host.epoch);
        host.machine = Some(Membership::new(identity(host.id, host.epoch)));
        let stored = host.disk.values().cloned().collect();
        let advertisement = Box::new(advertisement(index, host.address));
        self.feed(index, Input::Start { advertisement, stored, revoked: Vec::new() });
    }

    /// Stops a node as a power cut does: nobody is told.
    pub(crate) fn crash(&mut self, index: usize) {
        self.hosts[index].machine = None;
        self.change_paths();
    }

    /// Cuts the mesh in parts; nodes reach each other only within one.
    pub(crate) fn split(&mut self, side_of: impl Fn(usize) -> u8) {
        self.side = (0..self.hosts.len()).map(side_of).collect();
        self.change_paths();
    }

    pub(crate) fn heal(&mut self) {
        self.split(|_| 0);
    }

    /// Takes a node's machine from it, as suspend does: it hears nothing, and its clock goes on.
    pub(crate) fn suspend(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.asleep = host.machine.take();
        self.change_paths();
    }

    /// Gives it back, with the connections the others have long given up.
    pub(crate) fn resume(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.machine = host.asleep.take();
        host.wake_at = None;
        host.links = Links::new(host.id, host.epoch + 1);
        self.feed(index, Input::Wake);
        let peers: Vec<NodeId> = self.hosts.iter().map(|host| host.id).collect();
        for peer in peers {
            self.feed(index, Input::LinkDown { peer, cause: "idle for 15 s".to_owned() });
        }
    }

    /// Restores a node's committed epoch from a backup.
    pub(crate) fn set_back_epoch(&mut self, index: usize, epoch: u64) {
        self.hosts[index].epoch = epoch;
    }

    fn change_paths(&mut self) {
        let broken: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, ends)| !self.is_live(**ends))
            .map(|((_, _, key), ends)| (*key, *ends))
            .collect();
        for (key, ends) in broken {
            self.schedule(network::IDLE_TIMEOUT_MS, Event::IdleCheck { ends, key });
        }
    }

    fn is_live(&self, ends: [(usize, BootId); 2]) -> bool {
        let [(a, _), (b, _)] = ends;
        ends.iter().all(|(host, boot)| self.is_up(*host, *boot)) && self.side[a] == self.side[b]
    }

    fn is_up(&self, host: usize, boot: BootId) -> bool {
        self.hosts[host].machine.is_some() && self.hosts[host].boot == boot
    }

    pub(crate) fn run_for(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    /// Runs until the condition holds, at most so long; how long it took.
    pub(crate) fn run_until(&mut self, at_most_ms: u64, holds: impl Fn(&Self) -> bool) -> Option<u64> {
        let began = self.now;
        while self.now - began <= at_most_ms {
            if holds(self) {
                return Some(self.now - began);
            }
            self.run_for(10);
        }
        None
    }

    fn latency(&mut self) -> u64 {
        self.rng.random_range(2..=20)
    }

    fn is_lost(&mut self) -> bool {
        self.rng.random_range(0..100) < self.loss_percent
    }

    /// The time a reliable message takes: each loss costs a retransmission.
    fn reliable_latency(&mut self) -> u64 {
        let mut ms = self.latency();
        while self.is_lost() {
            ms += 60;
        }
        ms
    }

    fn schedule(&mut self, after_ms: u64, event: Event) {
        self.schedule_at(self.now + after_ms, event);
    }

    fn schedule_at(&mut self, at: u64, event: Event) {
        self.next_event += 1;
        self.queue.insert((at, self.next_event), event);
    }

    pub(crate) fn index_of(&self, id: &NodeId) -> usize {
        self.hosts.iter().position(|host| host.id == *id).unwrap()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake { host, boot } if self.is_up(host, boot) => {
                self.hosts[host].wake_at = None;
                self.feed(host, Input::Wake);
            }
            Event::Datagram { from, to, bytes } => {
                if self.side[from] == self.side[to] {
                    self.feed(to, Input::Datagram { from: self.hosts[from].id, bytes });
                }
            }
            Event::DialTry { from, to, number, boot, plan } => self.dial_try(from, to, number, boot, &plan),
            Event::DialTimeout { from, to, number, boot } if self.is_up(from, boot) => {
                let peer = self.hosts[to].id;
                let failure = DialFailure {
                    kind: FailureKind::Passing,
                    text: "no answer within 5 s".to_owned(),
                    address: None,
                };
                self.feed_links(from, links::Input::DialFailed { peer, number, failure });
            }
            Event::Established { host, boot, peer, peer_boot, key } if self.is_up(host, boot) => {
                let address = (key.dialler == self.hosts[host].id).then(|| self.hosts[peer].address);
                let peer = self.hosts[peer].id;
                self.feed_links(host, links::Input::Established { peer, key, boot: peer_boot, address });
            }
            Event::Ended { host, boot, peer, key, cause } if self.is_up(host, boot) => {
                let peer = self.hosts[peer].id;
                self.feed_links(host, links::Input::Ended { peer, key, cause: cause.to_owned() });
            }
            Event::IdleCheck { ends, key } => {
                if !self.is_live(ends) {
                    self.end_connection(ends, key, "idle for 15 s");
                }
            }
            Event::Frame { from, to, exchange, from_initiator, bytes } => {
                self.frame_arrives(from, to, exchange, from_initiator, &bytes);
            }
            Event::ExchangeTimeout { host, peer, exchange } => {
                if self.hosts[host].exchanges.remove(&(exchange, true)).is_some() {
                    let error = Some("the exchange timed out".to_owned());
                    self.feed(host, Input::SyncEnded { peer: self.hosts[peer].id, error });
                }
            }
            Event::Wake { .. }
            | Event::DialTimeout { .. }
            | Event::Established { .. }
            | Event::Ended { .. } => {}
        }
    }

    pub(crate) fn state(&self, observer: usize, peer: &NodeId) -> Option<PeerState> {
        self.hosts[observer].machine.as_ref()?.state(peer)
    }

    pub(crate) fn sees(&self, observer: usize, peer: usize, state: PeerState) -> bool {
        self.state(observer, &self.hosts[peer].id) == Some(state)
    }

    /// Whether every running node sees every other running node alive, with its newest record.
    pub(crate) fn is_complete(&self) -> bool {
        let up: Vec<usize> =
            (0..self.hosts.len()).filter(|index| self.hosts[*index].machine.is_some()).collect();
        let roots: BTreeSet<[u8; 16]> =
            up.iter().map(|index| self.hosts[*index].machine.as_ref().unwrap().directory().root()).collect();
        let all_alive = up.iter().all(|a| up.iter().all(|b| a == b || self.sees(*a, *b, PeerState::Alive)));
        roots.len() == 1 && all_alive
    }
}
