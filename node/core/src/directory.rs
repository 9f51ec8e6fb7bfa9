//! The directory: the newest signed record of every member, with one hash over all of them.
//!
//! It keeps what verifies and orders it; it knows nothing of liveness, and nothing here is ever removed but by
//! [`Directory::forget`]. Two directories with the same records have the same root whatever order they came in.
//!
//! Order among one owner's records: version, then the bytes. The second only matters when an owner's disk was set back
//! and it signed two records of one version; then everybody keeps the same one until the owner overtakes both.

pub mod exchange;

use std::collections::BTreeMap;

use mesh_protocol::id::{MeshId, NodeId};
use mesh_protocol::record::{Lifecycle, NodeRecord, RecordError, RecordVersion, SignedRecord};
use mesh_protocol::sync::{IdPrefix, MEMBERS_MAX, VersionMark};
use sha2::{Digest as _, Sha256};

/// One member's newest record.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it says.
    pub record: NodeRecord,
    /// The owner's bytes and signature, as they are passed on.
    pub signed: SignedRecord,
    mark: VersionMark,
    hash: [u8; 32],
}

/// What became of a record that verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The first one of its node.
    New(NodeId),
    /// Replaced an older one.
    Newer(NodeId),
    /// Not newer than the one that is here, or the farewell of a node nobody here knew.
    Stale(NodeId),
    /// No room for another member: [`MEMBERS_MAX`] are here.
    NoRoom(NodeId),
}

/// The newest record of every member of one mesh.
#[derive(Debug, Clone)]
pub struct Directory {
    mesh: MeshId,
    entries: BTreeMap<NodeId, Entry>,
    root: [u8; 16],
}

impl Directory {
    /// A directory without records.
    #[must_use]
    pub fn new(mesh: MeshId) -> Self {
        let mut empty = Self { mesh, entries: BTreeMap::new(), root: [0; 16] };
        empty.hash_all();
        empty
    }

    /// The mesh whose records it takes.
    #[must_use]
    pub const fn mesh(&self) -> MeshId {
        self.mesh
    }

    /// The hash over all records: equal roots, equal directories.
    #[must_use]
    pub const fn root(&self) -> [u8; 16] {
        self.root
    }

    /// The entry of a node.
    #[must_use]
    pub fn get(&self, node: &NodeId) -> Option<&Entry> {
        self.entries.get(node)
    }

    /// The version of a node's record.
    #[must_use]
    pub fn version(&self, node: &NodeId) -> Option<RecordVersion> {
        self.entries.get(node).map(|entry| entry.record.version)
    }

    /// All entries, by node.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &Entry)> {
        self.entries.iter()
    }

    /// Checks a record and keeps it if it is newer than what is here.
    ///
    /// # Errors
    /// [`RecordError`] when it does not verify for this mesh; nothing changed.
    pub fn take(&mut self, signed: SignedRecord) -> Result<Taken, RecordError> {
        let record = signed.open(self.mesh)?;
        let node = record.node;
        match self.entries.get(&node) {
            None if record.lifecycle == Lifecycle::Left => return Ok(Taken::Stale(node)),
            None if self.entries.len() >= MEMBERS_MAX => return Ok(Taken::NoRoom(node)),
            Some(held) if !held.is_older_than(&record, &signed) => return Ok(Taken::Stale(node)),
            None | Some(_) => {}
        }
        let replaced = self.entries.insert(node, Entry::new(record, signed));
        self.hash_all();
        Ok(if replaced.is_some() { Taken::Newer(node) } else { Taken::New(node) })
    }

    /// Removes a node's record, if there is one.
    pub fn forget(&mut self, node: &NodeId) {
        if self.entries.remove(node).is_some() {
            self.hash_all();
        }
    }

    fn by_prefix(&self) -> BTreeMap<IdPrefix, (&NodeId, &Entry)> {
        self.entries.iter().map(|(node, entry)| (prefix(node), (node, entry))).collect()
    }

    fn hash_all(&mut self) {
        let mut hash = Sha256::new();
        for entry in self.entries.values() {
            hash.update(entry.hash);
        }
        let full: [u8; 32] = hash.finalize().into();
        self.root.copy_from_slice(full.split_at(16).0);
    }
}

impl Entry {
    fn new(record: NodeRecord, signed: SignedRecord) -> Self {
        let hash: [u8; 32] = Sha256::digest(&signed.body).into();
        let [h0, h1, ..] = hash;
        Self { mark: VersionMark::new(record.version, [h0, h1]), record, signed, hash }
    }

    fn is_older_than(&self, record: &NodeRecord, signed: &SignedRecord) -> bool {
        (self.record.version, &self.signed.body) < (record.version, &signed.body)
    }
}

fn prefix(node: &NodeId) -> IdPrefix {
    let [p0, p1, p2, p3, p4, p5, p6, p7, ..] = *node.as_bytes();
    [p0, p1, p2, p3, p4, p5, p6, p7]
}
