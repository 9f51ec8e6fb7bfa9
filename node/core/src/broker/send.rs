//! The two things a caller does: say something, and give work.
//!
//! Everything is checked before anything is written; a refusal leaves no trace. What is accepted is one commit:
//! receipt, message, flight, deadline and the parcel for the other node.

use mesh_protocol::api::ask::{AskCommand, Held, Receipt, SendRequest};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{ConversationId, FlightId, NodeId};
use mesh_protocol::limits::BODY_BYTES_MAX;
use mesh_protocol::message::{AskRequest, Hop, PeerMessage, Post, Requester};

use super::flight::{self, Flight};
use super::receipt::{self, Lookup};
use super::{conversation, resolve};
use crate::event::{Caller, Reply};
use crate::limits::{ASK_DEADLINE_DEFAULT_MS, DEADLINE_MAX_MS, PREVIEW_CHARS};
use crate::outbox::{Class, PublishError, Queued};
use crate::store::StoreError;
use crate::turn::{Place, Sent, Turn};
use crate::view::{Contact, KnownAgent, View};

/// Records a message for an agent and sends it to the agent's node.
pub(crate) fn send(
    turn: &mut Turn<'_, '_>,
    caller: &Caller,
    request: &SendRequest,
) -> Result<Reply, StoreError> {
    let fingerprint = || receipt::fingerprint(request);
    let slot =
        match receipt::look_up(turn, ("send", caller.name()), request.request_id.as_deref(), fingerprint)? {
            Lookup::New(slot) => slot,
            Lookup::Replay(given) => return Ok(Reply::Receipt(Receipt { replayed: true, ..given })),
            Lookup::Refused(error) => return Ok(Reply::Refused(error)),
        };
    let there = target(&turn.site.view, &request.to, &request.body)
        .and_then(|agent| resolve::check_there(&turn.site.view, agent).map(|()| agent.clone()));
    let agent = match there {
        Ok(agent) => agent,
        Err(error) => return Ok(Reply::Refused(error)),
    };
    let message = turn.message_id();
    let conversation = new_conversation(turn);
    let post = PeerMessage::Post(Post {
        conversation,
        message,
        from: Requester { name: caller.name().to_owned() },
        to: agent.name.clone(),
        body: request.body.clone(),
    });
    let held = if agent.node == turn.site.me {
        None
    } else {
        match turn.send(agent.node, message, Class::Request, post)? {
            Sent::Queued(_, queued) => held(&turn.site.view, agent.node, &queued),
            Sent::Refused(refused) => return Ok(Reply::Refused(refusal(turn, agent.node, &refused))),
            Sent::Here => None,
        }
    };
    let people = (caller.tenant(), turn.site.view.full_address(&agent).to_string());
    conversation::record(turn, message, conversation, people, request.body.clone(), None);
    let accepted = Receipt {
        reference: message.suffix(),
        flight_id: None,
        conversation_id: conversation,
        message_id: message,
        target: turn.site.view.full_address(&agent),
        target_node: agent.node,
        state: "accepted".to_owned(),
        held,
        replayed: false,
        next: "mesh-cli outbox".to_owned(),
    };
    receipt::keep(turn, slot, &accepted);
    Ok(Reply::Receipt(accepted))
}

/// Accepts work for an agent.
pub(crate) fn ask(
    turn: &mut Turn<'_, '_>,
    caller: &Caller,
    command: &AskCommand,
) -> Result<Reply, StoreError> {
    let fingerprint = || receipt::fingerprint(command);
    let slot =
        match receipt::look_up(turn, ("ask", caller.name()), command.request_id.as_deref(), fingerprint)? {
            Lookup::New(slot) => slot,
            Lookup::Replay(given) => return Ok(Reply::Receipt(Receipt { replayed: true, ..given })),
            Lookup::Refused(error) => return Ok(Reply::Refused(error)),
        };
    let ready = target(&turn.site.view, &command.to, &command.task)
        .and_then(|agent| resolve::check_ready(&turn.site.view, agent).map(|()| agent.clone()));
    let agent = match ready {
        Ok(agent) => agent,
        Err(error) => return Ok(Reply::Refused(error)),
    };
    let random = turn.mint();
    let id = FlightId::mint(turn.now.wall_ms, random);
    let conversation = new_conversation(turn);
    let remaining_ms = remaining(command.deadline_seconds, ASK_DEADLINE_DEFAULT_MS);
    let request = AskRequest {
        flight: id,
        conversation,
        message: flight::request_message(id),
        from: Requester { name: caller.name().to_owned() },
        to: agent.name.clone(),
        task: command.task.clone(),
        remaining_ms,
        hops: hops(turn.site.me, caller),
    };
    let (place, held) = match depart(turn, agent.node, &request)? {
        Departure::Local => (None, None),
        Departure::Queued(place, held) => (place, held),
        Departure::Refused(error) => return Ok(Reply::Refused(error)),
    };
    let target = turn.site.view.full_address(&agent);
    let people = (caller.tenant(), target.to_string());
    conversation::record(turn, request.message, conversation, people, command.task.clone(), None);
    let new = Flight {
        conversation,
        agent: agent.name.clone(),
        node: agent.node,
        requester: caller.tenant(),
        preview: command.task.chars().take(PREVIEW_CHARS).collect(),
        state: FlightState::Queued,
        waiting_on: held
            .as_ref()
            .map(|held| format!("node {}: {}", turn.site.view.label(agent.node), held.state)),
        place,
        stopping: None,
        outcome: None,
        late: None,
        reply_message: None,
        created_wall_ms: turn.now.wall_ms,
        updated_wall_ms: turn.now.wall_ms,
        deadline: turn.now.node.plus_ms(remaining_ms),
    };
    flight::open(turn, id, &new);
    let accepted = Receipt {
        reference: id.suffix(),
        flight_id: Some(id),
        conversation_id: conversation,
        message_id: request.message,
        target,
        target_node: agent.node,
        state: FlightState::Queued.to_string(),
        held,
        replayed: false,
        next: format!("mesh-cli flights {}", id.suffix()),
    };
    receipt::keep(turn, slot, &accepted);
    if agent.node == turn.site.me {
        turn.send(agent.node, request.message, Class::Request, PeerMessage::Ask(request))?;
    }
    Ok(Reply::Receipt(accepted))
}

