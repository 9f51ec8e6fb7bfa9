//! Jobs as their origin knows them.
//!
//! ```text
//! queued --started--> running --ended--> a terminal status
//!   |                    |
//!   +--stop, deadline----+--> waiting on the executor --ended | never arrived | silence--> terminal
//! ```
//! Placement is decided once, in the commit that accepts the job; a job is never moved because somebody is late. A
//! terminal status never changes. The evidence is kept as the exact bytes that came, with the verdict of the check
//! that was made when they came.

use mesh_protocol::api::ask::CancelReply;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::delivery::Epoch;
use mesh_protocol::evidence::receipt::Limits;
use mesh_protocol::id::{JobId, MessageId, NodeId};
use mesh_protocol::job::{JobResult, JobStatus};
use mesh_protocol::message::{PeerMessage, StopReason};
use serde::{Deserialize, Serialize};

use super::ended::{Ended, unproven};
use super::execution::JobBody;
use super::outline::Outline;
use super::{events, outputs, signing, usage};
use crate::broker::receipt::Given;
use crate::deadline::{self, Deadline};
use crate::event::{Action, Reply};
use crate::evidence::{self, Attested, Evidence};
use crate::limits::{JOB_EVENTS_BYTES_MAX, OPEN_BATCH, SILENCE_MAX_MS, SWEEP_BATCH};
use crate::outbox::{Class, WithdrawOutcome};
use crate::parts;
use crate::store::{Record, StoreError, Table, get, scan_prefix};
use crate::time::NodeTime;
use crate::turn::{Place, Turn};

/// One job, at its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What was asked for.
    pub asked: Outline,
    /// Where it runs.
    pub node: NodeId,
    /// Executors it was given to before, in vain.
    pub tried: Vec<NodeId>,
    /// On whose behalf: the tenant.
    pub requester: String,
    /// Who in particular.
    pub principal: Option<String>,
    /// Where it is.
    pub status: JobStatus,
    /// Who or what it waits for.
    pub waiting_on: Option<String>,
    /// Where its request is in the outbox; `None` when it runs here.
    pub place: Option<Place>,
    /// Whether it was told to stop, and why.
    pub stopping: Option<StopReason>,
    /// How it ended.
    pub result: Option<JobResult>,
    /// What came after the end was decided.
    pub late: Option<JobResult>,
    /// What became of the proof.
    pub attested: Attested,
    /// The limits that were in force, as the proof says.
    pub effective_limits: Option<Limits>,
    /// Whether running it twice does no harm.
    pub idempotent: bool,
    /// The receipt of its request, which is forgotten with it.
    pub receipt: Option<String>,
    /// Bytes its tenant is charged for.
    pub charged: u64,
    /// Bytes of events that its executor told while it ran.
    pub told_bytes: u64,
    /// When the result is of no use any more.
    pub deadline: NodeTime,
    /// When it was accepted.
    pub created_wall_ms: u64,
    /// When the status last changed.
    pub updated_wall_ms: u64,
}

impl Record for Job {
    const TABLE: Table = Table::Jobs;
    type Key = JobId;
}

/// That a job has not ended, found by the node it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenJob;

impl Record for OpenJob {
    const TABLE: Table = Table::OpenJobs;
    type Key = (NodeId, JobId);
}

pub(super) const fn request_message(job: JobId) -> MessageId {
    MessageId::from_bytes(*job.as_bytes())
}

pub(super) fn update(turn: &mut Turn<'_, '_>, id: JobId, job: &mut Job) {
    job.updated_wall_ms = turn.now.wall_ms;
    turn.tx.put(&id, job);
    turn.actions.push(Action::JobChanged(id));
}

/// The executor has begun.
pub(crate) fn started(turn: &mut Turn<'_, '_>, from: NodeId, id: JobId) -> Result<(), StoreError> {
    let job = of_peer(turn, from, id)?.filter(|job| job.status == JobStatus::Queued);
    let Some(mut job) = job else { return Ok(()) };
    usage::begun(turn, &job.requester)?;
    job.status = JobStatus::Running;
    job.waiting_on = None;
    update(turn, id, &mut job);
    Ok(())
}

/// The executor says what the job did, as it does it.
pub(crate) fn told(
    turn: &mut Turn<'_, '_>,
    from: NodeId,
    id: JobId,
    texts: &[String],
) -> Result<(), StoreError> {
    let open = |job: &Job| !job.status.is_terminal() && job.told_bytes < JOB_EVENTS_BYTES_MAX;
    let Some(mut job) = of_peer(turn, from, id)?.filter(open) else { return Ok(()) };
    let key = (turn.site.me, id);
    let last = events::last(turn.tx, key)?;
    let bytes = events::put(turn.tx, key, &events::from_peer(id, last.as_ref(), texts));
    job.told_bytes = job.told_bytes.saturating_add(bytes);
    turn.tx.put(&id, &job);
    turn.actions.push(Action::JobChanged(id));
    Ok(())
}

