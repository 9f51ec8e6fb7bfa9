//! Probes: the datagrams by which linked nodes find out whether the other is there (SWIM, Das, Gupta and Motivala 2002).
//!
//! Both kinds carry the sender's record version, so a change is noticed with the next probe and pulled; and the nodes
//! it currently suspects from its own probes, so that they can refute and others can look for themselves. Both are the
//! sender's state, not a queue: what a lost datagram carried, the next one carries too.
//!
//! Three more kinds go between the same links: an inquiry, by which a peer is asked to look at a third node (SWIM's
//! indirect probe), the report that answers it in any case, and hearsay, which passes on what others observed.
//!
//! An accusation is the sender's word alone. It is unsigned, and a receiver may only look by it, never judge.

use serde::{Deserialize, Serialize};

use crate::codec::{self, DecodeError};
use crate::id::NodeId;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::record::RecordVersion;
use crate::sync::IdPrefix;

/// Accusations one datagram carries: at most 52 bytes each, so that they fit in the smallest datagram.
pub const ACCUSATIONS_MAX: usize = 16;

/// "I get no answer from this node, whose record I have in this version."
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accusation {
    /// Who does not answer.
    pub node: NodeId,
    /// Its record as the accuser has it. A later one refutes.
    pub version: RecordVersion,
}

/// Rumours one datagram carries, at most 37 bytes each.
pub const RUMOURS_MAX: usize = 24;

/// What one node observed about another, passed on by anybody. Unsigned: shown and looked into, never believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rumour {
    /// About whom.
    pub node: IdPrefix,
    /// Who observed it.
    pub observer: IdPrefix,
    /// The observer's start, and its count of rumours since: a later one replaces an earlier one.
    pub epoch: u64,
    /// See there.
    pub count: u64,
    /// Whether the node answers the observer.
    pub answers: bool,
}

/// What a helper found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// The node answers it.
    Answers,
    /// The node does not.
    Silent,
    /// It has no link to the node, or too much to do.
    Unasked,
}

/// What a probe says about its sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The sender's own record.
    pub version: RecordVersion,
    /// Whom it suspects, at most [`ACCUSATIONS_MAX`].
    pub accusations: Vec<Accusation>,
}

/// One datagram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Probe {
    /// Asks for an [`Probe::Ack`] with the same number.
    Ping {
        /// Chosen by the sender, which never reuses one on a link.
        seq: u64,
        /// The sender's standing.
        standing: Standing,
    },
    /// Answers a ping.
    Ack {
        /// The ping's number.
        seq: u64,
        /// The sender's standing.
        standing: Standing,
    },
    /// Asks the receiver to probe a node that gives the sender no answer.
    Inquire {
        /// Chosen by the sender.
        seq: u64,
        /// Whom.
        node: NodeId,
    },
    /// Answers an inquiry, whatever came of it.
    Report {
        /// The inquiry's number.
        seq: u64,
        /// What came of it.
        word: Word,
    },
    /// Passes on what others observed, at most [`RUMOURS_MAX`].
    Hearsay(Vec<Rumour>),
}

impl Probe {
    /// The bytes of the datagram, at most [`DATAGRAM_BYTES_MAX`] for at most [`ACCUSATIONS_MAX`] accusations.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads a datagram from a peer.
    ///
    /// # Errors
    /// [`DecodeError`] when it is too long, does not decode or carries too many accusations.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let what = "Probe";
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(DecodeError::TooLong { what, bytes: bytes.len(), limit: DATAGRAM_BYTES_MAX });
        }
        let probe: Self = codec::decode(bytes)?;
        let within_bounds = match &probe {
            Self::Ping { standing, .. } | Self::Ack { standing, .. } => {
                standing.accusations.len() <= ACCUSATIONS_MAX
            }
            Self::Hearsay(rumours) => rumours.len() <= RUMOURS_MAX,
            Self::Inquire { .. } | Self::Report { .. } => true,
        };
        if within_bounds { Ok(probe) } else { Err(DecodeError::Malformed { what }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ping(accusations: usize) -> Probe {
        let version = RecordVersion { epoch: u64::MAX, ver: u64::MAX };
        let accusation = Accusation { node: NodeId::from_bytes([0xff; 32]), version };
        let standing = Standing { version, accusations: vec![accusation; accusations] };
        Probe::Ping { seq: u64::MAX, standing }
    }

    #[test]
    fn the_fullest_probe_fits_in_a_datagram() {
        let bytes = ping(ACCUSATIONS_MAX).encode();
        assert!(bytes.len() <= DATAGRAM_BYTES_MAX, "{} bytes", bytes.len());
        assert_eq!(Probe::decode(&bytes), Ok(ping(ACCUSATIONS_MAX)));
    }

    #[test]
    fn too_many_accusations_and_too_many_bytes_are_refused() {
        assert!(Probe::decode(&ping(ACCUSATIONS_MAX + 1).encode()).is_err());
        assert!(matches!(Probe::decode(&[0; DATAGRAM_BYTES_MAX + 1]), Err(DecodeError::TooLong { .. })));
    }

    #[test]
    fn the_bytes_of_a_probe_never_change() {
        let version = RecordVersion { epoch: 3, ver: 200 };
        let standing = Standing { version, accusations: Vec::new() };
        assert_eq!(Probe::Ping { seq: 7, standing: standing.clone() }.encode(), [0, 7, 3, 0xc8, 1, 0]);
        assert_eq!(Probe::Ack { seq: 7, standing }.encode(), [1, 7, 3, 0xc8, 1, 0]);
        let inquiry = Probe::Inquire { seq: 7, node: NodeId::from_bytes([4; 32]) };
        assert_eq!(inquiry.encode(), [[2, 7].as_slice(), &[4; 32]].concat());
        assert_eq!(Probe::Report { seq: 7, word: Word::Answers }.encode(), [3, 7, 0]);
        assert_eq!(Probe::Report { seq: 7, word: Word::Silent }.encode(), [3, 7, 1]);
        assert_eq!(Probe::Report { seq: 7, word: Word::Unasked }.encode(), [3, 7, 2]);
        let rumour = Rumour { node: [5; 8], observer: [6; 8], epoch: 3, count: 200, answers: true };
        let bytes = [[4, 1].as_slice(), &[5; 8], &[6; 8], &[3, 0xc8, 1, 1]].concat();
        assert_eq!(Probe::Hearsay(vec![rumour]).encode(), bytes);
    }

    #[test]
    fn the_fullest_hearsay_fits_in_a_datagram_and_more_is_refused() {
        let rumour =
            Rumour { node: [0xff; 8], observer: [0xff; 8], epoch: u64::MAX, count: u64::MAX, answers: true };
        let hearsay = |count| Probe::Hearsay(vec![rumour; count]).encode();
        assert!(hearsay(RUMOURS_MAX).len() <= DATAGRAM_BYTES_MAX);
        assert!(Probe::decode(&hearsay(RUMOURS_MAX)).is_ok());
        assert!(Probe::decode(&hearsay(RUMOURS_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn random_datagrams_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1_200)) {
            let _ = Probe::decode(&bytes);
        }
    }
}
