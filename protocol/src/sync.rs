//! Anti-entropy: the frames by which two nodes bring their directories to the same contents (Demers et al. 1987).
//!
//! ```text
//!   initiator                                    responder
//!     Root  ------------------------------------>
//!           <------------------------------------  Same             when the roots are equal: done
//!           <------------------------------------  Digest           one row a record
//!     Offer (what you lack, what I want) -------->                  one frame or several, the last one marked
//!           <------------------------------------  Records          likewise; done
//! ```
//! A directory of more than [`DIGEST_ROWS_MAX`] records answers with a hash a bucket instead of all rows:
//! ```text
//!     Root  ------------------------------------>
//!           <------------------------------------  Buckets          256 hashes, by the first byte of the node id
//!     Select (the buckets that differ) ---------->
//!           <------------------------------------  Rows             of these, in frames, the last one marked
//!     Offer, Records: as above
//! ```
//! Every frame fits in [`CONTROL_FRAME_BYTES_MAX`]. A record is taken by its signature, never by who sent it; a row's
//! liveness is what the sender believes, a hint to look and never a verdict.

use serde::{Deserialize, Serialize};

use crate::codec::{self, DecodeError};
use crate::limits::CONTROL_FRAME_BYTES_MAX;
use crate::peer::PeerState;
use crate::record::{RECORD_BYTES_MAX, RecordVersion, SignedRecord};

/// Members one directory holds.
pub const MEMBERS_MAX: usize = 10_240;
/// Rows of a digest that is sent whole. Twice as many bytes as the bucket hashes that larger directories send first,
/// which cost one more crossing.
pub const DIGEST_ROWS_MAX: usize = 512;
/// Rows, or prefixes of wanted records, in one frame.
pub const ROWS_PER_FRAME_MAX: usize = 1_024;
/// Bytes of one digest row: prefix, version and liveness.
pub const DIGEST_ROW_BYTES: usize = 17;
/// Buckets of a directory: one for each first byte of a node id.
pub const BUCKETS: usize = 256;

/// The hash of everything in one bucket.
pub type BucketHash = [u8; 16];

const _: () =
    assert!(ROWS_PER_FRAME_MAX * DIGEST_ROW_BYTES + 16 < CONTROL_FRAME_BYTES_MAX, "rows fit in a frame");
const _: () = assert!(DIGEST_ROWS_MAX <= ROWS_PER_FRAME_MAX, "a whole digest fits in a frame");
const _: () = assert!(RECORD_BYTES_MAX * 3 < CONTROL_FRAME_BYTES_MAX, "three records fit in a frame");

/// The first eight bytes of a node id: whom a row is about.
pub type IdPrefix = [u8; 8];

/// One record in a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestRow {
    /// Whose record.
    pub prefix: IdPrefix,
    /// Which one.
    pub mark: VersionMark,
    /// What the sender makes of that node.
    pub liveness: Liveness,
}

/// A record version in eight bytes: 24 bits of epoch, 24 of version, both stopping at their end, and 16 of a hash of
/// the body, so that two records of one version (a disk was set back) still differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VersionMark([u8; 8]);

impl VersionMark {
    /// The mark of this version with this hash of its body.
    #[must_use]
    pub fn new(version: RecordVersion, body_hash: [u8; 2]) -> Self {
        let [.., e0, e1, e2] = version.epoch.min(0xff_ffff).to_be_bytes();
        let [.., v0, v1, v2] = version.ver.min(0xff_ffff).to_be_bytes();
        let [h0, h1] = body_hash;
        Self([e0, e1, e2, v0, v1, v2, h0, h1])
    }

    /// Whether this one's version is at least the other's. Both ways for two records of one version.
    #[must_use]
    pub fn is_not_older_than(self, other: Self) -> bool {
        self.0.split_at(6).0 >= other.0.split_at(6).0
    }
}

/// What a node's digest says about a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// Nothing worth a look.
    Unsaid,
    /// It answers the sender.
    Answers,
    /// It does not answer the sender.
    Silent,
}

impl From<PeerState> for Liveness {
    fn from(state: PeerState) -> Self {
        match state {
            PeerState::Alive => Self::Answers,
            PeerState::Suspect | PeerState::Unreachable => Self::Silent,
            PeerState::Known
            | PeerState::Left
            | PeerState::Revoked
            | PeerState::Incompatible
            | PeerState::Duplicate => Self::Unsaid,
        }
    }
}

/// One frame of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncFrame {
    /// The initiator's directory in one hash.
    Root([u8; 16]),
    /// The responder's is the same.
    Same,
    /// It is not: its rows, by prefix, at most [`ROWS_PER_FRAME_MAX`].
    Digest(Vec<DigestRow>),
    /// What the responder seems to lack, and what it seems to have newer.
    Offer {
        /// Whose records the initiator wants, at most [`ROWS_PER_FRAME_MAX`] in one offer.
        wanted: Vec<IdPrefix>,
        /// Records for the responder.
        records: Vec<SignedRecord>,
        /// Whether this is the last offer.
        last: bool,
    },
    /// What the initiator wanted.
    Records {
        /// Records for the initiator.
        records: Vec<SignedRecord>,
        /// Whether this is the last frame.
        last: bool,
    },
    /// It is not the same, and too large for one digest: the hash of each of its [`BUCKETS`].
    Buckets(Vec<BucketHash>),
    /// The buckets in which the initiator differs, a bit each, the first one lowest in the first byte.
    Select([u8; BUCKETS / 8]),
    /// The responder's rows in these buckets.
    Rows {
        /// By prefix, at most [`ROWS_PER_FRAME_MAX`].
        rows: Vec<DigestRow>,
        /// Whether this is the last frame.
        last: bool,
    },
}

