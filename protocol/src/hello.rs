//! The first words on a connection: who we are, what we speak, which dial this is.
//!
//! The dialler sends [`Hello`] on its first stream, the other end answers [`HelloAck`], and only then does either
//! count the other as connected: with TLS 1.3 a dialler's handshake ends before the listener has looked at its
//! certificate, so the answer is the first proof of being let in. A listener that will not talk closes the
//! connection with a [`crate::close::CloseCode`] instead of an answer.
//!
//! These messages are postcard, which does not describe itself: they never change. A later protocol adds messages,
//! found by the minor version and features both ends have.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::{MeshId, NodeId};
use crate::peer::BootId;
use crate::record::{ProtocolRange, RecordVersion};

/// The minor versions of protocol `mesh/1` this build speaks.
pub const MINORS: ProtocolRange = ProtocolRange { min: 1, max: 1 };

/// The newest minor version both ends speak; `None` when there is none.
#[must_use]
pub fn common_minor(one: ProtocolRange, other: ProtocolRange) -> Option<u16> {
    let newest = one.max.min(other.max);
    (newest >= one.min.max(other.min)).then_some(newest)
}

/// Optional abilities, one bit each. Both ends use what both have; an unknown bit is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Features(pub u64);

impl Features {
    /// Carries packets of other members' connections.
    pub const RELAY: Self = Self(1);

    /// What both ends have.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of these abilities are among ours.
    #[must_use]
    pub const fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// What the dialler says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it speaks.
    pub minors: ProtocolRange,
    /// What it can do beyond that.
    pub features: Features,
    /// The mesh it means.
    pub mesh: MeshId,
    /// Who it is; must be the owner of its certificate.
    pub node: NodeId,
    /// Its current process.
    pub boot: BootId,
    /// Its number for this dial, which with its id names the connection at both ends.
    pub dial: u64,
    /// How new its record is, so that the other end can ask for it.
    pub record: RecordVersion,
    /// Bytes of the longest frame it takes on any stream.
    pub frame_bytes_max: u32,
}

/// What the other end answers when it will talk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloAck {
    /// The minor version in use from here on.
    pub minor: u16,
    /// The abilities in use from here on.
    pub features: Features,
    /// Who it is; must be the owner of its certificate.
    pub node: NodeId,
    /// Its current process.
    pub boot: BootId,
    /// How new its record is.
    pub record: RecordVersion,
    /// Bytes of the longest frame it takes on any stream.
    pub frame_bytes_max: u32,
    /// Where the dialler's packets come from, as seen at this end: its address outside a NAT.
    pub observed: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            minors: ProtocolRange { min: 1, max: 3 },
            features: Features::RELAY,
            mesh: MeshId::from_bytes([1; 16]),
            node: NodeId::from_bytes([2; 32]),
            boot: BootId(3),
            dial: 300,
            record: RecordVersion { epoch: 4, ver: 5 },
            frame_bytes_max: 65_536,
        }
    }

    #[test]
    fn a_hello_keeps_its_bytes_for_ever() {
        let mut golden = vec![1, 3, 1];
        golden.extend([1; 16]);
        golden.extend([2; 32]);
        golden.extend([3, 0xac, 0x02, 4, 5, 0x80, 0x80, 0x04]);
        assert_eq!(codec::encode(&hello()), golden);
        assert_eq!(codec::decode::<Hello>(&golden).unwrap(), hello());
    }

    #[test]
    fn a_hello_ack_keeps_its_bytes_for_ever() {
        let ack = HelloAck {
            minor: 1,
            features: Features::default(),
            node: NodeId::from_bytes([2; 32]),
            boot: BootId(3),
            record: RecordVersion { epoch: 4, ver: 5 },
            frame_bytes_max: 1,
            observed: ([127, 0, 0, 1], 4_000).into(),
        };
        let mut golden = vec![1, 0];
        golden.extend([2; 32]);
        golden.extend([3, 4, 5, 1, 0, 127, 0, 0, 1, 0xa0, 0x1f]);
        assert_eq!(codec::encode(&ack), golden);
        assert_eq!(codec::decode::<HelloAck>(&golden).unwrap(), ack);
    }

    #[test]
    fn ends_settle_on_the_newest_minor_and_the_features_both_have() {
        let range = |min, max| ProtocolRange { min, max };
        assert_eq!(common_minor(range(1, 3), range(2, 5)), Some(3));
        assert_eq!(common_minor(range(1, 2), range(3, 5)), None);
        assert_eq!(
            common_minor(range(5, 1), range(1, 5)),
            None,
            "a range the wrong way round has nothing in it"
        );
        assert_eq!(Features(0b110).common(Features(0b011)), Features(0b010));
        assert!(!Features(0b010).contains(Features(0b110)));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = codec::decode::<Hello>(&bytes);
            let _ = codec::decode::<HelloAck>(&bytes);
        }

        #[test]
        fn both_ends_find_the_same_minor(a in any::<(u16, u16)>(), b in any::<(u16, u16)>()) {
            let (a, b) = (ProtocolRange { min: a.0, max: a.1 }, ProtocolRange { min: b.0, max: b.1 });
            prop_assert_eq!(common_minor(a, b), common_minor(b, a));
        }
    }
}
