//! Agents, messages and flights.

use std::time::{Duration, Instant};

use mesh_node_core::broker::conversation::Message;
use mesh_node_core::broker::flight::Flight;
use mesh_node_core::broker::{list, resolve as resolver};
use mesh_node_core::event::{Caller, Command, Event, Reply};
use mesh_node_core::outbox::{self, Fate};
use mesh_node_core::time::Now;
use mesh_node_core::turn::Place;
use mesh_protocol::address::Name;
use mesh_protocol::api::ask::{
    AgentView, FlightView, MessageView, Receipt, ResolveRequest, SendRequest, Sent, SentBatch,
};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::id::FlightId;

use super::{Local, decided, mismatch, storage};
use crate::clock::Clock;
use crate::service::{FlightFilter, LIST_ROWS_MAX, MessageFilter, Principal};
use crate::storage::Snapshot;

/// The one agent an address means.
pub(super) fn resolve(local: &Local, request: &ResolveRequest) -> Result<AgentView, ApiError> {
    let view = local.view();
    let agent = resolver::resolve(&view, &request.to)?;
    let full = view.full_address(agent);
    let found = list::agents(&view).into_iter().find(|agent| agent.full == full);
    found.ok_or_else(mismatch)
}

/// The newest messages the caller may see.
pub(super) fn messages(
    local: &Local,
    who: &Principal,
    filter: &MessageFilter,
    limit: usize,
) -> Result<Vec<MessageView>, ApiError> {
    let rows = list::newest::<Message>(&local.snapshot()?, LIST_ROWS_MAX).map_err(|error| storage(&error))?;
    // An agent of the same name on another node is another agent.
    let names = [local.name.to_string(), local.me.short()];
    let wanted = |message: &Message| {
        let party = |name: &str| {
            let address = format!("@{name}");
            [&message.from, &message.to]
                .into_iter()
                .any(|who| *who == address || who.starts_with(&format!("{address}.")))
        };
        let agent = filter.agent.as_ref().is_none_or(|name| party(name.as_str()));
        let own = match who {
            Principal::Operator => true,
            Principal::Agent { name, .. } => names.iter().any(|node| is_party(message, name, node)),
            Principal::Tenant { .. } | Principal::Anonymous => false,
        };
        own && agent && filter.conversation.is_none_or(|conversation| conversation == message.conversation)
    };
    let one = |(id, message): (_, Message)| list::message(id, message);
    Ok(rows.into_iter().filter(|(_, message)| wanted(message)).take(limit).map(one).collect())
}

/// Whether a message is from or for this node's agent of this name, by one of the names of this node.
fn is_party(message: &Message, agent: &Name, node: &str) -> bool {
    let (short, full) = (format!("@{agent}"), format!("@{agent}.node:{node}"));
    [&message.from, &message.to].into_iter().any(|party| *party == short || *party == full)
}

/// The newest flights the caller may see.
pub(super) fn flights(
    local: &Local,
    who: &Principal,
    filter: &FlightFilter,
    limit: usize,
) -> Result<Vec<FlightView>, ApiError> {
    let snapshot = local.snapshot()?;
    let now = local.clock.now();
    let rows = list::newest::<Flight>(&snapshot, LIST_ROWS_MAX).map_err(|error| storage(&error))?;
    let shown = rows.into_iter().filter(|(_, flight)| {
        Local::shows(who, &flight.requester) && filter.state.is_none_or(|state| flight.state == state)
    });
    shown.take(limit).map(|(id, flight)| view(local, &snapshot, now, id, flight)).collect()
}

/// One flight, by its id or the end of it.
pub(super) fn flight(local: &Local, who: &Principal, text: &str) -> Result<FlightView, ApiError> {
    let snapshot = local.snapshot()?;
    let found = list::find_flight(&snapshot, text).map_err(|error| storage(&error))?;
    match found.filter(|(_, flight)| Local::shows(who, &flight.requester)) {
        Some((id, flight)) => view(local, &snapshot, local.clock.now(), id, flight),
        None => Err(ApiError::new(
            ErrorKind::NotFound,
            "unknown_flight",
            format!("there is no flight `{text:.80}`"),
        )
        .hint("`mesh-cli flights` lists them")),
    }
}

fn view(
    local: &Local,
    snapshot: &Snapshot,
    now: Now,
    id: FlightId,
    flight: Flight,
) -> Result<FlightView, ApiError> {
    list::flight(snapshot, &local.view(), now, id, flight).map_err(|error| storage(&error))
}

/// Has each of these messages recorded, in this order, and waits for those that were.
pub(super) async fn send_batch(
    local: &Local,
    caller: Caller,
    requests: Vec<SendRequest>,
    wait: Duration,
) -> Result<SentBatch, ApiError> {
    let deadline = Instant::now() + wait;
    // All are in the writer's queue before the first is waited for, so it commits many together.
    let enqueue = |request: SendRequest| {
        let bytes = request.body.len();
        local.writer.enqueue(Event::Command(Command::Send(caller.clone(), request)), bytes)
    };
    let decisions: Vec<_> = requests.into_iter().map(enqueue).collect();
    let mut messages = Vec::with_capacity(decisions.len());
    for decision in decisions {
        let answer = match decision {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        messages.push(match decided(answer) {
            Ok(Reply::Receipt(receipt)) => Sent::Receipt(receipt),
            Ok(_) => Sent::Error(mismatch()),
            Err(error) => Sent::Error(error),
        });
    }
    if !wait.is_zero() {
        for message in &mut messages {
            if let Sent::Receipt(receipt) = message {
                let rest = deadline.saturating_duration_since(Instant::now());
                // What cannot be looked up was accepted all the same, and is said to be no more.
                if let Ok(seen) = arrived(local, receipt.clone(), rest).await {
                    *receipt = seen;
                }
            }
        }
    }
    Ok(SentBatch { messages })
}

/// The receipt of a message, with what became of the message within this time.
pub(super) async fn arrived(
    local: &Local,
    mut receipt: Receipt,
    wait: Duration,
) -> Result<Receipt, ApiError> {
    let peer = receipt.target_node;
    if peer != local.me {
        let mut acknowledgements = local.delivery.acknowledgements(peer);
        let looking = async {
            loop {
                // Listens before it looks, so no acknowledgement falls in between.
                acknowledgements.mark_unchanged();
                let place = match fate(local, &receipt)? {
                    Fate::Waiting(place) => place,
                    settled => return Ok(settled),
                };
                let passed = |mark: Place| mark.epoch != place.epoch || mark.seq >= place.seq;
                loop {
                    // Fails only when the node is stopping.
                    if acknowledgements.changed().await.is_err() {
                        return Ok(Fate::Waiting(place));
                    }
                    if acknowledgements.borrow_and_update().is_some_and(passed) {
                        break;
                    }
                }
            }
        };
        // Too late is no error: the receipt says how it stands.
        let known = match tokio::time::timeout(wait, looking).await {
            Ok(known) => known?,
            Err(_) => fate(local, &receipt)?,
        };
        match known {
            Fate::Delivered => {}
            Fate::Waiting(_) => return Ok(receipt),
            Fate::Gone => {
                receipt.state = "withdrawn".to_owned();
                return Ok(receipt);
            }
        }
    }
    receipt.state = "delivered".to_owned();
    receipt.held = None;
    Ok(receipt)
}

fn fate(local: &Local, receipt: &Receipt) -> Result<Fate, ApiError> {
    outbox::fate(&local.snapshot()?, receipt.target_node, receipt.message_id).map_err(|error| storage(&error))
}
