//! The frames of a delivery stream: one node's outbox, on its way to one peer.
//!
//! The sender opens one long bidirectional stream a session and writes [`ToReceiver`] frames; the receiver answers
//! with [`ToSender`] frames. Acknowledgements are cumulative, and a parcel is acknowledged only once its effect is
//! durable, so what a crash forgets is simply sent again. What this module does not know: rows, retries, deadlines.
//!
//! ```text
//! sender                                  receiver
//!   Open{epoch, next, acked, session} ──>           takes parcels of this session only, from now on
//!             <── Resume{epoch, mark, chain, ..}    how far it got, the hash of all it took, what it took before
//!   Gap{from, to, chain}              ──>           only when the receiver's disk went back too far
//!   Parcel{seq, ..} Parcel{seq+1, ..} ──>           takes `mark + 1` and nothing else
//!             <── Ack{epoch, mark}                  after the commit
//! ```
//!
//! Numbers of variants are the wire format: add at the end, never reorder, never add a field.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::MessageId;

/// One numbering of an outbox: random, new when the outbox is created and when its disk turns out to have gone back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub [u8; 16]);

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "Epoch({a:02x}{b:02x}{c:02x}{d:02x})")
    }
}

/// A hash over all messages of an epoch up to some sequence: two nodes with equal chains took the same messages in the
/// same order.
///
/// `c(0)` is zeros, `c(n)` the first 16 bytes of `SHA-256(c(n-1) || message id n)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chain(pub [u8; 16]);

impl Chain {
    /// Before the first message.
    pub const START: Self = Self([0; 16]);

    /// With one more message.
    #[must_use]
    pub fn then(self, message: &MessageId) -> Self {
        let hash = Sha256::new().chain_update(self.0).chain_update(message.as_bytes()).finalize();
        let mut first = [0; 16];
        first.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Self(first)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "Chain({a:02x}{b:02x}{c:02x}{d:02x})")
    }
}

/// Sender to receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToReceiver {
    /// The first frame of a session, and again after the sender began a new epoch.
    Open(Open),
    /// One message.
    Parcel(Parcel),
    /// A range the sender no longer has.
    Gap(Gap),
}

/// Receiver to sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSender {
    /// The answer to [`Open`].
    Resume(Resume),
    /// Everything up to a mark is durable here.
    Ack(Ack),
    /// Not now; nothing was taken.
    Busy(Busy),
}

/// What the sender has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Its current numbering.
    pub epoch: Epoch,
    /// The sequence its next parcel will get; the first of an epoch is 1.
    pub next: u64,
    /// Up to here the receiver has acknowledged, as far as the sender remembers.
    pub acked: u64,
    /// This session. Random, so that a sender whose disk went back does not use one twice.
    pub session: u64,
}

/// One message in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// Its place: one more than the parcel before.
    pub seq: u64,
    /// Up to here the sender knows it acknowledged: the receiver may forget older messages in time.
    pub acked: u64,
    /// The message. The receiver applies one message once, in whatever epoch it comes.
    pub message: MessageId,
    /// What it says.
    pub content: Content,
}

/// What is in a parcel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The message's bytes, at most a [`crate::limits::PARCEL_FRAME_BYTES_MAX`] with their frame.
    Body(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Withdrawn before it arrived: there is nothing to apply, the sequence goes on.
    Tombstone,
}

/// The sender no longer has these parcels, and the receiver's restored disk no longer has their effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// First lost sequence: the receiver's mark plus one.
    pub from: u64,
    /// Last lost sequence, and the receiver's new mark.
    pub to: u64,
    /// The chain at `to`.
    pub chain: Chain,
}

/// How far the receiver is in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The epoch of the [`Open`] this answers.
    pub epoch: Epoch,
    /// The last sequence it took; 0 for none.
    pub mark: u64,
    /// The chain at the mark.
    pub chain: Chain,
    /// Tombstones among what it took: a sender whose disk went back may have withdrawn what it does not remember
    /// withdrawing, and must not take it for delivered.
    pub tombstones: u64,
    /// How far it got in the numbering it took from last before this one; `None` when it took from no other. A sender
    /// whose disk went back to before it first sent anything has no other way to find out.
    pub before: Option<Ack>,
}

/// A cumulative acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Which numbering the mark is of.
    pub epoch: Epoch,
    /// The effects of all parcels up to this one are durable.
    pub mark: u64,
}

