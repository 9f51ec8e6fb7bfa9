//! Flights: asks as their origin knows them.
//!
//! ```text
//! queued --started--> running --ended--> completed | failed | cancelled
//!   |                    |
//!   +--stop, deadline----+--> waiting on the agent's node --ended | never arrived | silence--> terminal
//! ```
//! Never invent an outcome. What was never sent fails as `peer_unreachable` and cannot have run. What was sent and not
//! acknowledged is withdrawn and waits until its node answers, or for [`SILENCE_MAX_MS`]. What was acknowledged is
//! bound by its own deadline where it runs. A terminal state never changes: a later result is kept beside it.

use mesh_protocol::address::Name;
use mesh_protocol::api::ask::CancelReply;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::delivery::Epoch;
use mesh_protocol::flight::{FailureCode, FlightOutcome, FlightState};
use mesh_protocol::id::{ConversationId, FlightId, MessageId, NodeId};
use mesh_protocol::limits::BODY_BYTES_MAX;
use mesh_protocol::message::{PeerMessage, StopReason};
use serde::{Deserialize, Serialize};

use super::conversation;
use crate::deadline::{self, Deadline};
use crate::event::{Action, Reply};
use crate::limits::{OPEN_BATCH, SILENCE_MAX_MS};
use crate::outbox::{self, Class, WithdrawOutcome};
use crate::store::{Record, StoreError, Table, get, scan_prefix};
use crate::time::NodeTime;
use crate::turn::{Place, Turn};

/// One ask, at its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    /// Where task and reply are.
    pub conversation: ConversationId,
    /// The agent asked.
    pub agent: Name,
    /// Its home.
    pub node: NodeId,
    /// Who asked, as people see it.
    pub requester: String,
    /// The beginning of the task.
    pub preview: String,
    /// Where it is.
    pub state: FlightState,
    /// Who or what it waits for.
    pub waiting_on: Option<String>,
    /// Where its request is in the outbox; `None` when the agent is on this node.
    pub place: Option<Place>,
    /// Whether it was told to stop, and why.
    pub stopping: Option<StopReason>,
    /// How it ended.
    pub outcome: Option<FlightOutcome>,
    /// What came after the outcome was decided.
    pub late: Option<FlightOutcome>,
    /// The message with the reply.
    pub reply_message: Option<MessageId>,
    /// When it was accepted.
    pub created_wall_ms: u64,
    /// When the state last changed.
    pub updated_wall_ms: u64,
    /// When the answer is of no use any more.
    pub deadline: NodeTime,
}

impl Record for Flight {
    const TABLE: Table = Table::Flights;
    type Key = FlightId;
}

/// That a flight has not ended, found by the node it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenFlight;

impl Record for OpenFlight {
    const TABLE: Table = Table::OpenFlights;
    type Key = (NodeId, FlightId);
}

/// The message that carries a flight's request has the flight's own bytes, so that either is found by the other.
#[must_use]
pub(crate) const fn request_message(flight: FlightId) -> MessageId {
    MessageId::from_bytes(*flight.as_bytes())
}

/// The flight whose request a message is, if it is one's.
#[must_use]
pub(crate) const fn flight_of(message: MessageId) -> FlightId {
    FlightId::from_bytes(*message.as_bytes())
}

fn update(turn: &mut Turn<'_, '_>, id: FlightId, flight: &mut Flight) {
    flight.updated_wall_ms = turn.now.wall_ms;
    turn.tx.put(&id, flight);
    turn.actions.push(Action::FlightChanged(id));
}

/// Keeps a new flight and its deadline.
pub(crate) fn open(turn: &mut Turn<'_, '_>, id: FlightId, flight: &Flight) {
    turn.tx.put(&id, flight);
    turn.tx.put(&(flight.node, id), &OpenFlight);
    deadline::set(turn, flight.deadline, Deadline::Flight(id));
    turn.actions.push(Action::FlightChanged(id));
}

/// The agent has begun.
pub(crate) fn started(turn: &mut Turn<'_, '_>, from: NodeId, id: FlightId) -> Result<(), StoreError> {
    let Some(mut flight) = of_peer(turn, from, id)? else { return Ok(()) };
    if flight.state == FlightState::Queued {
        flight.state = FlightState::Running;
        flight.waiting_on = None;
        update(turn, id, &mut flight);
    }
    Ok(())
}

/// The agent's node says how it ended. An end that is already decided stays; this is then kept beside it.
pub(crate) fn ended(
    turn: &mut Turn<'_, '_>,
    from: NodeId,
    id: FlightId,
    outcome: FlightOutcome,
) -> Result<(), StoreError> {
    let Some(mut flight) = of_peer(turn, from, id)? else { return Ok(()) };
    let outcome = bounded(outcome);
    if flight.outcome.is_none() {
        return end(turn, id, flight, outcome);
    }
    if flight.late.is_none() && flight.outcome.as_ref() != Some(&outcome) {
        flight.late = Some(outcome);
        update(turn, id, &mut flight);
    }
    Ok(())
}

