//! The directory: the newest signed record of every member, with one hash over all of them.
//!
//! The hash is over the hashes of 256 buckets, which are over the records of all nodes whose id begins with the same
//! byte. So a record that comes costs one bucket and not a pass over everything, and two large directories find out
//! where they differ before they compare rows.
//!
//! It keeps what verifies and orders it; it knows nothing of liveness, and nothing here is ever removed but by
//! [`Directory::forget`]. Two directories with the same records have the same root whatever order they came in.
//!
//! Order among one owner's records: version, then the bytes. The second only matters when an owner's disk was set back
//! and it signed two records of one version; then everybody keeps the same one until the owner overtakes both.

pub mod exchange;

use std::collections::BTreeMap;

use mesh_protocol::id::NodeId;
use mesh_protocol::record::{Lifecycle, NodeRecord, RecordVersion, SignedRecord, Unchecked, VerifiedRecord};
use mesh_protocol::sync::{BUCKETS, BucketHash, IdPrefix, MEMBERS_MAX, VersionMark};
use sha2::{Digest as _, Sha256};

/// One member's newest record.
#[derive(Debug, Clone)]
pub struct Entry {
    verified: VerifiedRecord,
    mark: VersionMark,
    hash: [u8; 16],
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
    buckets: Vec<BucketHash>,
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
        let nothing: [&[u8]; 0] = [];
        let buckets = vec![short_hash(nothing); BUCKETS];
        let root = short_hash(&buckets);
        Self { entries: BTreeMap::new(), buckets, root }
    }

    /// The hash over all records: equal roots, equal directories.
    #[must_use]
    pub const fn root(&self) -> [u8; 16] {
        self.root
    }

    /// The hash over each bucket, [`BUCKETS`] of them.
    #[must_use]
    pub fn buckets(&self) -> &[BucketHash] {
        &self.buckets
    }

    /// How many records are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Which signatures [`Directory::take`] needs checked before it is given this record: none when it would not take
    /// it, and of a certificate that is here already not the root's again.
    #[must_use]
    pub fn unchecked(&self, record: &NodeRecord, signed: &SignedRecord) -> Unchecked {
        match self.entries.get(&record.node) {
            None => Unchecked::Both,
            Some(held) if order(&held.verified) >= (record.version, signed.body.as_slice()) => {
                Unchecked::None
            }
            Some(held) if held.record().certificate == record.certificate => Unchecked::Owner,
            Some(_) => Unchecked::Both,
        }
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
        self.hash_bucket_of(&node);
        if replaced.is_some() { Taken::Newer } else { Taken::New }
    }

    /// Removes a node's record, if there is one.
    pub fn forget(&mut self, node: &NodeId) {
        if self.entries.remove(node).is_some() {
            self.hash_bucket_of(node);
        }
    }

    /// The member whose id begins so.
    pub(crate) fn node_of(&self, short: &IdPrefix) -> Option<NodeId> {
        self.by_prefix(short).map(|(node, _)| *node)
    }

    /// The entry whose id begins so.
    fn by_prefix(&self, wanted: &IdPrefix) -> Option<(&NodeId, &Entry)> {
        let mut first = [0; 32];
        first.split_at_mut(wanted.len()).0.copy_from_slice(wanted);
        let found = self.entries.range(NodeId::from_bytes(first)..).next()?;
        (prefix(found.0) == *wanted).then_some(found)
    }

    fn in_bucket(&self, bucket: u8) -> impl Iterator<Item = (&NodeId, &Entry)> {
        let (mut first, mut last) = ([0; 32], [0xff; 32]);
        let ([low, ..], [high, ..]) = (&mut first, &mut last);
        (*low, *high) = (bucket, bucket);
        self.entries.range(NodeId::from_bytes(first)..=NodeId::from_bytes(last))
    }

    fn hash_bucket_of(&mut self, node: &NodeId) {
        let [bucket, ..] = *node.as_bytes();
        let hash = short_hash(self.in_bucket(bucket).map(|(_, entry)| &entry.hash));
        if let Some(held) = self.buckets.get_mut(usize::from(bucket)) {
            *held = hash;
        }
        self.root = short_hash(&self.buckets);
    }
}

impl Entry {
    /// What the record says.
    #[must_use]
    pub fn record(&self) -> &NodeRecord {
        self.verified.record()
    }

    /// The record as it is passed on.
    #[must_use]
    pub fn signed(&self) -> &SignedRecord {
        self.verified.signed()
    }

    /// The record as it was verified.
    #[must_use]
    pub const fn verified(&self) -> &VerifiedRecord {
        &self.verified
    }

    fn new(verified: VerifiedRecord) -> Self {
        let hash = short_hash([&verified.signed().body]);
        let [h0, h1, ..] = hash;
        Self { mark: VersionMark::new(verified.record().version, [h0, h1]), verified, hash }
    }

    fn is_older_than(&self, other: &VerifiedRecord) -> bool {
        order(&self.verified) < order(other)
    }
}

/// The first half of a SHA-256 over all parts, one after the other.
fn short_hash(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let full: [u8; 32] = hash.finalize().into();
    let mut short = [0; 16];
    short.copy_from_slice(full.split_at(16).0);
    short
}

fn order(of: &VerifiedRecord) -> (RecordVersion, &[u8]) {
    (of.record().version, &of.signed().body)
}

pub(crate) fn prefix(node: &NodeId) -> IdPrefix {
    let [p0, p1, p2, p3, p4, p5, p6, p7, ..] = *node.as_bytes();
    [p0, p1, p2, p3, p4, p5, p6, p7]
}
