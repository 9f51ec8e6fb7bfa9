//! Messages longer than a parcel: sent as parts that go ahead of a last word, put together when that comes.
//!
//! ```text
//!  Part(of, 0)  Part(of, 1)  ...  Whole(of, parts, sha256)       in this order, in one commit, in one outbox
//! ```
//! Delivery keeps the order and takes each parcel once, so a receiver puts together one message of each peer at a time:
//! the beginning of another drops what was there. So a message that was taken back half-way leaves nothing that has to
//! be found again, and the bound of what a peer can have kept here is one message. Parts are taken only from peers that
//! may have something that long to say: those that may send jobs here, and those that run jobs for this node.
//!
//! The message keeps its own id, which its last word has; what it means for its sender (where it is, whether it arrived,
//! whether it can be taken back) is what it means for that parcel.

use mesh_protocol::codec::decode;
use mesh_protocol::id::{MessageId, NodeId};
use mesh_protocol::limits::{MESSAGE_BYTES_MAX, PART_BYTES};
use mesh_protocol::message::PeerMessage;
use mesh_protocol::policy::Permission;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::jobs::job::OpenJob;
use crate::outbox::{self, WithdrawOutcome};
use crate::policy;
use crate::store::{Overlay, Record, StoreError, Table, get, scan_prefix};
use crate::turn::Turn;

/// Parts a message may have.
const PARTS_MAX: usize = MESSAGE_BYTES_MAX.div_ceil(PART_BYTES);

/// What is being put together for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PartHead {
    of: MessageId,
    /// Parts that are here.
    parts: u32,
}

impl Record for PartHead {
    const TABLE: Table = Table::PartHeads;
    type Key = NodeId;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPart(#[serde(with = "serde_bytes")] Vec<u8>);

impl Record for StoredPart {
    const TABLE: Table = Table::Parts;
    type Key = (NodeId, u64);
}

/// The id of a part: its own, and the same whenever the message is sent.
fn part_id(of: MessageId, index: u32) -> MessageId {
    let mut hash = Sha256::new();
    hash.update(b"mesh-part");
    hash.update(of.as_bytes());
    hash.update(index.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let (id, _) = digest.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    MessageId::from_bytes(*id)
}

/// A long message as its parts and its last word, each with its id.
pub(crate) fn split(of: MessageId, message: &[u8]) -> (Vec<(MessageId, PeerMessage)>, PeerMessage) {
    let mut parts = Vec::new();
    for (index, bytes) in (0_u32..).zip(message.chunks(PART_BYTES)) {
        parts.push((part_id(of, index), PeerMessage::Part { of, index, bytes: bytes.to_vec() }));
    }
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    (parts, PeerMessage::Whole { of, parts: count, sha256: Sha256::digest(message).into() })
}

/// Takes a message back with its parts, if it has any. What is known of it is what is known of its last word.
pub(crate) fn withdraw(
    tx: &mut Overlay<'_>,
    node: NodeId,
    of: MessageId,
) -> Result<WithdrawOutcome, StoreError> {
    let outcome = outbox::withdraw(tx, node, of)?;
    for index in (0..).take(PARTS_MAX) {
        if outbox::withdraw(tx, node, part_id(of, index))? == WithdrawOutcome::Unknown {
            break;
        }
    }
    Ok(outcome)
}

/// Keeps a part.
pub(crate) fn take(
    turn: &mut Turn<'_, '_>,
    from: NodeId,
    (of, index): (MessageId, u32),
    bytes: Vec<u8>,
) -> Result<(), StoreError> {
    if bytes.len() > PART_BYTES || !may_send(turn, from)? {
        return Ok(());
    }
    let head = get::<PartHead>(turn.tx, &from)?.filter(|head| head.of == of);
    let parts = match head {
        Some(head) => head.parts,
        None => {
            forget(turn.tx, from)?;
            0
        }
    };
    // One that is missing is noticed at the end.
    let fits = usize::try_from(index).is_ok_and(|index| index < PARTS_MAX);
    if index == parts && fits {
        turn.tx.put(&(from, index.into()), &StoredPart(bytes));
        turn.tx.put(&from, &PartHead { of, parts: parts.saturating_add(1) });
    }
    Ok(())
}

fn may_send(turn: &Turn<'_, '_>, from: NodeId) -> Result<bool, StoreError> {
    Ok(policy::permits(turn.tx, turn.site, turn.now, from, Permission::Job)?
        || !scan_prefix::<OpenJob>(turn.tx, &from, 1)?.is_empty())
}

/// The message whose last word has come; `None` when it cannot be put together.
pub(crate) fn assemble(
    turn: &mut Turn<'_, '_>,
    from: NodeId,
    (of, parts): (MessageId, u32),
    sha256: [u8; 32],
) -> Result<Option<PeerMessage>, StoreError> {
    let head = get::<PartHead>(turn.tx, &from)?.filter(|head| *head == PartHead { of, parts });
    if head.is_none() {
        return Ok(None);
    }
    let rows = scan_prefix::<StoredPart>(turn.tx, &from, PARTS_MAX)?;
    let message: Vec<u8> = rows.into_iter().flat_map(|(_, StoredPart(bytes))| bytes).collect();
    forget(turn.tx, from)?;
    let whole = <[u8; 32]>::from(Sha256::digest(&message)) == sha256;
    let message = decode(&message).ok().filter(|_| whole);
    // One message is not made of another one's parts.
    Ok(message.filter(|message| !matches!(message, PeerMessage::Part { .. } | PeerMessage::Whole { .. })))
}

fn forget(tx: &mut Overlay<'_>, from: NodeId) -> Result<(), StoreError> {
    for (key, _) in scan_prefix::<StoredPart>(tx, &from, PARTS_MAX)? {
        tx.delete::<StoredPart>(&key);
    }
    tx.delete::<PartHead>(&from);
    Ok(())
}