/// Decides the outcome, once: the state, the reply in the conversation, and what hangs on it.
fn end(
    turn: &mut Turn<'_, '_>,
    id: FlightId,
    mut flight: Flight,
    outcome: FlightOutcome,
) -> Result<(), StoreError> {
    if let FlightOutcome::Completed { reply } = &outcome {
        let message = turn.message_id();
        let label = turn.site.view.label(flight.node);
        let from = format!("@{}.node:{label}", flight.agent);
        let people = (from, flight.requester.clone());
        let task = Some(request_message(id));
        conversation::record(turn, message, flight.conversation, people, reply.clone(), task);
        flight.reply_message = Some(message);
    }
    flight.state = outcome.state();
    flight.waiting_on = None;
    flight.outcome = Some(outcome);
    turn.tx.delete::<OpenFlight>(&(flight.node, id));
    deadline::retain(turn, Deadline::ForgetFlight(id));
    update(turn, id, &mut flight);
    Ok(())
}

/// Stops a flight on request: at once where nothing can have begun, otherwise by telling the agent's node.
pub(crate) fn cancel(turn: &mut Turn<'_, '_>, id: FlightId) -> Result<Reply, StoreError> {
    let Some(flight) = get::<Flight>(turn.tx, &id)? else {
        let error = ApiError::new(ErrorKind::NotFound, "unknown_flight", format!("there is no flight {id}"));
        return Ok(Reply::Refused(error.hint("`mesh-cli flights` lists them")));
    };
    if flight.state.is_terminal() {
        let state = flight.state.to_string();
        return Ok(Reply::Cancelled(CancelReply { state, already_terminal: true, on_its_way: false }));
    }
    stop(turn, id, flight, StopReason::Requested)?;
    let flight = get::<Flight>(turn.tx, &id)?;
    let (state, ended) =
        flight.map_or_else(|| (String::new(), true), |f| (f.state.to_string(), f.state.is_terminal()));
    Ok(Reply::Cancelled(CancelReply { state, already_terminal: false, on_its_way: !ended }))
}

/// The answer is of no use any more. Where the agent's node has the ask, it enforces that itself.
pub(crate) fn deadline_passed(turn: &mut Turn<'_, '_>, id: FlightId) -> Result<(), StoreError> {
    match get::<Flight>(turn.tx, &id)? {
        Some(flight)
            if !flight.state.is_terminal() && flight.stopping.is_none() && flight.node != turn.site.me =>
        {
            stop(turn, id, flight, StopReason::DeadlinePassed)
        }
        Some(_) | None => Ok(()),
    }
}

fn stop(
    turn: &mut Turn<'_, '_>,
    id: FlightId,
    mut flight: Flight,
    reason: StopReason,
) -> Result<(), StoreError> {
    let told = StopRequest { id, node: flight.node, reason };
    if flight.node == turn.site.me {
        flight.stopping = Some(reason);
        update(turn, id, &mut flight);
        return told.send(turn);
    }
    let label = turn.site.view.label(flight.node);
    flight.waiting_on = match outbox::withdraw(turn.tx, flight.node, request_message(id))? {
        WithdrawOutcome::NeverSent => return end(turn, id, flight, never_ran(reason, label.as_str())),
        WithdrawOutcome::Offered => {
            Some(format!("node {label}: it was sent the ask and has not acknowledged it"))
        }
        WithdrawOutcome::Acknowledged | WithdrawOutcome::Unknown => {
            Some(format!("node {label}: it has the ask"))
        }
    };
    if flight.stopping.replace(reason).is_none() {
        deadline::set(turn, turn.now.node.plus_ms(SILENCE_MAX_MS), Deadline::FlightSilence(id));
    }
    flight.state = FlightState::Waiting;
    update(turn, id, &mut flight);
    told.send(turn)
}

struct StopRequest {
    id: FlightId,
    node: NodeId,
    reason: StopReason,
}

impl StopRequest {
    fn send(self, turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
        let message = turn.message_id();
        let content = PeerMessage::StopRun { flight: self.id, reason: self.reason };
        // Refused only by an outbox without even its reserve: the flight then waits, as it says, until its node answers
        // or the silence ends it.
        turn.send(self.node, message, Class::Control, content).map(drop)
    }
}

/// A node that has the ask was silent for too long.
pub(crate) fn silence_passed(turn: &mut Turn<'_, '_>, id: FlightId) -> Result<(), StoreError> {
    let Some(flight) = get::<Flight>(turn.tx, &id)?.filter(|flight| !flight.state.is_terminal()) else {
        return Ok(());
    };
    let label = turn.site.view.label(flight.node);
    let outcome = FlightOutcome::Failed {
        code: FailureCode::PeerSilent,
        detail: format!("node {label} was sent the ask and gave no answer for too long"),
        remediation: Some(format!("on node {label}: `mesh-cli flights` shows whether it ran")),
        may_have_run: true,
    };
    end(turn, id, flight, outcome)
}

