//! What a node reads of its database before anything of it runs. It starts nothing; the one thing it writes is that there was
//! one more start.

use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::roster::{self, Roster};
use mesh_node_core::store::Overlay;
use mesh_protocol::revocation::RevocationList;

use super::NodeError;
use crate::identity::{Credentials, Leaf, MeshRoot, NodeKey, RootCertificate};
use crate::storage::Database;

/// How long tasks that have just ended may hold the database.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks at whether they do.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What was read before anything runs.
pub(super) struct Start {
    pub(super) database: Arc<Database>,
    pub(super) roster: Roster,
    pub(super) epoch: u64,
    pub(super) credentials: Credentials,
    pub(super) root: Option<Arc<MeshRoot>>,
    pub(super) revocations: Option<RevocationList>,
}

impl Start {
    /// Reads who this node is, and counts this start before anything is said.
    pub(super) fn read(key: NodeKey, database: Arc<Database>) -> Result<Self, NodeError> {
        let roster = Roster::read(&database.snapshot()?)?;
        let place = roster.place.clone().ok_or(NodeError::NoPlace)?;
        let root_certificate = RootCertificate::from_der(place.root_certificate)?;
        let leaf = Leaf::from_der(place.certificate);
        let certificate = leaf.node()?;
        if certificate != key.node() {
            return Err(NodeError::OtherKey { key: key.node(), certificate });
        }
        let root = match &place.root {
            Some(secret) => Some(Arc::new(MeshRoot::from_seed(&secret.seed, secret.made_wall_ms)?)),
            None => None,
        };
        let list =
            roster.revocations.as_deref().map(|bytes| RevocationList::verify(bytes, root_certificate.key()));
        let revocations = list.transpose()?;
        let credentials = Credentials { key, leaf, root: root_certificate };
        let epoch = count_start(&database)?;
        Ok(Self { database, roster, epoch, credentials, root, revocations })
    }
}

impl Start {
    /// Waits until nobody reads the database any more: tasks of connections that have just ended hold it for a moment
    /// longer, and the home's lock must not go before it.
    pub(super) async fn released(self) {
        let deadline = tokio::time::Instant::now() + RELEASED_WITHIN;
        while Arc::strong_count(&self.database) > 1 {
            if tokio::time::Instant::now() > deadline {
                tracing::warn!("something still reads the database; it is closed with the process");
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn count_start(database: &Database) -> Result<u64, NodeError> {
    let mut batch = database.begin()?;
    let (epoch, changes) = {
        let mut tx = Overlay::new(&batch);
        let epoch = roster::count_start(&mut tx)?;
        (epoch, tx.into_changes())
    };
    batch.apply(changes)?;
    batch.commit()?;
    Ok(epoch)
}
