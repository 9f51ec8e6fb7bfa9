//! What is said before one member carries packets of two others, and how long a packet may be.
//!
//! ```text
//!   dialler ── Carry{to} ──> relay ── Arrive{from} ──> target      each on a stream of a carrier connection of its own
//!   dialler <── Accepted ─── relay <── Accepted ────── target
//!   dialler <══ packets ════ relay ══ packets ═══════> target      a length of two bytes, then the packet
//! ```
//! The packets are those of an ordinary connection between dialler and target, TLS end to end. The relay says who
//! `from` is and is not believed: whoever is at the other end proves it in that TLS.

use serde::{Deserialize, Serialize};

use crate::id::NodeId;

/// Bytes of the longest packet that is carried: a little more than Ethernet leaves to QUIC, which itself needs 1,200 (RFC
/// 9000, section 14).
pub const PACKET_BYTES_MAX: usize = 1_500;
/// Bytes of a frame before the packets: the messages below.
pub const RELAY_FRAME_BYTES_MAX: usize = 256;

/// The first frame of a relay stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayRequest {
    /// Carry packets between me and this member, with which you have a direct link.
    Carry {
        /// To whom.
        to: NodeId,
    },
    /// Here are packets of this member for you.
    Arrive {
        /// From whom, as the relay says.
        from: NodeId,
    },
}

/// The answer, after which packets follow or the stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RelayAnswer {
    /// Packets may come.
    Accepted,
    /// They may not.
    Refused(RelayRefusal),
}

/// Why packets are not carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RelayRefusal {
    /// The relay's operator does not let the asker use it.
    NotAllowed,
    /// The relay has no direct link to the target.
    NotLinked,
    /// The relay carries as much as it will, for this peer or in all.
    Busy,
    /// The target did not answer the relay.
    NoAnswer,
    /// The target does not want it: it takes no more, or has shut the asker out.
    Unwanted,
    /// The request makes no sense: to oneself, or not on a carrier.
    Impossible,
}

impl RelayRefusal {
    /// Whether the same relay may carry in a moment.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        !matches!(self, Self::NotAllowed | Self::Impossible)
    }
}

impl std::fmt::Display for RelayRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "it does not let this node relay",
            Self::NotLinked => "it has no direct link there",
            Self::Busy => "it relays as much as it will",
            Self::NoAnswer => "the node behind it did not answer",
            Self::Unwanted => "the node behind it takes no relayed packets",
            Self::Impossible => "it cannot relay that",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};
    use proptest::prelude::*;

    #[test]
    fn the_bytes_of_a_request_and_an_answer_never_change() {
        let node = NodeId::from_bytes([9; 32]);
        assert_eq!(encode(&RelayRequest::Carry { to: node }), [&[0][..], &[9; 32]].concat());
        assert_eq!(encode(&RelayRequest::Arrive { from: node }), [&[1][..], &[9; 32]].concat());
        assert_eq!(encode(&RelayAnswer::Accepted), [0]);
        let refusals = [
            RelayRefusal::NotAllowed,
            RelayRefusal::NotLinked,
            RelayRefusal::Busy,
            RelayRefusal::NoAnswer,
            RelayRefusal::Unwanted,
            RelayRefusal::Impossible,
        ];
        for (number, refusal) in (0_u8..).zip(refusals) {
            assert_eq!(encode(&RelayAnswer::Refused(refusal)), [1, number]);
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode::<RelayRequest>(&bytes);
            let _ = decode::<RelayAnswer>(&bytes);
        }
    }
}
