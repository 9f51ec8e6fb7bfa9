//! Taking a job in at its origin, and giving it to another executor when that is allowed and its own is gone.
//!
//! Everything is checked before anything is written; a refusal leaves no trace. What is accepted is one commit: the
//! job, its receipt, its charge, its deadline and the parcel for the executor. A request that was accepted before is
//! answered first of all, so that a repetition gets its answer also when the node is full or about to stop.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{JobReceipt, RunRequest};
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{FILES_BYTES_MAX, JobSpec, JobStatus};
use mesh_protocol::message::{JobRequest, PeerMessage, Requester, StopReason};

use super::execution::JobBody;
use super::job::{Job, OpenJob, request_message, update};
use super::submission::Submission;
use super::{events, schedule, usage};
use crate::broker::receipt::{self, Lookup};
use crate::broker::send::{held, refusal, remaining};
use crate::deadline::{self, Deadline};
use crate::event::{Caller, Reply};
use crate::evidence::Attested;
use crate::limits::{JOB_COMPLETION_BYTES, JOB_DEADLINE_DEFAULT_MS, JOB_MOVE_AFTER_MS};
use crate::outbox::Class;
use crate::store::{StoreError, get};
use crate::turn::{Sent, Turn};
use crate::{parts, placement};

/// What receipts of jobs are kept under.
pub(super) const KIND: &str = "run";

/// Accepts a job: placed, or refused before anything is stored.
pub(crate) fn run(
    turn: &mut Turn<'_, '_>,
    caller: &Caller,
    submission: &Submission,
) -> Result<Reply, StoreError> {
    let Submission { request, fingerprint, asked } = submission;
    let tenant = caller.tenant();
    let own_key = request.idempotency_key.as_deref();
    let slot = match receipt::look_up(turn, (KIND, &tenant), own_key, || *fingerprint.as_bytes())? {
        Lookup::New(slot) => slot,
        Lookup::Replay(given) => return replay(turn, given),
        Lookup::Refused(error) => return Ok(Reply::Refused(error)),
    };
    let node = match admit(turn, &tenant, request)? {
        Ok(node) => node,
        Err(error) => return Ok(Reply::Refused(error)),
    };
    let random = turn.mint();
    let id = JobId::mint(turn.now.wall_ms, random);
    let remaining_ms = remaining(request.deadline_seconds, JOB_DEADLINE_DEFAULT_MS);
    let message = message(id, &tenant, &request.spec, remaining_ms);
    let (place, held) = if node == turn.site.me {
        (None, None)
    } else {
        match turn.send(node, request_message(id), Class::Request, message.clone())? {
            Sent::Queued(place, queued) => (place, held(&turn.site.view, node, &queued)),
            Sent::Refused(refused) => return Ok(Reply::Refused(refusal(turn, node, &refused))),
            Sent::Here => (None, None),
        }
    };
    let waiting_on = held.as_ref().map(|held| format!("node {}: {}", turn.site.view.label(node), held.state));
    let node_name = turn.site.view.label(node).to_string();
    let accepted =
        JobReceipt { job_id: id, status: JobStatus::Queued, node, node_name, held, replayed: false };
    let job = Job {
        asked: asked.clone(),
        node,
        tried: Vec::new(),
        principal: caller.principal(),
        status: JobStatus::Queued,
        waiting_on,
        place,
        stopping: None,
        result: None,
        late: None,
        attested: Attested::Pending,
        effective_limits: None,
        idempotent: request.idempotent,
        receipt: receipt::keep_with(turn, slot, &accepted),
        charged: charge(&request.spec),
        told_bytes: 0,
        deadline: turn.now.node.plus_ms(remaining_ms),
        created_wall_ms: turn.now.wall_ms,
        updated_wall_ms: turn.now.wall_ms,
        requester: tenant,
    };
    turn.tx.put(&id, &job);
    turn.tx.put(&(node, id), &OpenJob);
    usage::accepted(turn, &job.requester, job.charged)?;
    deadline::set(turn, job.deadline, Deadline::Job(id));
    if node == turn.site.me {
        turn.send(node, request_message(id), Class::Request, message)?;
    } else if request.idempotent {
        turn.tx.put(&(turn.site.me, id), &JobBody(request.spec.clone()));
        deadline::set(turn, turn.now.node.plus_ms(JOB_MOVE_AFTER_MS), Deadline::MoveJob(id));
    }
    Ok(Reply::Job(accepted))
}