impl SyncFrame {
    /// The body of the frame, without its length prefix.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads the body of a frame from a peer.
    ///
    /// # Errors
    /// [`DecodeError`] when it is over [`CONTROL_FRAME_BYTES_MAX`], does not decode or has too many rows.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let what = "SyncFrame";
        let limit = CONTROL_FRAME_BYTES_MAX;
        if bytes.len() > limit {
            return Err(DecodeError::TooLong { what, bytes: bytes.len(), limit });
        }
        let frame: Self = codec::decode(bytes)?;
        let within_bounds = match &frame {
            Self::Digest(rows) | Self::Rows { rows, .. } => rows.len() <= ROWS_PER_FRAME_MAX,
            Self::Offer { wanted, .. } => wanted.len() <= ROWS_PER_FRAME_MAX,
            Self::Buckets(hashes) => hashes.len() == BUCKETS,
            Self::Root(_) | Self::Same | Self::Records { .. } | Self::Select(_) => true,
        };
        if within_bounds { Ok(frame) } else { Err(DecodeError::Malformed { what }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_has_seventeen_bytes() {
        let mark = VersionMark::new(RecordVersion { epoch: 1, ver: 2 }, [3, 4]);
        let row = DigestRow { prefix: [9; 8], mark, liveness: Liveness::Silent };
        assert_eq!(codec::encode(&row), [9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 1, 0, 0, 2, 3, 4, 2]);
    }

    #[test]
    fn the_bytes_of_every_frame_never_change() {
        let mark = VersionMark::new(RecordVersion { epoch: 1, ver: 2 }, [3, 4]);
        let row = DigestRow { prefix: [9; 8], mark, liveness: Liveness::Unsaid };
        let row_bytes = [9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 1, 0, 0, 2, 3, 4, 0];
        assert_eq!(SyncFrame::Root([5; 16]).encode(), [[0].as_slice(), &[5; 16]].concat());
        assert_eq!(SyncFrame::Same.encode(), [1]);
        assert_eq!(SyncFrame::Digest(vec![row]).encode(), [[2, 1].as_slice(), &row_bytes].concat());
        let offer = SyncFrame::Offer { wanted: vec![[8; 8]], records: Vec::new(), last: true };
        assert_eq!(offer.encode(), [3, 1, 8, 8, 8, 8, 8, 8, 8, 8, 0, 1]);
        assert_eq!(SyncFrame::Records { records: Vec::new(), last: false }.encode(), [4, 0, 0]);
        let buckets = SyncFrame::Buckets(vec![[7; 16]; BUCKETS]).encode();
        assert_eq!(buckets, [[5, 0x80, 2].as_slice(), &[7; 16 * BUCKETS]].concat());
        assert_eq!(SyncFrame::Select([6; 32]).encode(), [[6].as_slice(), &[6; 32]].concat());
        let rows = SyncFrame::Rows { rows: vec![row], last: true };
        assert_eq!(rows.encode(), [[7, 1].as_slice(), &row_bytes, &[1]].concat());
    }

    #[test]
    fn a_frame_with_too_many_rows_or_too_few_buckets_is_refused() {
        let offer = SyncFrame::Offer {
            wanted: vec![[8; 8]; ROWS_PER_FRAME_MAX + 1],
            records: Vec::new(),
            last: true,
        };
        assert!(SyncFrame::decode(&offer.encode()).is_err());
        assert!(SyncFrame::decode(&SyncFrame::Buckets(vec![[7; 16]; BUCKETS - 1]).encode()).is_err());
    }

    #[test]
    fn marks_are_ordered_as_versions_are_up_to_their_end() {
        let mark = |epoch, ver| VersionMark::new(RecordVersion { epoch, ver }, [0; 2]);
        assert!(mark(2, 0).is_not_older_than(mark(1, 900)));
        assert!(!mark(1, 8).is_not_older_than(mark(1, 9)));
        assert!(mark(u64::MAX, 0).is_not_older_than(mark(0xff_ffff, 0)));
    }

    #[test]
    fn two_records_of_one_version_have_different_marks_and_neither_is_older() {
        let version = RecordVersion { epoch: 1, ver: 1 };
        let (one, other) = (VersionMark::new(version, [1, 1]), VersionMark::new(version, [2, 2]));
        assert!(one != other && one.is_not_older_than(other) && other.is_not_older_than(one));
    }

    proptest! {
        #[test]
        fn random_frames_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let _ = SyncFrame::decode(&bytes);
        }
    }
}