enum Departure {
    Local,
    Queued(Option<Place>, Option<Held>),
    Refused(ApiError),
}

/// Puts a request for another node in its outbox, before anything else is written: a full outbox refuses the ask.
fn depart(turn: &mut Turn<'_, '_>, node: NodeId, request: &AskRequest) -> Result<Departure, StoreError> {
    if node == turn.site.me {
        return Ok(Departure::Local);
    }
    Ok(match turn.send(node, request.message, Class::Request, PeerMessage::Ask(request.clone()))? {
        Sent::Queued(place, queued) => Departure::Queued(place, held(&turn.site.view, node, &queued)),
        Sent::Refused(refused) => Departure::Refused(refusal(turn, node, &refused)),
        Sent::Here => Departure::Local,
    })
}

fn target<'v>(view: &'v View, to: &str, body: &str) -> Result<&'v KnownAgent, ApiError> {
    if body.trim().is_empty() {
        let error = ApiError::new(ErrorKind::Invalid, "empty_body", "there is no text");
        return Err(error.hint("say what it is about in a sentence"));
    }
    if body.len() > BODY_BYTES_MAX {
        let message = format!("the text has {} bytes, {BODY_BYTES_MAX} are allowed", body.len());
        let error = ApiError::new(ErrorKind::Invalid, "body_too_large", message);
        return Err(error.hint("say where the rest can be read, in place of all of it"));
    }
    resolve::resolve(view, to)
}

/// A deadline in milliseconds from what a caller said in seconds, within bounds.
pub(crate) fn remaining(seconds: Option<u64>, default_ms: u64) -> u64 {
    seconds.map_or(default_ms, |seconds| seconds.saturating_mul(1_000)).clamp(1_000, DEADLINE_MAX_MS)
}

/// That a node cannot be reached now, with what waits for it.
pub(crate) fn held(view: &View, node: NodeId, queued: &Queued) -> Option<Held> {
    let member = view.members.get(&node).filter(|member| member.contact == Contact::NotNow)?;
    Some(Held {
        state: member.state.clone(),
        since_ms: member.since_wall_ms,
        cause: member.cause.clone(),
        queued: queued.depth,
        queued_bytes: queued.bytes,
    })
}

/// Why an outbox did not take a request.
pub(crate) fn refusal(turn: &Turn<'_, '_>, node: NodeId, refused: &PublishError) -> ApiError {
    let label = turn.site.view.label(node);
    let (kind, code) = match refused {
        PublishError::Full { .. } | PublishError::NodeFull { .. } => (ErrorKind::Busy, "outbox_full"),
        PublishError::Blocked { .. } => (ErrorKind::Refused, "peer_gone"),
        PublishError::TooLong { .. } => (ErrorKind::Invalid, "body_too_large"),
        PublishError::Store(_) => (ErrorKind::Internal, "storage_unavailable"),
    };
    ApiError::new(kind, code, format!("the outbox for node {label} does not take it: {refused}"))
        .hint("`mesh-cli outbox` shows what waits for each node")
}

fn new_conversation(turn: &mut Turn<'_, '_>) -> ConversationId {
    let random = turn.mint();
    ConversationId::mint(turn.now.wall_ms, random)
}

/// The agents an ask came through: an agent's own work's, and the agent itself.
fn hops(me: NodeId, caller: &Caller) -> Vec<Hop> {
    match caller {
        Caller::Operator | Caller::Tenant { .. } => Vec::new(),
        Caller::Agent { name, hops } => {
            let this = Hop { node: me, agent: name.to_string() };
            hops.iter().cloned().chain(std::iter::once(this)).collect()
        }
    }
}