/// The outbox was numbered anew: the request of this flight, if it is one's, has another place. Says whether it was.
pub(crate) fn moved(turn: &mut Turn<'_, '_>, message: MessageId, place: Place) -> Result<bool, StoreError> {
    let id = flight_of(message);
    let Some(flight) = get::<Flight>(turn.tx, &id)? else { return Ok(false) };
    turn.tx.put(&id, &Flight { place: Some(place), ..flight });
    Ok(true)
}

/// The peer has proved that a withdrawn request never reached it.
pub(crate) fn never_arrived(turn: &mut Turn<'_, '_>, message: MessageId) -> Result<bool, StoreError> {
    let id = flight_of(message);
    let Some(flight) = get::<Flight>(turn.tx, &id)? else { return Ok(false) };
    if !flight.state.is_terminal() {
        let label = turn.site.view.label(flight.node);
        let reason = flight.stopping.unwrap_or(StopReason::DeadlinePassed);
        end(turn, id, flight, never_ran(reason, label.as_str()))?;
    }
    Ok(true)
}

/// A disk was restored from a backup: what lies in the range is not known any more, on either side.
pub(crate) fn lost_in_gap(
    turn: &mut Turn<'_, '_>,
    peer: NodeId,
    epoch: Epoch,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), StoreError> {
    for ((_, id), OpenFlight) in scan_prefix(turn.tx, &peer, OPEN_BATCH)? {
        let Some(flight) = get::<Flight>(turn.tx, &id)? else { continue };
        if flight.place.is_some_and(|place| place.epoch == epoch && range.contains(&place.seq)) {
            let label = turn.site.view.label(peer);
            let outcome = FlightOutcome::Failed {
                code: FailureCode::OutcomeUnknown,
                detail: format!("node {label} went back to a backup from before it took this ask"),
                remediation: None,
                may_have_run: true,
            };
            end(turn, id, flight, outcome)?;
        }
    }
    Ok(())
}

/// The peer left, was revoked or is blocked, or its outbox is discarded: nothing will come from it. Returns how many
/// flights that ended.
pub(crate) fn peer_gone(turn: &mut Turn<'_, '_>, peer: NodeId) -> Result<usize, StoreError> {
    let open = scan_prefix::<OpenFlight>(turn.tx, &peer, OPEN_BATCH)?;
    let label = turn.site.view.label(peer);
    for ((_, id), OpenFlight) in &open {
        let Some(flight) = get::<Flight>(turn.tx, id)? else { continue };
        let withdrawn = outbox::withdraw(turn.tx, peer, request_message(*id))?;
        let outcome = FlightOutcome::Failed {
            code: FailureCode::PeerGone,
            detail: format!("node {label} is no longer reachable for this node by decision"),
            remediation: None,
            may_have_run: withdrawn != WithdrawOutcome::NeverSent,
        };
        end(turn, *id, flight, outcome)?;
    }
    Ok(open.len())
}

fn never_ran(reason: StopReason, label: &str) -> FlightOutcome {
    match reason {
        StopReason::Requested => FlightOutcome::Cancelled { may_have_run: false },
        StopReason::DeadlinePassed => FlightOutcome::Failed {
            code: FailureCode::PeerUnreachable,
            detail: format!("node {label} could not be reached before the deadline; the ask never got there"),
            remediation: Some(format!("`mesh-cli status` shows why {label} is unreachable; then ask again")),
            may_have_run: false,
        },
    }
}

/// The flight, if it depends on this node: nobody else may say what became of it.
fn of_peer(turn: &Turn<'_, '_>, from: NodeId, id: FlightId) -> Result<Option<Flight>, StoreError> {
    Ok(get::<Flight>(turn.tx, &id)?.filter(|flight| flight.node == from))
}

/// A peer's text within our bounds.
fn bounded(outcome: FlightOutcome) -> FlightOutcome {
    let cut = |mut text: String, limit: usize| {
        text.truncate(text.floor_char_boundary(limit));
        text
    };
    match outcome {
        FlightOutcome::Completed { reply } => FlightOutcome::Completed { reply: cut(reply, BODY_BYTES_MAX) },
        FlightOutcome::Failed { code, detail, remediation, may_have_run } => FlightOutcome::Failed {
            code,
            detail: cut(detail, 4096),
            remediation: remediation.map(|text| cut(text, 4096)),
            may_have_run,
        },
        FlightOutcome::Cancelled { may_have_run } => FlightOutcome::Cancelled { may_have_run },
    }
}
