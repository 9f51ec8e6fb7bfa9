//! The network side of a node: its endpoint, the network over it, and the lookout that puts together what is seen.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use mesh_node_core::membership::Identity;
use mesh_protocol::address::Name;
use mesh_protocol::peer::BootId;
use mesh_protocol::record::Lifecycle;
use tokio::task::JoinHandle;

use super::durable::Durable;
use super::lookout::{self, Lookout};
use super::start::Start;
use super::{NodeError, addresses};
use crate::network::{Network, Observer, Parts};
use crate::transport::{Endpoint, Paths, Settings, Socket};

/// The running network side.
pub(super) struct Reach {
    pub(super) network: Network,
    pub(super) lookout: Arc<Lookout>,
    /// Where members reach this node, as they are told.
    pub(super) addresses: Vec<SocketAddr>,
    /// Where its socket is.
    pub(super) local_address: SocketAddr,
    driving: JoinHandle<()>,
    looking: JoinHandle<()>,
}

impl Reach {
    /// Begins to keep links on this socket.
    pub(super) fn start(
        start: &Start,
        name: &Name,
        durable: &Durable,
        socket: UdpSocket,
    ) -> Result<Self, NodeError> {
        let local_address = socket.local_addr().map_err(NodeError::System)?;
        let addresses = addresses::advertised(&start.config.node.advertise, local_address);
        let mut settings = Settings::new(BootId(rand::random()));
        settings.profile = addresses::profile(&addresses);
        let (admission, clock) = (&durable.admission, &durable.clock);
        let credentials = start.credentials.clone();
        let endpoint = Endpoint::bind(
            Socket::Udp(socket),
            credentials,
            Arc::clone(admission),
            Arc::clone(clock),
            settings.clone(),
        )?;
        let paths = Arc::new(Paths::default());
        let relayed = Endpoint::bind(
            Socket::Paths(Arc::clone(&paths)),
            start.credentials.clone(),
            Arc::clone(admission),
            Arc::clone(clock),
            settings,
        )?;
        let me = start.credentials.key.node();
        let lookout = Lookout::new(lookout::Parts {
            me,
            name: name.clone(),
            agents: Arc::clone(&durable.agents),
            executor: durable.executor.clone(),
            admission: Arc::clone(admission),
            database: Arc::clone(&start.database),
            writer: durable.writer.clone(),
            clock: Arc::clone(clock),
            addresses: addresses.clone(),
            view: Arc::clone(&durable.view),
        });
        let root = *start.credentials.root.key();
        let parts = Parts {
            endpoint,
            relayed,
            paths,
            identity: Identity { mesh: root.mesh(), node: me, epoch: start.epoch },
            key: start.credentials.key.clone(),
            root,
            admission: Arc::clone(admission),
            clock: Arc::clone(clock),
            advertisement: lookout.advertisement(),
            stored: start.roster.records.clone(),
            revocations: start.revocations.clone(),
            delivery: Arc::clone(&durable.delivery),
        };
        let (network, driving) = Network::start(parts, Arc::clone(&lookout) as Arc<dyn Observer>);
        let looking = tokio::spawn(Arc::clone(&lookout).run(network.clone()));
        Ok(Self { network, lookout, addresses, local_address, driving, looking })
    }

    /// Tells the others that this node stops, and ends the links.
    pub(super) async fn farewell(&self) {
        self.network.farewell(Lifecycle::Leaving).await;
    }

    /// Stops looking. The links are gone.
    pub(super) async fn stop(self) {
        self.looking.abort();
        // One that broke has nothing left to do either.
        let _ = self.driving.await;
    }
}
