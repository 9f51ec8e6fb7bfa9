//! Messages and the conversations they are in.
//!
//! A conversation exists by its messages; its owner is the origin of the first. An agent's whole transcript is not
//! here: only what crossed the broker.

use mesh_protocol::id::{ConversationId, MessageId};
use serde::{Deserialize, Serialize};

use crate::deadline::{self, Deadline};
use crate::store::{Record, StoreError, Table, get};
use crate::turn::Turn;

/// One message, as this node recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its conversation.
    pub conversation: ConversationId,
    /// Who wrote it: `operator`, an agent's address, or `<peer>/<name>` for someone on another node.
    pub from: String,
    /// Whom it is for.
    pub to: String,
    /// The text.
    pub body: String,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// When it was recorded here.
    pub at_wall_ms: u64,
}

impl Record for Message {
    const TABLE: Table = Table::Messages;
    type Key = MessageId;
}

/// Records a message.
pub(crate) fn record(
    turn: &mut Turn<'_, '_>,
    message: MessageId,
    conversation: ConversationId,
    (from, to): (String, String),
    body: String,
    reply_to: Option<MessageId>,
) {
    let at_wall_ms = turn.now.wall_ms;
    turn.tx.put(&message, &Message { conversation, from, to, body, reply_to, at_wall_ms });
    deadline::retain(turn, Deadline::ForgetMessage(message));
}

/// Records a message of another node. Its id is the other node's word: when there is a message of that id already, this
/// one gets an id of its own, and the one that is there stays as it is.
pub(crate) fn record_from_peer(
    turn: &mut Turn<'_, '_>,
    message: MessageId,
    conversation: ConversationId,
    people: (String, String),
    body: String,
) -> Result<(), StoreError> {
    let taken = get::<Message>(turn.tx, &message)?.is_some();
    let message = if taken { turn.message_id() } else { message };
    record(turn, message, conversation, people, body, None);
    Ok(())
}