/// The executor says how it ended, with its proof.
pub(crate) fn ended(
    turn: &mut Turn<'_, '_>,
    from: NodeId,
    id: JobId,
    ended: Ended,
) -> Result<(), StoreError> {
    let Some(mut job) = of_peer(turn, from, id)? else { return Ok(()) };
    let ended = ended.bounded(&job.asked.outputs);
    if job.result.is_some() {
        if job.late.is_none() && job.result.as_ref() != Some(&ended.result) {
            job.late = Some(ended.result);
            update(turn, id, &mut job);
        }
        return Ok(());
    }
    // What it refused it does not attest; that it did is this node's to say.
    let refused = ended.evidence.is_empty() && !ended.result.may_have_run;
    if !refused {
        keep_proof(turn, from, (id, &mut job), &ended)?;
        if !ended.evidence.is_empty() {
            // What could not be signed was interrupted by a crash, and that was.
            signing::settled(turn.tx, id);
        } else if signing::is_due(turn.tx, id)? {
            job.attested = signing::count_failure(turn, id, &job.attested);
        }
    }
    let Ended { result, outputs, .. } = ended;
    outputs::put(turn.tx, id, outputs);
    end(turn, id, job, result)
}

/// Judges a proof and keeps it, with what it says.
pub(super) fn keep_proof(
    turn: &mut Turn<'_, '_>,
    signer: NodeId,
    (id, job): (JobId, &mut Job),
    ended: &Ended,
) -> Result<(), StoreError> {
    let judged = evidence::judge(signer, id, ended);
    let mut bytes = ended.bytes();
    if !judged.events.is_empty() {
        bytes = bytes.saturating_add(events::settle(turn.tx, (turn.site.me, id), &judged.events)?);
    }
    if !ended.evidence.is_empty() {
        turn.tx.put(&id, &Evidence(ended.evidence.clone()));
    }
    usage::recharged(turn, &job.requester, (job.charged, bytes))?;
    job.charged = bytes;
    job.attested = judged.attested;
    job.effective_limits = judged.effective_limits;
    Ok(())
}

fn end(turn: &mut Turn<'_, '_>, id: JobId, mut job: Job, result: JobResult) -> Result<(), StoreError> {
    if job.status == JobStatus::Queued {
        usage::begun(turn, &job.requester)?;
    }
    job.status = result.status;
    job.waiting_on = None;
    turn.tx.delete::<OpenJob>(&(job.node, id));
    turn.tx.delete::<JobBody>(&(turn.site.me, id));
    deadline::retain_job(turn, Deadline::ForgetJob(id));
    job.result = Some(result);
    if job.attested == Attested::Pending {
        signing::begin(turn, id, &job)?;
    }
    update(turn, id, &mut job);
    Ok(())
}

/// A job has been kept long enough. It is gone for everybody in this commit; what it left is removed in steps.
pub(crate) fn forget(turn: &mut Turn<'_, '_>, id: JobId) -> Result<(), StoreError> {
    let Some(job) = get::<Job>(turn.tx, &id)?.filter(|job| job.status.is_terminal()) else { return Ok(()) };
    turn.tx.delete::<Job>(&id);
    turn.tx.delete::<Evidence>(&id);
    signing::settled(turn.tx, id);
    if let Some(receipt) = &job.receipt {
        turn.tx.delete::<Given>(receipt);
    }
    usage::forgotten(turn, &job.requester, job.charged)?;
    outputs::forget(turn.tx, id)?;
    sweep(turn, id)
}

/// Removes what a forgotten job left, a bounded number of rows at once. The reminder for the rest is durable.
pub(crate) fn sweep(turn: &mut Turn<'_, '_>, id: JobId) -> Result<(), StoreError> {
    if events::forget(turn.tx, (turn.site.me, id), SWEEP_BATCH)? {
        deadline::set(turn, turn.now.node, Deadline::SweepJob(id));
    }
    Ok(())
}

/// Stops a job on request: at once where nothing can have begun, otherwise by telling the executor.
pub(crate) fn cancel(turn: &mut Turn<'_, '_>, id: JobId) -> Result<Reply, StoreError> {
    let Some(job) = get::<Job>(turn.tx, &id)? else {
        let error = ApiError::new(ErrorKind::NotFound, "job_not_found", format!("there is no job {id}"));
        return Ok(Reply::Refused(error.hint("`mesh-cli jobs` lists them")));
    };
    if job.status.is_terminal() {
        let state = job.status.to_string();
        return Ok(Reply::Cancelled(CancelReply { state, already_terminal: true, on_its_way: false }));
    }
    stop(turn, id, job, StopReason::Requested)?;
    let job = get::<Job>(turn.tx, &id)?;
    let (state, ended) =
        job.map_or_else(|| (String::new(), true), |j| (j.status.to_string(), j.status.is_terminal()));
    Ok(Reply::Cancelled(CancelReply { state, already_terminal: false, on_its_way: !ended }))
}

