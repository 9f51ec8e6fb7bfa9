//! What one node knows about another: the plain status that the HTTP API, `--json` and listings print.
//!
//! Every state is one observer's. Two observers may rightly disagree; nothing here is ever sent to another node as
//! truth.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::record::{Lifecycle, RecordVersion};

/// One start of one process, drawn at random when it starts. Says whether a peer restarted, and whether two machines
/// run with one identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootId(pub u64);

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootId({:016x})", self.0)
    }
}

/// What this observer makes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerState {
    /// Its record is here; nothing was ever heard from itself.
    Known,
    /// It answered over a link.
    Alive,
    /// It missed a probe or its link ended, and it has a little time to answer.
    Suspect,
    /// This observer cannot reach it. Says nothing about what others can do.
    Unreachable,
    /// It said that it left.
    Left,
    /// The mesh's root took its membership.
    Revoked,
    /// It speaks no protocol version of ours.
    Incompatible,
    /// Two machines take turns with this identity.
    Duplicate,
}

impl PeerState {
    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Unreachable => "unreachable",
            Self::Left => "left",
            Self::Revoked => "revoked",
            Self::Incompatible => "incompatible",
            Self::Duplicate => "duplicate",
        }
    }
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A moment on both of the observer's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds on the observer's own clock, which nothing sets back.
    pub node_ms: u64,
    /// Milliseconds since 1970, for people.
    pub wall_ms: u64,
}

/// The last thing that went wrong with a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerError {
    /// When.
    pub at: Moment,
    /// What, as one clause.
    pub text: String,
}

/// What a peer sent that was dropped, counted since this process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DroppedCounts {
    /// Records of another mesh.
    pub other_mesh: u64,
    /// Records not signed by the node they name.
    pub foreign_signature: u64,
    /// Records of keys that the mesh's root let in no node with.
    pub not_a_member: u64,
    /// Records over their size limit.
    pub oversize: u64,
    /// Records and datagrams that do not decode or say what nobody may.
    pub malformed: u64,
    /// Records of nodes there was no room for.
    pub no_room: u64,
}

impl DroppedCounts {
    /// All of them together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.other_mesh
            .saturating_add(self.foreign_signature)
            .saturating_add(self.not_a_member)
            .saturating_add(self.oversize)
            .saturating_add(self.malformed)
            .saturating_add(self.no_room)
    }
}

/// What a peer sent faster than it may, and this node therefore did not look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OverQuota {
    /// Datagrams.
    pub datagrams: u64,
    /// Comparisons of directories.
    pub exchanges: u64,
    /// Records in comparisons.
    pub records: u64,
    /// Questions.
    pub questions: u64,
}

/// What another member said about a peer: its own observation, as this observer last heard it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenBy {
    /// Who said it.
    pub node: NodeId,
    /// Whether the peer answers it.
    pub answers: bool,
    /// When it was heard.
    pub at: Moment,
}

/// Everything one observer can say about one peer at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerView {
    /// Who.
    pub node: NodeId,
    /// Its host's label, when its record is here.
    pub name: Option<String>,
    /// What this observer makes of it.
    pub state: PeerState,
    /// Since when.
    pub since: Moment,
    /// Why, as one clause.
    pub cause: String,
    /// Whether a link to it is up.
    pub linked: bool,
    /// Whether a link to it is kept for its own sake. To others there is one only while something needs it.
    pub neighbour: bool,
    /// What others lately said about it, by node.
    pub seen_by: Vec<SeenBy>,
    /// When it last proved that it is there: a new link or an answered probe.
    pub last_success: Option<Moment>,
    /// What last went wrong.
    pub last_error: Option<PeerError>,
    /// The address last dialled.
    pub address_tried: Option<SocketAddr>,
    /// Milliseconds until it is dialled again, when that is planned.
    pub next_dial_in_ms: Option<u64>,
    /// Round-trip time of the last answered probe, milliseconds.
    pub rtt_ms: Option<u64>,
    /// The version of its record that is here.
    pub version: Option<RecordVersion>,
    /// What it last said about its own life.
    pub lifecycle: Option<Lifecycle>,
    /// What it sent that was dropped.
    pub dropped: DroppedCounts,
}

/// One node's whole view of its mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshView {
    /// The observer.
    pub node: NodeId,
    /// The version of its own record.
    pub version: RecordVersion,
    /// Since when none of its probes is answered, so that it judges nobody.
    pub isolated_since: Option<Moment>,
    /// How much this observer doubts its own hearing, from 0 to 8: by that it gives everybody more time.
    pub doubt: u64,
    /// Its peers, by id.
    pub peers: Vec<PeerView>,
}
