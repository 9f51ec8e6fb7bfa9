//! One machine fed by hand, with peers that answer when told to.

use std::net::SocketAddr;

use ed25519_dalek::SigningKey;
use mesh_node_core::directory::exchange::Heard;
use mesh_node_core::membership::{Identity, Input, Membership, Output};
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, PeerView};
use mesh_protocol::probe::{Accusation, Probe, Standing, Word};
use mesh_protocol::record::{
    Advertisement, Capabilities, Lifecycle, Load, NodeRecord, ProtocolRange, RecordVersion, SignedRecord,
};
use mesh_protocol::root::RootKey;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// The key that lets nodes into the mesh of these tests.
fn root_key() -> SigningKey {
    SigningKey::from_bytes(&[77; 32])
}

/// Its root.
pub(crate) fn root() -> RootKey {
    RootKey::from_bytes(root_key().verifying_key().to_bytes())
}

/// What makes a node a member, in one start of its process.
pub(crate) fn identity(node: NodeId, epoch: u64) -> Identity {
    Identity { root: root(), node, certificate: Certificate::bare(&root_key(), node), epoch }
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

/// One machine, its key, and a clock that is set by hand.
pub(crate) struct Bench {
    pub(crate) machine: Membership,
    key: SigningKey,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) now: u64,
    pub(crate) raised: Vec<u64>,
    /// What peers report when they are asked about another one; `None` when they do not.
    pub(crate) helpers_say: Option<Word>,
}

pub(crate) fn key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

pub(crate) fn id(n: u8) -> NodeId {
    NodeId::from_bytes(key(n).verifying_key().to_bytes())
}

pub(crate) fn unsigned(n: u8, epoch: u64, ver: u64) -> NodeRecord {
    let Identity { root, node, certificate, .. } = identity(id(n), epoch);
    NodeRecord {
        mesh: root.mesh(),
        node,
        certificate,
        version: RecordVersion { epoch, ver },
        lifecycle: Lifecycle::Up,
        advertisement: advertisement(usize::from(n), format!("127.0.0.{n}:4433").parse().unwrap()),
        wall_ms: 0,
    }
}

pub(crate) fn record(n: u8, epoch: u64, ver: u64) -> SignedRecord {
    unsigned(n, epoch, ver).sign(&key(n)).unwrap()
}

pub(crate) fn farewell(n: u8, epoch: u64, ver: u64) -> SignedRecord {
    NodeRecord { lifecycle: Lifecycle::Left, ..unsigned(n, epoch, ver) }.sign(&key(n)).unwrap()
}

pub(crate) const ME: u8 = 100;
pub(crate) const PEER: u8 = 1;
pub(crate) const OTHER: u8 = 2;

impl Bench {
    /// Node [`ME`] in epoch 5, with nobody known.
    pub(crate) fn new() -> Self {
        let machine = Membership::new(identity(id(ME), 5));
        let mut bench = Self {
            machine,
            key: key(ME),
            rng: ChaCha8Rng::seed_from_u64(1),
            now: 1_000,
            raised: Vec::new(),
            helpers_say: Some(Word::Silent),
        };
        let advertisement = Box::new(advertisement(0, "127.0.0.100:4433".parse().unwrap()));
        bench.feed(Input::Start { advertisement, stored: Vec::new(), revoked: Vec::new() });
        bench
    }

    /// The same with [`PEER`] and [`OTHER`] linked and alive.
    pub(crate) fn with_two_links() -> Self {
        let mut bench = Self::new();
        for peer in [PEER, OTHER] {
            bench.feed(Input::LinkUp { peer: id(peer), boot: BootId(u64::from(peer)) });
            bench.hear(PEER, record(peer, 1, 1));
        }
        bench
    }

    pub(crate) fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = self.machine.handle(self.time(), &mut self.rng, input);
        for output in outputs.clone() {
            match output {
                Output::Sign(record) => {
                    let signed = record.sign(&self.key).unwrap();
                    outputs.extend(self.feed(Input::Signed(signed)));
                }
                Output::RaiseEpoch(epoch) => {
                    self.raised.push(epoch);
                    outputs.extend(self.feed(Input::EpochRaised(epoch)));
                }
                Output::Sync { peer } => {
                    outputs.extend(self.feed(Input::SyncEnded { peer, error: None }));
                }
                _ => {}
            }
        }
        outputs
    }

    pub(crate) const fn time(&self) -> Now {
        Now { node: NodeTime(self.now), wall_ms: self.now }
    }

    pub(crate) fn hear(&mut self, from: u8, record: SignedRecord) -> Vec<Output> {
        let heard = Heard { records: vec![record], silent: Vec::new() };
        let heard = heard.check(&root(), |record, signed| self.machine.directory().unchecked(record, signed));
        self.feed(Input::Heard { from: id(from), heard })
    }

    pub(crate) fn accuse(&mut self, from: u8, node: u8, version: RecordVersion) -> Vec<Output> {
        let accusations = vec![Accusation { node: id(node), version }];
        let standing = Standing { version: RecordVersion { epoch: 1, ver: 1 }, accusations };
        self.feed(Input::Datagram { from: id(from), bytes: Probe::Ping { seq: 1, standing }.encode() })
    }

    /// Feeds one event; those in `answering` answer what is sent to them.
    pub(crate) fn feed_answered(&mut self, input: Input, answering: &[u8]) -> Vec<Output> {
        let outputs = self.feed(input);
        for output in &outputs {
            if let Output::Send { to, bytes } = output
                && let Some(peer) = answering.iter().find(|peer| id(**peer) == *to)
                && let Some(answer) = self.answer(&Probe::decode(bytes).unwrap())
            {
                self.feed(Input::Datagram { from: id(*peer), bytes: answer.encode() });
            }
        }
        outputs
    }

    /// Lets time pass; those in `answering` answer every ping.
    pub(crate) fn pass(&mut self, ms: u64, answering: &[u8]) -> Vec<Output> {
        let end = self.now + ms;
        let mut all = Vec::new();
        while self.machine.next_wake().0 <= end {
            self.now = self.now.max(self.machine.next_wake().0);
            all.extend(self.feed_answered(Input::Wake, answering));
        }
        self.now = end;
        all
    }

    /// What a healthy peer answers.
    fn answer(&self, probe: &Probe) -> Option<Probe> {
        let standing = Standing { version: RecordVersion { epoch: 1, ver: 1 }, accusations: Vec::new() };
        match probe {
            Probe::Ping { seq, .. } => Some(Probe::Ack { seq: *seq, standing }),
            Probe::Inquire { seq, .. } => Some(Probe::Report { seq: *seq, word: self.helpers_say? }),
            Probe::Ack { .. } | Probe::Report { .. } | Probe::Hearsay(_) => None,
        }
    }

    pub(crate) fn peer(&self, n: u8) -> PeerView {
        self.machine.peer(NodeTime(self.now), &id(n)).unwrap()
    }

    pub(crate) fn own_version(&self) -> RecordVersion {
        self.machine.view(NodeTime(self.now)).version
    }
}
