//! Rows about the mesh itself: who this node is in it, whose records it has, who was shut out.
//!
//! Written at founding and joining, and by the events that change them; read at every start. The node's private key is
//! not here: it is a file.

use mesh_protocol::id::NodeId;
use mesh_protocol::record::SignedRecord;
use serde::{Deserialize, Serialize};

use crate::store::{Overlay, Record, Store, StoreError, Table, get, scan_prefix};

/// Members whose records are read back at a start.
const MEMBERS_READ_MAX: usize = 20_000;

/// This node's place in its mesh: one row.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The root's certificate, DER.
    #[serde(with = "serde_bytes")]
    pub root_certificate: Vec<u8>,
    /// This node's certificate, DER.
    #[serde(with = "serde_bytes")]
    pub certificate: Vec<u8>,
    /// The root's secret, on the founding node only.
    pub root: Option<RootSecret>,
}

/// The root's secret seed and when the root was made. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootSecret {
    /// The Ed25519 seed.
    pub seed: [u8; 32],
    /// When the root was made, wall clock.
    pub made_wall_ms: u64,
}

impl std::fmt::Debug for RootSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RootSecret(..)")
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Record for Place {
    const TABLE: Table = Table::Place;
    type Key = ();
}

/// How often this node has started: raised and committed before it says anything. One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts(pub u64);

impl Record for Starts {
    const TABLE: Table = Table::Starts;
    type Key = ();
}

/// The newest record of a member, as its owner signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord(pub SignedRecord);

impl Record for MemberRecord {
    const TABLE: Table = Table::Directory;
    type Key = NodeId;
}

/// The newest revocation list, as it was signed: one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocations(#[serde(with = "serde_bytes")] pub Vec<u8>);

impl Record for Revocations {
    const TABLE: Table = Table::Revocations;
    type Key = ();
}

/// A node this one has nothing to do with, by its own operator's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Why, for people.
    pub reason: String,
    /// When, wall clock.
    pub at_wall_ms: u64,
}

impl Record for Block {
    const TABLE: Table = Table::Blocks;
    type Key = NodeId;
}

/// What a start reads.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    /// This node's place; `None` before it has one.
    pub place: Option<Place>,
    /// Starts so far.
    pub starts: u64,
    /// Members' records.
    pub records: Vec<SignedRecord>,
    /// The revocation list.
    pub revocations: Option<Vec<u8>>,
    /// Blocked nodes.
    pub blocked: Vec<NodeId>,
}

impl Roster {
    /// Reads all of it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let records = scan_prefix::<MemberRecord>(store, &(), MEMBERS_READ_MAX)?;
        let blocked = scan_prefix::<Block>(store, &(), MEMBERS_READ_MAX)?;
        Ok(Self {
            place: get(store, &())?,
            starts: get::<Starts>(store, &())?.map_or(0, |starts| starts.0),
            records: records.into_iter().map(|(_, record)| record.0).collect(),
            revocations: get::<Revocations>(store, &())?.map(|list| list.0),
            blocked: blocked.into_iter().map(|(node, _)| node).collect(),
        })
    }
}

/// Counts a start, so that everything this process says is newer than what the one before said.
///
/// # Errors
/// [`StoreError`].
pub fn count_start(tx: &mut Overlay<'_>) -> Result<u64, StoreError> {
    let starts = get::<Starts>(tx, &())?.map_or(0, |starts| starts.0).saturating_add(1);
    tx.put(&(), &Starts(starts));
    Ok(starts)
}