/// The receiver takes nothing for a while. The sender keeps everything and shows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// What it lacks.
    pub reason: BusyReason,
    /// Ask again after this many milliseconds.
    pub retry_after_ms: u64,
}

/// Why a receiver takes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BusyReason {
    /// Its disk is full, or its database does not take writes.
    Storage,
    /// What it keeps for this sender is at its limit.
    Quota,
    /// Its operator paused this sender.
    Paused,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use proptest::prelude::*;

    const EPOCH: Epoch = Epoch([0xe0; 16]);
    const CHAIN: Chain = Chain([0xc0; 16]);

    fn message(byte: u8) -> MessageId {
        MessageId::from_bytes([byte; 16])
    }

    /// The frame encodes to exactly these bytes: what is written here is what old releases read.
    fn golden<T: Serialize + serde::de::DeserializeOwned + PartialEq + fmt::Debug>(
        frame: &T,
        parts: &[&[u8]],
    ) {
        assert_eq!(codec::encode(frame), parts.concat());
        assert_eq!(&codec::decode::<T>(&parts.concat()).unwrap(), frame);
    }

    #[test]
    fn open_is_these_bytes() {
        let open = Open { epoch: EPOCH, next: 300, acked: 7, session: 1 };
        golden(&ToReceiver::Open(open), &[&[0], &[0xe0; 16], &[0xac, 0x02], &[7], &[1]]);
    }

    #[test]
    fn a_parcel_is_these_bytes() {
        let content = Content::Body(vec![1, 2, 3]);
        let parcel = Parcel { seq: 8, acked: 7, message: message(0xaa), content };
        golden(&ToReceiver::Parcel(parcel), &[&[1, 8, 7], &[0xaa; 16], &[0, 3, 1, 2, 3]]);
    }

    #[test]
    fn a_tombstone_is_these_bytes() {
        let parcel = Parcel { seq: 8, acked: 7, message: message(0xaa), content: Content::Tombstone };
        golden(&ToReceiver::Parcel(parcel), &[&[1, 8, 7], &[0xaa; 16], &[1]]);
    }

    #[test]
    fn a_gap_is_these_bytes() {
        let gap = Gap { from: 2, to: 5, chain: CHAIN };
        golden(&ToReceiver::Gap(gap), &[&[2, 2, 5], &[0xc0; 16]]);
    }

    #[test]
    fn resume_is_these_bytes() {
        let resume = Resume { epoch: EPOCH, mark: 7, chain: CHAIN, tombstones: 2, before: None };
        golden(&ToSender::Resume(resume), &[&[0], &[0xe0; 16], &[7], &[0xc0; 16], &[2, 0]]);
        let resume = Resume { before: Some(Ack { epoch: Epoch([0xe1; 16]), mark: 9 }), ..resume };
        golden(
            &ToSender::Resume(resume),
            &[&[0], &[0xe0; 16], &[7], &[0xc0; 16], &[2, 1], &[0xe1; 16], &[9]],
        );
    }

    #[test]
    fn an_ack_is_these_bytes() {
        golden(&ToSender::Ack(Ack { epoch: EPOCH, mark: 7 }), &[&[1], &[0xe0; 16], &[7]]);
    }

    #[test]
    fn busy_is_these_bytes() {
        let busy = Busy { reason: BusyReason::Quota, retry_after_ms: 500 };
        golden(&ToSender::Busy(busy), &[&[2, 1, 0xf4, 0x03]]);
    }

    #[test]
    fn a_chain_depends_on_every_message_and_their_order() {
        let one_two = Chain::START.then(&message(1)).then(&message(2));
        let two_one = Chain::START.then(&message(2)).then(&message(1));
        assert_ne!(one_two, two_one);
        // Computed with another implementation of SHA-256: sixteen zeros, then sixteen ones.
        let expected = data_encoding::HEXLOWER.decode(b"0e35a53871304db5962bedd5562462cf").unwrap();
        assert_eq!(Chain::START.then(&message(1)).0.as_slice(), expected);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = codec::decode::<ToReceiver>(&bytes);
            let _ = codec::decode::<ToSender>(&bytes);
        }

        #[test]
        fn a_parcel_decodes_to_itself(seq: u64, acked: u64, id: [u8; 16], body: Option<Vec<u8>>) {
            let content = body.map_or(Content::Tombstone, Content::Body);
            let parcel = ToReceiver::Parcel(Parcel { seq, acked, message: MessageId::from_bytes(id), content });
            prop_assert_eq!(codec::decode::<ToReceiver>(&codec::encode(&parcel)).unwrap(), parcel);
        }
    }
}
