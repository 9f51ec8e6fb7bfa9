//! A mesh of homes that have never run: what `init` and `join` leave behind, made from a seed.

use std::net::SocketAddr;

use ed25519_dalek::SigningKey;
use mesh_node::identity::{MeshRoot, NodeKey};
use mesh_node::storage::Database;
use mesh_node_core::policy::DefaultTrust;
use mesh_node_core::roster::{MemberRecord, Place, RootSecret};
use mesh_node_core::store::Overlay;
use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::policy::Trust;
use mesh_protocol::record::{
    Advertisement, Capabilities, Lifecycle, Load, NodeRecord, ProtocolRange, RecordVersion, SignedRecord,
};
use sha2::{Digest, Sha256};

use super::life::JOURNAL_BYTES;
use super::machine::name;
use super::time::START_WALL_MS;
use crate::disk::Disk;

/// Certificates are this old when a world begins, in milliseconds: older than any wall clock is set back.
const AGE_MS: u64 = 60 * 24 * 3_600_000;

/// A home.
pub(super) struct Member {
    pub(super) key: NodeKey,
    pub(super) disk: Disk,
    pub(super) address: SocketAddr,
}

/// The address of a machine.
pub(super) fn address(index: usize) -> SocketAddr {
    let low = u8::try_from(index % 200).unwrap_or(0) + 1;
    let high = u8::try_from(index / 200).unwrap_or(0);
    SocketAddr::from(([10, 0, high, low], 7_370))
}

/// Homes of one mesh: the first has its root, the others joined through the first.
pub(super) fn found(seed: [u8; 32], members: usize) -> anyhow::Result<Vec<Member>> {
    let made = START_WALL_MS - AGE_MS;
    let root_seed = derive(seed, "root", 0);
    let root = MeshRoot::from_seed(&root_seed, made)?;
    let key = |index| NodeKey::from_seed(&derive(seed, "key", index));
    let first = key(0).node();
    let record = first_record(&root, &derive(seed, "key", 0))?;
    let mut homes = Vec::with_capacity(members);
    for index in 0..members {
        let key = key(index);
        let place = Place {
            root_certificate: root.certificate().as_der().to_vec(),
            certificate: root.issue(key.node(), made)?.as_der().to_vec(),
            root: (index == 0).then_some(RootSecret { seed: root_seed, made_wall_ms: made }),
        };
        let disk = Disk::new();
        write(&disk, |tx| {
            tx.put(&(), &place);
            tx.put(&(), &DefaultTrust(Trust::Mine));
            if index > 0 {
                tx.put(&first, &MemberRecord(record.clone()));
            }
        })?;
        homes.push(Member { key, disk, address: address(index) });
    }
    Ok(homes)
}

fn write(disk: &Disk, fill: impl FnOnce(&mut Overlay<'_>)) -> anyhow::Result<()> {
    let backend = disk.clone();
    let database = Database::open_backends(move || backend.backends(JOURNAL_BYTES))?;
    let mut batch = database.begin()?;
    let mut tx = Overlay::new(&batch);
    fill(&mut tx);
    let changes = tx.into_changes();
    batch.apply(changes)?;
    Ok(batch.commit()?)
}

/// What the first member said of itself before its first start: an issuer's record as a joining node gets it.
fn first_record(root: &MeshRoot, seed: &[u8; 32]) -> anyhow::Result<SignedRecord> {
    let key = SigningKey::from_bytes(seed);
    let node = NodeId::from_bytes(key.verifying_key().to_bytes());
    let record = NodeRecord {
        mesh: root.certificate().key().mesh(),
        node,
        certificate: Certificate::from_der(root.issue(node, START_WALL_MS)?.as_der().to_vec()),
        version: RecordVersion { epoch: 0, ver: 1 },
        lifecycle: Lifecycle::Up,
        advertisement: Advertisement {
            name: name(0)?,
            addresses: vec![address(0)],
            protocol: ProtocolRange { min: 1, max: 1 },
            build: String::new(),
            capabilities: Capabilities::default(),
            load: Load::default(),
            agents: Vec::new(),
        },
        wall_ms: START_WALL_MS,
    };
    Ok(record.sign(&key)?)
}

/// A secret for one purpose.
pub(super) fn derive(seed: [u8; 32], purpose: &str, index: usize) -> [u8; 32] {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    Sha256::new().chain_update(seed).chain_update(purpose).chain_update(index.to_be_bytes()).finalize().into()
}
