//! The network side of a node: its endpoint, the network over it, and the lookout that puts together what is seen.

use std::net::SocketAddr;
use std::sync::Arc;

use mesh_node_core::membership::Identity;
use mesh_protocol::address::Name;
use mesh_protocol::certificate::Certificate;
use mesh_protocol::record::Lifecycle;
use tokio::task::JoinHandle;

use super::NodeError;
use super::durable::Durable;
use super::lookout::{self, Lookout};
use super::start::Start;
use crate::network::{Network, Observer, Parts};
use crate::randomness::Randomness;
use crate::transport::{Endpoint, Paths, Settings, Socket};

/// What the network side is made of, beside what runs already.
pub(super) struct Given {
    pub(super) name: Name,
    pub(super) socket: Socket,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) settings: Settings,
    pub(super) randomness: Randomness,
}

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
    pub(super) fn start(start: &Start, durable: &Durable, given: Given) -> Result<Self, NodeError> {
        let Given { name, socket, addresses, settings, randomness } = given;
        let (admission, clock) = (&durable.admission, &durable.clock);
        let credentials = start.credentials.clone();
        let endpoint = Endpoint::bind(
            socket,
            credentials.clone(),
            Arc::clone(admission),
            Arc::clone(clock),
            settings.clone(),
        )?;
        let local_address = endpoint.local_address().map_err(NodeError::System)?;
        let paths = Arc::new(Paths::default());
        let carried = Socket::Paths(Arc::clone(&paths));
        let relayed =
            Endpoint::bind(carried, credentials, Arc::clone(admission), Arc::clone(clock), settings)?;
        let me = start.credentials.key.node();
        let lookout = Lookout::new(lookout::Parts {
            me,
            name,
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
            identity: Identity {
                root,
                node: me,
                certificate: Certificate::from_der(start.credentials.leaf.as_der().to_vec()),
                epoch: start.epoch,
            },
            key: start.credentials.key.clone(),
            root,
            admission: Arc::clone(admission),
            clock: Arc::clone(clock),
            randomness,
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

    /// Ends all of it at once, as a crash does.
    pub(super) fn kill(&self) {
        self.looking.abort();
        self.driving.abort();
        self.network.cut();
    }

    /// Stops looking. The links are gone.
    pub(super) async fn stop(self) {
        self.looking.abort();
        // One that broke has nothing left to do either.
        let _ = self.driving.await;
    }
}
