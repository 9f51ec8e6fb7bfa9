//! Members whose network side runs, in one mesh.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use mesh_node::clock::{Clock, NodeClock};
use mesh_node::delivery::Delivery;
use mesh_node::identity::{Admission, Credentials, MeshRoot, NodeKey};
use mesh_node::network::{Network, Observer, Parts};
use mesh_node::randomness::Randomness;
use mesh_node::storage::Database;
use mesh_node::transport::{Endpoint, Paths, Profile, Settings, Socket};
use mesh_node_core::links::Path;
use mesh_node_core::membership::Identity;
use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, PeerState};
use mesh_protocol::policy::{Grant, Trust};
use mesh_protocol::record::{
    Advertisement, Capabilities, Lifecycle, Load, NodeRecord, ProtocolRange, RecordVersion, SignedRecord,
};
use mesh_protocol::revocation::RevocationList;

use crate::air::{Air, Plug};

/// How long anything a test waits for may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// A mesh, and what its members send through.
pub(crate) struct Mesh {
    root: MeshRoot,
    clock: Arc<NodeClock>,
    pub(crate) air: Arc<Air>,
    dir: tempfile::TempDir,
}

/// What a member tells: nobody listens. What it grants: one thing to all.
struct Told(Mutex<Grant>);

impl Observer for Told {
    fn view_changed(&self) {}
    fn records(&self, _: Vec<(NodeId, SignedRecord)>, _: Vec<NodeId>) {}
    fn raise_epoch(&self, _: u64) {}
    fn revoked(&self, _: RevocationList) {}
    fn grant_of(&self, _: NodeId) -> Grant {
        self.0.lock().unwrap().clone()
    }
}

/// A running member.
pub(crate) struct Member {
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) network: Network,
    told: Arc<Told>,
}

impl Mesh {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(NodeClock::start(None).unwrap());
        let root = MeshRoot::from_seed(&[1; 32], clock.now().wall_ms).unwrap();
        Self { root, clock, air: Arc::default(), dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn address(seed: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, seed], 7_370))
    }

    fn settings(seed: u8) -> Settings {
        Settings { profile: Profile::LOCAL, ..Settings::new(BootId(seed.into())) }
    }

    /// An endpoint that a test drives itself: a member that keeps to no rule but TLS.
    pub(crate) fn endpoint(&self, seed: u8) -> Endpoint {
        self.bind(
            seed,
            Socket::Packets(Arc::new(Plug { air: Arc::clone(&self.air), address: Self::address(seed) })),
        )
    }

    fn bind(&self, seed: u8, socket: Socket) -> Endpoint {
        let credentials = self.credentials(seed);
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        Endpoint::bind(socket, credentials, Arc::new(Admission::default()), clock, Self::settings(seed))
            .unwrap()
    }

    fn credentials(&self, seed: u8) -> Credentials {
        let key = NodeKey::from_seed(&[seed; 32]);
        let leaf = self.root.issue(key.node(), self.clock.now().wall_ms).unwrap();
        Credentials { key, leaf, root: self.root.certificate().clone() }
    }

    fn advertisement(seed: u8) -> Advertisement {
        Advertisement {
            name: format!("n{seed}").parse().unwrap(),
            addresses: vec![Self::address(seed)],
            protocol: ProtocolRange { min: 1, max: 1 },
            build: "test".to_owned(),
            capabilities: Capabilities::default(),
            load: Load::default(),
            agents: Vec::new(),
        }
    }

    /// What a member would say of itself that the test drives.
    pub(crate) fn record(&self, seed: u8) -> SignedRecord {
        let credentials = self.credentials(seed);
        let record = NodeRecord {
            mesh: self.root.certificate().key().mesh(),
            node: credentials.key.node(),
            certificate: Certificate::from_der(credentials.leaf.as_der().to_vec()),
            version: RecordVersion { epoch: 1, ver: 1 },
            lifecycle: Lifecycle::Up,
            advertisement: Self::advertisement(seed),
            wall_ms: self.clock.now().wall_ms,
        };
        record.sign(&SigningKey::from_bytes(&[seed; 32])).unwrap()
    }

    /// A member that grants everything, and knows these records.
    pub(crate) fn start(&self, seed: u8, stored: Vec<SignedRecord>) -> Member {
        self.start_as(seed, stored, Self::advertisement(seed))
    }

    /// The same, and it tells nobody where it is: only it can dial.
    pub(crate) fn start_hidden(&self, seed: u8, stored: Vec<SignedRecord>) -> Member {
        let hidden = Advertisement { addresses: Vec::new(), ..Self::advertisement(seed) };
        self.start_as(seed, stored, hidden)
    }

    fn start_as(&self, seed: u8, stored: Vec<SignedRecord>, advertisement: Advertisement) -> Member {
        let credentials = self.credentials(seed);
        let (id, address) = (credentials.key.node(), Self::address(seed));
        let paths = Arc::new(Paths::default());
        let relayed = self.bind(seed, Socket::Paths(Arc::clone(&paths)));
        let file: PathBuf = self.dir.path().join(format!("{seed}.redb"));
        let parts = Parts {
            endpoint: self.endpoint(seed),
            relayed,
            paths,
            identity: Identity {
                root: *self.root.certificate().key(),
                node: id,
                certificate: Certificate::from_der(credentials.leaf.as_der().to_vec()),
                epoch: 1,
            },
            randomness: Randomness::SYSTEM,
            key: credentials.key.clone(),
            root: *self.root.certificate().key(),
            admission: Arc::new(Admission::default()),
            clock: Arc::clone(&self.clock) as _,
            advertisement,
            stored,
            revocations: None,
            delivery: Delivery::new(Arc::new(Database::create_file(&file).unwrap()), Randomness::SYSTEM),
        };
        let told = Arc::new(Told(Mutex::new(Grant::from(Trust::Mine))));
        let (network, _driver) = Network::start(parts, Arc::clone(&told) as Arc<dyn Observer>);
        Member { id, address, network, told }
    }
}

impl Member {
    /// Grants this to everybody from now on.
    pub(crate) fn grants(&self, trust: Trust) {
        *self.told.0.lock().unwrap() = Grant::from(trust);
    }

    /// Its record, for another to begin with.
    pub(crate) async fn record(&self) -> SignedRecord {
        until("it signs its record", || self.network.signed_record(self.id)).await
    }

    pub(crate) fn state(&self, peer: &Member) -> Option<PeerState> {
        self.network.view().peers.iter().find(|seen| seen.node == peer.id).map(|seen| seen.state)
    }

    /// The way to a peer, once it is as it should be.
    pub(crate) async fn path_when(&self, peer: &Member, what: &str, holds: impl Fn(Path) -> bool) -> Path {
        until(what, || self.network.path(peer.id).filter(|path| holds(*path))).await
    }
}

/// Waits until there is something.
pub(crate) async fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + WITHIN;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