fn message(job: JobId, tenant: &str, spec: &JobSpec, remaining_ms: u64) -> PeerMessage {
    let from = Requester { name: tenant.to_owned() };
    PeerMessage::Job(JobRequest { job, from, spec: spec.clone(), remaining_ms })
}

/// Where a new job runs, if there is a node and room for it.
fn admit(
    turn: &Turn<'_, '_>,
    tenant: &str,
    request: &RunRequest,
) -> Result<Result<NodeId, ApiError>, StoreError> {
    if turn.stopping {
        let message = "the node is about to stop";
        return Ok(Err(ApiError::new(ErrorKind::Unavailable, "shutting_down", message)));
    }
    let node = match placement::place(turn.site, &request.spec, request.on.as_deref()) {
        Ok(node) => node,
        Err(error) => return Ok(Err(error)),
    };
    let policy = &turn.site.jobs;
    if let Some(error) = usage::refusal(turn.tx, policy, tenant, charge(&request.spec))? {
        return Ok(Err(error));
    }
    let bytes = u64::try_from(request.spec.bytes()).unwrap_or(u64::MAX);
    if node == turn.site.me
        && let Some(code) = schedule::full(turn.tx, policy, (tenant, bytes))?
    {
        let error = ApiError::new(ErrorKind::Busy, code, "this node takes in no more jobs now");
        return Ok(Err(error.hint("try again when some have begun")));
    }
    Ok(Ok(node))
}

/// Bytes set aside for a job until it has ended.
fn charge(spec: &JobSpec) -> u64 {
    let files = if spec.outputs.is_empty() { 0 } else { FILES_BYTES_MAX };
    let bytes = u64::try_from(spec.bytes().saturating_add(files)).unwrap_or(u64::MAX);
    bytes.saturating_add(JOB_COMPLETION_BYTES)
}

/// The first receipt, with the status as it is now: a replay does not pretend that nothing has happened since.
fn replay(turn: &Turn<'_, '_>, given: JobReceipt) -> Result<Reply, StoreError> {
    let job = get::<Job>(turn.tx, &given.job_id)?;
    let (status, node) = job.map_or((given.status, given.node), |job| (job.status, job.node));
    let node_name = turn.site.view.label(node).to_string();
    Ok(Reply::Job(JobReceipt { status, node, node_name, replayed: true, ..given }))
}

/// Gives a job to another executor, if it may be run twice, its own is out of reach and there is another. Asks again
/// later as long as it has not ended.
pub(crate) fn reconsider(turn: &mut Turn<'_, '_>, id: JobId) -> Result<(), StoreError> {
    let open = |job: &Job| job.idempotent && job.stopping.is_none() && !job.status.is_terminal();
    let Some(mut job) = get::<Job>(turn.tx, &id)?.filter(open) else { return Ok(()) };
    let Some(JobBody(spec)) = get::<JobBody>(turn.tx, &(turn.site.me, id))? else { return Ok(()) };
    deadline::set(turn, turn.now.node.plus_ms(JOB_MOVE_AFTER_MS), Deadline::MoveJob(id));
    let left = job.node;
    let tried: Vec<NodeId> = job.tried.iter().copied().chain([left]).collect();
    if placement::is_reached(turn.site, left) {
        return Ok(());
    }
    let Some(node) = placement::elsewhere(turn.site, &spec, &tried) else { return Ok(()) };
    let remaining_ms = job.deadline.since(turn.now.node);
    let message = message(id, &job.requester, &spec, remaining_ms);
    let place = if node == turn.site.me {
        None
    } else {
        match turn.send(node, request_message(id), Class::Request, message.clone())? {
            Sent::Queued(place, _) => place,
            Sent::Here | Sent::Refused(_) => return Ok(()),
        }
    };
    parts::withdraw(turn.tx, left, request_message(id))?;
    let stop = PeerMessage::StopJob { job: id, reason: StopReason::Requested };
    let stop_id = turn.message_id();
    turn.send(left, stop_id, Class::Control, stop)?;
    turn.tx.delete::<OpenJob>(&(left, id));
    turn.tx.put(&(node, id), &OpenJob);
    // The events of the other attempt are of another chain.
    while events::forget(turn.tx, (turn.site.me, id), crate::limits::EVENT_PAGE_MAX)? {}
    if job.status == JobStatus::Running {
        usage::requeued(turn, &job.requester)?;
    }
    job = Job { node, tried, place, status: JobStatus::Queued, told_bytes: 0, ..job };
    job.waiting_on = None;
    update(turn, id, &mut job);
    if node == turn.site.me {
        turn.send(node, request_message(id), Class::Request, message)?;
    }
    Ok(())
}
