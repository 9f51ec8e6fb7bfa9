//! Records as the API shows them, read from a snapshot and bounded.

use mesh_protocol::address::AgentAddress;
use mesh_protocol::api::ask::{AgentView, DeliveryPhase, FlightView, MessageView};
use mesh_protocol::api::job::JobView;
use mesh_protocol::id::{FlightId, JobId, MessageId, NodeId};

use super::conversation::Message;
use super::flight::{Flight, request_message};
use crate::jobs::job::Job;
use crate::limits::LIST_MAX;
use crate::outbox;
use crate::store::{Record, Store, StoreError, get, scan_last};
use crate::time::Now;
use crate::turn::Place;
use crate::view::{Contact, View};

/// Every agent that is known, this node's unadvertised ones included.
#[must_use]
pub fn agents(view: &View) -> Vec<AgentView> {
    let one = |agent: &crate::view::KnownAgent| {
        let member = view.members.get(&agent.node);
        let reachability = view.reachability(agent);
        let reason = match reachability {
            "offline" => agent.offline.clone(),
            "online" => None,
            _ => member.map(|member| format!("its node is {}: {}", member.state, member.cause)),
        };
        AgentView {
            address: view.address(agent),
            full: view.full_address(agent),
            node: agent.node,
            node_name: view.label(agent.node).to_string(),
            harness: agent.harness.clone(),
            profile: agent.profile,
            reachability: reachability.to_owned(),
            reason,
            description: agent.description.clone(),
            as_of_ms: member.and_then(|member| member.as_of_ms),
        }
    };
    view.agents.iter().map(one).collect()
}

/// A flight as people see it.
///
/// # Errors
/// [`StoreError`].
pub fn flight(
    store: &dyn Store,
    view: &View,
    now: Now,
    id: FlightId,
    flight: Flight,
) -> Result<FlightView, StoreError> {
    let delivery = phase(store, now, flight.node, flight.place)?;
    // What was noted when it was made, that its node could not be reached, is over once the node has it.
    let taken = delivery == DeliveryPhase::Acknowledged && flight.stopping.is_none();
    Ok(FlightView {
        flight_id: id,
        reference: id.suffix(),
        conversation_id: flight.conversation,
        message_id: request_message(id),
        target: AgentAddress { agent: flight.agent, node: Some(view.label(flight.node)) },
        target_node: flight.node,
        requester: flight.requester,
        task: flight.preview,
        state: flight.state,
        terminal: flight.state.is_terminal(),
        waiting_on: flight.waiting_on.filter(|_| !taken),
        delivery,
        outcome: flight.outcome,
        late: flight.late,
        reply_message_id: flight.reply_message,
        created_at_ms: flight.created_wall_ms,
        updated_at_ms: flight.updated_wall_ms,
    })
}

/// A job as people see it.
///
/// # Errors
/// [`StoreError`].
pub fn job(store: &dyn Store, view: &View, now: Now, id: JobId, job: Job) -> Result<JobView, StoreError> {
    let delivery = phase(store, now, job.node, job.place)?;
    let taken = delivery == DeliveryPhase::Acknowledged && job.stopping.is_none();
    let out_of_reach = view.members.get(&job.node).filter(|member| {
        !job.status.is_terminal() && matches!(member.contact, Contact::NotNow | Contact::Gone)
    });
    let waiting_on = match out_of_reach {
        Some(member) => Some(format!("node {}: {}, {}", view.label(job.node), member.state, member.cause)),
        None => job.waiting_on.filter(|_| !taken),
    };
    Ok(JobView {
        job_id: id,
        language: job.asked.language,
        status: job.status,
        terminal: job.status.is_terminal(),
        node: job.node,
        node_name: view.label(job.node).to_string(),
        requester: job.requester,
        delivery,
        waiting_on,
        principal: job.principal,
        minimum_isolation: job.asked.requirements.minimum_isolation,
        requested_limits: job.asked.limits,
        effective_limits: job.effective_limits,
        input_files: job.asked.input_files,
        outputs: job.asked.outputs,
        runtime: job.asked.runtime,
        result: job.result,
        late: job.late,
        attestation: job.attested.into(),
        created_at_ms: job.created_wall_ms,
        updated_at_ms: job.updated_wall_ms,
    })
}

/// How far a request has come, by the outbox it is in.
fn phase(
    store: &dyn Store,
    now: Now,
    node: NodeId,
    place: Option<Place>,
) -> Result<DeliveryPhase, StoreError> {
    let Some(place) = place else { return Ok(DeliveryPhase::Local) };
    let Some(outbox) = outbox::depth(store, now, node)? else { return Ok(DeliveryPhase::Held) };
    Ok(if outbox.epoch != place.epoch || place.seq <= outbox.acked {
        // An epoch ends only with everything in it settled or queued again.
        DeliveryPhase::Acknowledged
    } else if place.seq <= outbox.offered {
        DeliveryPhase::Sent
    } else {
        DeliveryPhase::Held
    })
}

/// A message as people see it.
#[must_use]
pub fn message(id: MessageId, message: Message) -> MessageView {
    MessageView {
        message_id: id,
        conversation_id: message.conversation,
        from: message.from,
        to: message.to,
        body: message.body,
        reply_to: message.reply_to,
        at_ms: message.at_wall_ms,
    }
}

/// The newest records of a kind, newest first.
///
/// # Errors
/// [`StoreError`].
pub fn newest<R: Record>(store: &dyn Store, limit: usize) -> Result<Vec<(R::Key, R)>, StoreError> {
    scan_last(store, limit.min(LIST_MAX))
}

/// The flight a full id or the end of one means, among the newest; `None` when none or several do.
///
/// # Errors
/// [`StoreError`].
pub fn find_flight(store: &dyn Store, text: &str) -> Result<Option<(FlightId, Flight)>, StoreError> {
    if let Ok(id) = text.parse::<FlightId>() {
        return Ok(get::<Flight>(store, &id)?.map(|flight| (id, flight)));
    }
    if text.len() < 4 {
        return Ok(None);
    }
    let mut found = newest::<Flight>(store, LIST_MAX)?;
    found.retain(|(id, _)| id.to_string().ends_with(text));
    Ok(if found.len() == 1 { found.pop() } else { None })
}
