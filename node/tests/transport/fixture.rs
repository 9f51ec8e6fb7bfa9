//! A small mesh on loopback, under a clock the test sets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mesh_node::clock::{Clock, ClockRow};
use mesh_node::identity::{Admission, Credentials, MeshRoot, NodeKey};
use mesh_node::transport::{Connection, DialError, Endpoint, Settings, Socket};
use mesh_node_core::links::Attempt;
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;
use mesh_protocol::revocation::{Revocation, RevocationList};

/// When every test begins: some day in 2025.
pub(crate) const START_WALL_MS: u64 = 1_750_000_000_000;
pub(crate) const YEAR_MS: u64 = 365 * 24 * 3_600 * 1_000;
/// Longer than anything on loopback takes, so that a test that waits in vain fails instead of hanging.
pub(crate) const SOON: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    pub(crate) fn at(wall_ms: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(wall_ms)))
    }
}

impl Clock for HandClock {
    fn now(&self) -> Now {
        Now { node: NodeTime(0), wall_ms: self.0.load(Ordering::Relaxed) }
    }

    fn row(&self) -> ClockRow {
        ClockRow { node: NodeTime(0), boot_id: 0, boot_ms: 0, wall_ms: self.now().wall_ms }
    }
}

pub(crate) struct Mesh {
    pub(crate) root: MeshRoot,
}

impl Mesh {
    pub(crate) fn new(seed: u8) -> Self {
        Self { root: MeshRoot::from_seed(&[seed; 32], START_WALL_MS).unwrap() }
    }

    pub(crate) fn credentials(&self, seed: u8) -> Credentials {
        let key = NodeKey::from_seed(&[seed; 32]);
        let leaf = self.root.issue(key.node(), START_WALL_MS).unwrap();
        Credentials { key, leaf, root: self.root.certificate().clone() }
    }

    pub(crate) fn member(&self, seed: u8) -> Member {
        Member::start(self.credentials(seed), START_WALL_MS, settings(seed))
    }

    pub(crate) fn revoke(&self, ver: u64, nodes: &[NodeId]) -> RevocationList {
        let entry = |node: &NodeId| Revocation { node: *node, reason: "lost".into(), at_wall_ms: 0 };
        self.root.revoke(ver, nodes.iter().map(entry).collect()).unwrap()
    }
}

pub(crate) fn settings(seed: u8) -> Settings {
    Settings::new(BootId(seed.into()))
}

pub(crate) struct Member {
    pub(crate) id: NodeId,
    pub(crate) admission: Arc<Admission>,
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
}

impl Member {
    pub(crate) fn start(credentials: Credentials, wall_ms: u64, settings: Settings) -> Self {
        Self::start_at(loopback_socket(), credentials, wall_ms, settings)
    }

    pub(crate) fn start_at(
        socket: UdpSocket,
        credentials: Credentials,
        wall_ms: u64,
        settings: Settings,
    ) -> Self {
        let (id, admission) = (credentials.key.node(), Arc::new(Admission::default()));
        let clock = HandClock::at(wall_ms);
        let endpoint =
            Endpoint::bind(Socket::Udp(socket), credentials, Arc::clone(&admission), clock, settings)
                .unwrap();
        let address = endpoint.local_address().unwrap();
        Self { id, admission, endpoint, address }
    }

    pub(crate) async fn dial(&self, to: &Member) -> Result<Connection, DialError> {
        self.dial_at(to.id, to.address).await
    }

    pub(crate) async fn dial_at(&self, peer: NodeId, address: SocketAddr) -> Result<Connection, DialError> {
        soon(self.endpoint.dial(peer, 1, &plan(&[address]))).await
    }

    pub(crate) async fn accept(&self) -> Connection {
        soon(self.endpoint.accept()).await.expect("the endpoint is open")
    }
}

/// Both ends of one connection.
pub(crate) async fn connect(dialler: &Member, listener: &Member) -> (Connection, Connection) {
    let (dialled, accepted) = tokio::join!(dialler.dial(listener), listener.accept());
    (dialled.unwrap(), accepted)
}

pub(crate) fn plan(addresses: &[SocketAddr]) -> Vec<Attempt> {
    mesh_node_core::links::plan(addresses, None, 0)
}

pub(crate) fn loopback_socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("this happens soon")
}
