//! What is compared when a run is over: what the nodes say, and what the ledger says.

use std::collections::{BTreeMap, BTreeSet};

use mesh_node::service::{Principal, Service as _};
use mesh_node_core::broker::conversation::Message;
use mesh_node_core::outbox::{self, DeliveryReport};
use mesh_node_core::store::scan_prefix;
use mesh_protocol::api::ask::FlightView;
use mesh_protocol::api::job::JobView;
use mesh_protocol::api::node::PeerOutbox;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{MeshView, PeerState};
use mesh_protocol::record::{RecordVersion, SignedRecord};

use super::agent::Script;
use super::ledger::{Book, Number};
use super::machine::Running;
use super::scenario::Scenario;
use super::world::World;

/// Rows read of one kind: more than any scenario makes.
const ROWS_MAX: usize = 100_000;

/// A node that saw another as unreachable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// When, in virtual milliseconds.
    pub at_ms: u64,
    /// Who.
    pub observer: usize,
    /// Whom.
    pub peer: NodeId,
    /// Why.
    pub cause: String,
}

/// What one node says in the end.
#[derive(Debug)]
pub struct NodeFacts {
    /// Who it is.
    pub id: NodeId,
    /// Asks that began here.
    pub flights: BTreeMap<Number, FlightView>,
    /// Jobs asked for here.
    pub jobs: BTreeMap<Number, JobView>,
    /// Messages recorded here, each with how often.
    pub messages: BTreeMap<Number, u64>,
    /// Restored disks and gaps it found.
    pub reports: Vec<DeliveryReport>,
    /// The newest records it has.
    pub records: BTreeMap<NodeId, SignedRecord>,
    /// How it sees the others.
    pub view: MeshView,
    /// What waits for the others.
    pub outboxes: Vec<PeerOutbox>,
    /// Events its writer could not handle.
    pub quarantined: u64,
}

/// Bodies of records, by owner and version.
pub(super) type Bodies = BTreeMap<(NodeId, RecordVersion), BTreeSet<Vec<u8>>>;

/// All of it.
#[derive(Debug)]
pub struct Facts {
    /// What was played.
    pub scenario: Scenario,
    /// What the nodes say, by machine.
    pub nodes: BTreeMap<usize, NodeFacts>,
    /// What really happened.
    pub book: Book,
    /// Nodes seen as unreachable, once everybody had met.
    pub sightings: Vec<Sighting>,
    /// Nodes that some other node called a duplicate.
    pub duplicates: BTreeSet<NodeId>,
    /// Bodies of records as they were seen, by owner and version: whoever shows another one made it up.
    pub bodies: Bodies,
    /// How long the healed world took to come to rest, in virtual milliseconds; `None` when it did not.
    pub rests_after_ms: Option<u64>,
    /// Tasks at work in the end, over all nodes.
    pub tasks: usize,
}

impl NodeFacts {
    /// What a running node says.
    async fn of(world: &World, index: usize) -> anyhow::Result<Option<Self>> {
        let Some(machine) = world.machines.get(index) else { return Ok(None) };
        let Some(Running { node, local, .. }) = &machine.running else { return Ok(None) };
        let (asks, runs) = {
            let book = world.outside.ledger.book();
            let asks: Vec<Number> =
                book.asks.iter().filter(|(_, entry)| entry.from == index).map(|(n, _)| *n).collect();
            let runs: Vec<Number> =
                book.jobs.iter().filter(|(_, entry)| entry.from == index).map(|(n, _)| *n).collect();
            (asks, runs)
        };
        let (mut flights, mut jobs, mut messages) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for number in asks {
            flights.extend(world.flight(number).await.map(|view| (number, view)));
        }
        for number in runs {
            jobs.extend(world.job(number).await.map(|view| (number, view)));
        }
        // Closed while it recovers from a disk that failed: then the node says nothing for a moment.
        let Ok(snapshot) = local.database.snapshot() else { return Ok(None) };
        for (_, message) in scan_prefix::<Message>(&snapshot, &(), ROWS_MAX)? {
            if let Some(script) = Script::read(&message.body) {
                *messages.entry(script.number).or_default() += 1;
            }
        }
        let view = node.network().view();
        let everybody = view.peers.iter().map(|peer| peer.node).chain([machine.id]);
        let record = |node_id| Some((node_id, node.network().signed_record(node_id)?));
        Ok(Some(Self {
            id: machine.id,
            flights,
            jobs,
            messages,
            reports: outbox::reports(&snapshot, ROWS_MAX)?,
            records: everybody.filter_map(record).collect(),
            outboxes: local.outboxes(&Principal::Operator).await.unwrap_or_default(),
            quarantined: node.writer().counts().quarantined,
            view,
        }))
    }

    /// What every running node says.
    pub(super) async fn of_all(world: &World) -> anyhow::Result<BTreeMap<usize, Self>> {
        let mut all = BTreeMap::new();
        for index in 0..world.len() {
            all.extend(Self::of(world, index).await?.map(|facts| (index, facts)));
        }
        Ok(all)
    }

    /// Whether this node waits for nobody and sees everybody.
    pub(super) fn rests(&self, others: usize) -> bool {
        self.flights.values().all(|flight| flight.terminal)
            && self.jobs.values().all(|job| job.terminal)
            && self.outboxes.iter().all(|outbox| outbox.outbox.count == 0)
            && self.view.peers.iter().filter(|peer| peer.state == PeerState::Alive).count() == others
    }
}

impl Facts {
    /// The machine a node runs on.
    pub(super) fn machine_of(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().find(|(_, facts)| facts.id == node).map(|(index, _)| *index)
    }
}
