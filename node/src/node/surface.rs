//! The surface of a node: its join port and what it answers local programs.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use mesh_protocol::ticket::TicketKey;
use tokio_util::sync::CancellationToken;

use super::Node;
use crate::doorkeeper::{self, Doorkeeper};
use crate::local::Local;

/// What answers local programs.
pub(super) struct Surface(pub(super) Arc<Local>);

impl Surface {
    /// Puts it together from the running parts, and starts the doorkeeper.
    pub(super) fn open(home: &Path, node: &Node, stopping: &CancellationToken) -> Self {
        let Node { start, name, clock, job_policy, durable, reach } = node;
        let ticket_key = TicketKey::new(start.credentials.key.derive_secret(b"mesh-tickets"));
        let door = Doorkeeper::start(doorkeeper::Parts {
            root: start.root.clone(),
            credentials: start.credentials.clone(),
            ticket_key: ticket_key.clone(),
            admission: Arc::clone(&durable.admission),
            clock: Arc::clone(&durable.clock),
            database: Arc::clone(&start.database),
            writer: durable.writer.clone(),
            network: reach.network.clone(),
            member_address: reach.local_address,
            advertised: reach.addresses.clone(),
        });
        Self(Arc::new(Local {
            me: start.credentials.key.node(),
            name: name.clone(),
            home: home.to_owned(),
            database: Arc::clone(&start.database),
            writer: durable.writer.clone(),
            delivery: Arc::clone(&durable.delivery),
            clock: Arc::clone(clock),
            network: reach.network.clone(),
            agents: Arc::clone(&durable.agents),
            view: reach.lookout.view(),
            changes: durable.changes.clone(),
            executor: durable.executor.clone(),
            jobs: Arc::clone(&durable.jobs),
            job_policy: *job_policy,
            probes: durable.probes.clone(),
            admission: Arc::clone(&durable.admission),
            root_key: *start.credentials.root.key(),
            root: start.root.clone(),
            ticket_key,
            door,
            addresses: reach.addresses.clone(),
            started: Instant::now(),
            stopping: stopping.clone(),
            revoking: tokio::sync::Mutex::default(),
        }))
    }
}
