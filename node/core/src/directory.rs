//! The directory: the newest signed record of every member, with one hash over all of them.
//!
//! It keeps what verifies and orders it; it knows nothing of liveness, and nothing here is ever removed but by
//! [`Directory::forget`]. Two directories with the same records have the same root whatever order they came in.
//!
//! Order among one owner's records: version, then the bytes. The second only matters when an owner's disk was set back
//! and it signed two records of one version; then everybody keeps the same one until the owner overtakes both.

pub mod exchange;

use std::collections::BTreeMap;

use mesh_protocol::id::NodeId;
use mesh_protocol::record::{Lifecycle, NodeRecord, RecordVersion, SignedRecord, VerifiedRecord};
use mesh_protocol::sync::{IdPrefix, MEMBERS_MAX, VersionMark};
use sha2::{Digest as _, Sha256};

/// One member's newest record.
#[derive(Debug, Clone)]
pub struct Entry {
    verified: VerifiedRecord,
    mark: VersionMark,
    hash: [u8; 32],
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The first one of its node.
    New,
    /// Replaced an older one.
    Newer,
    /// Not newer than the one that is here, or the farewell of a node nobody here knew.
    Stale,
    /// No room for another member: [`MEMBERS_MAX`] are here.
    NoRoom,
}

/// The newest record of every member. All of one mesh: whoever verifies them says of which.
#[derive(Debug, Clone)]
pub struct Directory {
    entries: BTreeMap<NodeId, Entry>,
    root: [u8; 16],
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

impl Directory {
    /// A directory without records.
    #[must_use]
    pub fn new() -> Self {
        let mut empty = Self { entries: BTreeMap::new(), root: [0; 16] };
        empty.hash_all();
        empty
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
        self.entries.get(node).map(|entry| entry.record().version)
    }

    /// All entries, by node.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeId, &Entry)> {
        self.entries.iter()
    }

    /// Keeps a record if it is newer than what is here.
    pub fn take(&mut self, verified: VerifiedRecord) -> Taken {
        let record = verified.record();
        let node = record.node;
        match self.entries.get(&node) {
            None if record.lifecycle == Lifecycle::Left => return Taken::Stale,
            None if self.entries.len() >= MEMBERS_MAX => return Taken::NoRoom,
            Some(held) if !held.is_older_than(&verified) => return Taken::Stale,
            None | Some(_) => {}
        }
        let replaced = self.entries.insert(node, Entry::new(verified));
        self.hash_all();
        if replaced.is_some() { Taken::Newer } else { Taken::New }
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
    /// What the record says.
    #[must_use]
    pub const fn record(&self) -> &NodeRecord {
        self.verified.record()
    }

    /// The record as it is passed on.
    #[must_use]
    pub const fn signed(&self) -> &SignedRecord {
        self.verified.signed()
    }

    fn new(verified: VerifiedRecord) -> Self {
        let hash: [u8; 32] = Sha256::digest(&verified.signed().body).into();
        let [h0, h1, ..] = hash;
        Self { mark: VersionMark::new(verified.record().version, [h0, h1]), verified, hash }
    }

    fn is_older_than(&self, other: &VerifiedRecord) -> bool {
        order(&self.verified) < order(other)
    }
}

fn order(of: &VerifiedRecord) -> (RecordVersion, &[u8]) {
    (of.record().version, &of.signed().body)
}

fn prefix(node: &NodeId) -> IdPrefix {
    let [p0, p1, p2, p3, p4, p5, p6, p7, ..] = *node.as_bytes();
    [p0, p1, p2, p3, p4, p5, p6, p7]
}