/// The result is of no use any more. Where the executor has the job, it enforces that itself.
pub(crate) fn deadline_passed(turn: &mut Turn<'_, '_>, id: JobId) -> Result<(), StoreError> {
    match get::<Job>(turn.tx, &id)? {
        Some(job) if !job.status.is_terminal() && job.stopping.is_none() && job.node != turn.site.me => {
            stop(turn, id, job, StopReason::DeadlinePassed)
        }
        Some(_) | None => Ok(()),
    }
}

fn stop(turn: &mut Turn<'_, '_>, id: JobId, mut job: Job, reason: StopReason) -> Result<(), StoreError> {
    let node = job.node;
    if node != turn.site.me {
        let label = turn.site.view.label(node);
        job.waiting_on = match parts::withdraw(turn.tx, node, request_message(id))? {
            WithdrawOutcome::NeverSent => {
                return end(turn, id, job, never_ran(reason));
            }
            WithdrawOutcome::Offered => {
                Some(format!("node {label}: it was sent the job and has not acknowledged it"))
            }
            WithdrawOutcome::Acknowledged | WithdrawOutcome::Unknown => {
                Some(format!("node {label}: it has the job"))
            }
        };
        if job.stopping.is_none() {
            deadline::set(turn, turn.now.node.plus_ms(SILENCE_MAX_MS), Deadline::JobSilence(id));
        }
    }
    job.stopping = Some(job.stopping.unwrap_or(reason));
    update(turn, id, &mut job);
    let message = turn.message_id();
    turn.send(node, message, Class::Control, PeerMessage::StopJob { job: id, reason }).map(drop)
}

/// A node that has the job was silent for too long.
pub(crate) fn silence_passed(turn: &mut Turn<'_, '_>, id: JobId) -> Result<(), StoreError> {
    if let Some(job) = get::<Job>(turn.tx, &id)?.filter(|job| !job.status.is_terminal()) {
        return end(turn, id, job, unproven("peer_silent", true));
    }
    Ok(())
}

/// The outbox was numbered anew: the request of this job, if it is one's, has another place.
pub(crate) fn moved(turn: &mut Turn<'_, '_>, message: MessageId, place: Place) -> Result<(), StoreError> {
    let id = JobId::from_bytes(*message.as_bytes());
    if let Some(job) = get::<Job>(turn.tx, &id)? {
        turn.tx.put(&id, &Job { place: Some(place), ..job });
    }
    Ok(())
}

/// The executor has proved that a withdrawn request never reached it.
pub(crate) fn never_arrived(turn: &mut Turn<'_, '_>, message: MessageId) -> Result<(), StoreError> {
    let id = JobId::from_bytes(*message.as_bytes());
    if let Some(job) = get::<Job>(turn.tx, &id)?.filter(|job| !job.status.is_terminal()) {
        let reason = job.stopping.unwrap_or(StopReason::DeadlinePassed);
        return end(turn, id, job, never_ran(reason));
    }
    Ok(())
}

/// A disk was restored from a backup: what lies in the range is not known any more.
pub(crate) fn lost_in_gap(
    turn: &mut Turn<'_, '_>,
    peer: NodeId,
    epoch: Epoch,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), StoreError> {
    for ((_, id), OpenJob) in scan_prefix(turn.tx, &peer, OPEN_BATCH)? {
        let Some(job) = get::<Job>(turn.tx, &id)? else { continue };
        if job.place.is_some_and(|place| place.epoch == epoch && range.contains(&place.seq)) {
            end(turn, id, job, unproven("outcome_unknown", true))?;
        }
    }
    Ok(())
}

/// Nothing will come from this peer any more. Returns how many jobs that ended.
pub(crate) fn peer_gone(turn: &mut Turn<'_, '_>, peer: NodeId) -> Result<usize, StoreError> {
    let open = scan_prefix::<OpenJob>(turn.tx, &peer, OPEN_BATCH)?;
    for ((_, id), OpenJob) in &open {
        let Some(job) = get::<Job>(turn.tx, id)? else { continue };
        let withdrawn = parts::withdraw(turn.tx, peer, request_message(*id))?;
        end(turn, *id, job, unproven("peer_gone", withdrawn != WithdrawOutcome::NeverSent))?;
    }
    Ok(open.len())
}

fn never_ran(reason: StopReason) -> JobResult {
    match reason {
        StopReason::Requested => {
            JobResult { status: JobStatus::Cancelled, ..unproven("cancelled_before_start", false) }
        }
        StopReason::DeadlinePassed => unproven("peer_unreachable", false),
    }
}

/// The executor could not put the request together: it had no effect there.
pub(crate) fn unassembled(turn: &mut Turn<'_, '_>, from: NodeId, of: MessageId) -> Result<(), StoreError> {
    let id = JobId::from_bytes(*of.as_bytes());
    match of_peer(turn, from, id)?.filter(|job| !job.status.is_terminal()) {
        Some(job) => end(turn, id, job, unproven("request_lost", false)),
        None => Ok(()),
    }
}

/// The job, if it depends on this node: nobody else may say what became of it.
fn of_peer(turn: &Turn<'_, '_>, from: NodeId, id: JobId) -> Result<Option<Job>, StoreError> {
    Ok(get::<Job>(turn.tx, &id)?.filter(|job| job.node == from))
}
