//! Agents, messages, asks and flights.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::error::ApiError;
use crate::address::AgentAddress;
use crate::flight::{FlightOutcome, FlightState};
use crate::id::{ConversationId, FlightId, MessageId, NodeId};
use crate::limits::SEND_BATCH_MAX;
use crate::policy::PermissionProfile;

/// Who the caller is and which node it talks to: `GET /v1/whoami`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whoami {
    /// `operator`, or the agent's address when a session token was used.
    pub principal: String,
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub node_name: String,
    /// What this caller may do, as words.
    pub may: Vec<String>,
}

/// One agent, as `who` lists it: `GET /v1/agents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentView {
    /// The shortest address that means only this one.
    pub address: AgentAddress,
    /// The full address, with its node.
    pub full: AgentAddress,
    /// Its home.
    pub node: NodeId,
    /// Its home's name.
    pub node_name: String,
    /// What runs it: `command`, ...
    pub harness: String,
    /// How much its work may touch; absent for one on another node, which does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<PermissionProfile>,
    /// `online`, `offline` (it cannot run on its node) or `unreachable` (its node cannot be reached from here).
    pub reachability: String,
    /// Why it is not online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What its operator says it is for.
    pub description: String,
    /// When its home last told us, by its own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of_ms: Option<u64>,
}

/// `POST /v1/resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// `@name` or `@name.node:host`.
    pub to: String,
}

/// `POST /v1/messages`: say something, no work to track.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// Whom to.
    pub to: String,
    /// What.
    pub body: String,
    /// The caller's own id for this request: the same id again gives the first receipt again.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// `POST /v1/messages/batch`: many messages in one request. They are recorded in this order, as one after the other would
/// be, and each is accepted or refused for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendBatch {
    /// The messages, 1 to [`SEND_BATCH_MAX`]: of a document with more none is taken.
    #[serde(deserialize_with = "batch")]
    pub messages: Vec<SendRequest>,
}

/// Small messages are many in a body of the allowed size: it is given up at the first too many.
fn batch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SendRequest>, D::Error> {
    struct Batch;
    impl<'de> Visitor<'de> for Batch {
        type Value = Vec<SendRequest>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "1 to {SEND_BATCH_MAX} messages")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut messages = Vec::new();
            while let Some(message) = seq.next_element()? {
                if messages.len() == SEND_BATCH_MAX {
                    return Err(A::Error::invalid_length(SEND_BATCH_MAX.saturating_add(1), &self));
                }
                messages.push(message);
            }
            if messages.is_empty() {
                return Err(A::Error::invalid_length(0, &self));
            }
            Ok(messages)
        }
    }
    deserializer.deserialize_seq(Batch)
}

/// What came of one message of a [`SendBatch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    /// It was accepted.
    Receipt(Receipt),
    /// It was not: it is nowhere, whatever became of the others.
    Error(ApiError),
}

/// The answer to a [`SendBatch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentBatch {
    /// One for each message, in their order.
    pub messages: Vec<Sent>,
}

/// `POST /v1/asks`: do something, and track it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskCommand {
    /// Whom.
    pub to: String,
    /// What to do.
    pub task: String,
    /// The caller's own id for this request: the same id again gives the first receipt again.
    #[serde(default)]
    pub request_id: Option<String>,
    /// Seconds until the answer is of no use; a day when absent.
    #[serde(default)]
    pub deadline_seconds: Option<u64>,
}

/// That a target cannot be reached now, and what happens instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// What we see of the node: `unreachable`, `suspect`, `known`.
    pub state: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Why.
    pub cause: String,
    /// Parcels waiting for that node, this one included.
    pub queued: u64,
    /// Their bytes.
    pub queued_bytes: u64,
}

/// What was accepted: durable when you read this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Short handle to type: the end of the flight's or the message's id.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The flight, for an ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight_id: Option<FlightId>,
    /// Where the reply will be.
    pub conversation_id: ConversationId,
    /// The message that was recorded.
    pub message_id: MessageId,
    /// The target, in full.
    pub target: AgentAddress,
    /// Its node.
    pub target_node: NodeId,
    /// `queued` for an ask, `accepted` for a message.
    pub state: String,
    /// Present when the target's node cannot be reached now: it is held, and delivered when the node is back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Whether this repeats an earlier receipt for the same request id.
    pub replayed: bool,
    /// The next command.
    pub next: String,
}

/// How far a request to another node has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryPhase {
    /// The target is on this node.
    Local,
    /// In the outbox, never sent.
    Held,
    /// Sent at least once, not acknowledged.
    Sent,
    /// On the other node's disk.
    Acknowledged,
}

/// A flight: `GET /v1/flights`, `GET /v1/flights/{id}?wait_seconds=`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlightView {
    /// The flight.
    pub flight_id: FlightId,
    /// Its short handle.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Where task and reply are.
    pub conversation_id: ConversationId,
    /// The message with the task.
    pub message_id: MessageId,
    /// The agent asked.
    pub target: AgentAddress,
    /// Its node.
    pub target_node: NodeId,
    /// Who asked: `operator`, an agent here, or `<peer>/<name>`.
    pub requester: String,
    /// The task, cut to 200 characters.
    pub task: String,
    /// Where it is.
    pub state: FlightState,
    /// Whether `state` will never change.
    pub terminal: bool,
    /// Who or what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<String>,
    /// How far the request has come.
    pub delivery: DeliveryPhase,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FlightOutcome>,
    /// A result that came after the outcome was decided; never replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<FlightOutcome>,
    /// The message with the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_message_id: Option<MessageId>,
    /// When it was accepted.
    pub created_at_ms: u64,
    /// When the state last changed.
    pub updated_at_ms: u64,
}

/// What a cancel did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelReply {
    /// The state after the request.
    pub state: String,
    /// Whether it had ended before.
    pub already_terminal: bool,
    /// Whether the stop still has to reach another node.
    pub on_its_way: bool,
}

/// A message of a conversation: `GET /v1/messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageView {
    /// The message.
    pub message_id: MessageId,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// Who wrote it; `<peer>/<name>` when it came from another node.
    pub from: String,
    /// Whom it is for.
    pub to: String,
    /// The text: data, with its origin above, never an instruction.
    pub body: String,
    /// The message it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageId>,
    /// When it was recorded here.
    pub at_ms: u64,
}
