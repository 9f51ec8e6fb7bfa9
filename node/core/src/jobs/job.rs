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
use mesh_protocol::api::job::{JobReceipt, RunRequest};
use mesh_protocol::delivery::Epoch;
use mesh_protocol::id::{JobId, MessageId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobError, JobLimits, JobResult, JobStatus, Language, OUTPUT_BYTES_MAX};
use mesh_protocol::message::{JobRequest, PeerMessage, Requester, StopReason};
use serde::{Deserialize, Serialize};

use crate::broker::receipt::{self, Lookup};
use crate::broker::send::{held, refusal, remaining};
use crate::deadline::{self, Deadline};
use crate::event::{Action, Caller, Reply};
use crate::evidence::{self, Attested, Evidence};
use crate::limits::{JOB_DEADLINE_DEFAULT_MS, OPEN_BATCH, SILENCE_MAX_MS};
use crate::outbox::{self, Class, WithdrawOutcome};
use crate::placement;
use crate::store::{Record, StoreError, Table, get, scan_prefix};
use crate::turn::{Place, Sent, Turn};

/// One job, at its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The language.
    pub language: Language,
    /// The isolation asked for.
    pub minimum_isolation: IsolationClass,
    /// The limits asked for.
    pub limits: JobLimits,
    /// Where it runs.
    pub node: NodeId,
    /// Who asked.
    pub requester: String,
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

const fn request_message(job: JobId) -> MessageId {
    MessageId::from_bytes(*job.as_bytes())
}

/// Accepts a job: placed, or refused before anything is stored.
pub(crate) fn run(
    turn: &mut Turn<'_, '_>,
    caller: &Caller,
    request: &RunRequest,
) -> Result<Reply, StoreError> {
    let scope = ("run", caller.name());
    let slot = match receipt::look_up(turn, scope, request.idempotency_key.as_deref(), request)? {
        Lookup::New(slot) => slot,
        Lookup::Replay(given) => return replay(turn, given),
        Lookup::Refused(error) => return Ok(Reply::Refused(error)),
    };
    let placed = request.spec.check().map_err(|error| invalid(&error));
    let node = match placed.and_then(|()| placement::place(turn.site, &request.spec, request.on.as_deref())) {
        Ok(node) => node,
        Err(error) => return Ok(Reply::Refused(error)),
    };
    let random = turn.random();
    let id = JobId::mint(turn.now.wall_ms, random);
    let remaining_ms = remaining(request.deadline_seconds, JOB_DEADLINE_DEFAULT_MS);
    let from = Requester { name: caller.name().to_owned() };
    let message = PeerMessage::Job(JobRequest { job: id, from, spec: request.spec.clone(), remaining_ms });
    let (place, held) = if node == turn.site.me {
        (None, None)
    } else {
        match turn.send(node, request_message(id), Class::Request, message.clone())? {
            Sent::Queued(place, queued) => (place, held(&turn.site.view, node, &queued)),
            Sent::Refused(refused) => return Ok(Reply::Refused(refusal(turn, node, &refused))),
            Sent::Here => (None, None),
        }
    };
    let job = Job {
        language: request.spec.language,
        minimum_isolation: request.spec.minimum_isolation,
        limits: request.spec.limits,
        node,
        requester: caller.name().to_owned(),
        status: JobStatus::Queued,
        waiting_on: held.as_ref().map(|held| format!("node {}: {}", turn.site.view.label(node), held.state)),
        place,
        stopping: None,
        result: None,
        late: None,
        attested: Attested::Pending,
        created_wall_ms: turn.now.wall_ms,
        updated_wall_ms: turn.now.wall_ms,
    };
    turn.tx.put(&id, &job);
    turn.tx.put(&(node, id), &OpenJob);
    deadline::set(turn, turn.now.node.plus_ms(remaining_ms), Deadline::Job(id));
    let node_name = turn.site.view.label(node).to_string();
    let accepted =
        JobReceipt { job_id: id, status: JobStatus::Queued, node, node_name, held, replayed: false };
    receipt::keep(turn, slot, &accepted);
    if node == turn.site.me {
        turn.send(node, request_message(id), Class::Request, message)?;
    }
    Ok(Reply::Job(accepted))
}

/// The first receipt, with the status as it is now: a replay does not pretend that nothing has happened since.
fn replay(turn: &Turn<'_, '_>, given: JobReceipt) -> Result<Reply, StoreError> {
    let status = get::<Job>(turn.tx, &given.job_id)?.map_or(given.status, |job| job.status);
    Ok(Reply::Job(JobReceipt { status, replayed: true, ..given }))
}

fn invalid(error: &JobError) -> ApiError {
    let code = match error {
        JobError::UnsupportedLanguage { .. } => "unsupported_language",
        JobError::EmptyCode => "empty_code",
        JobError::CodeTooLarge { .. } => "code_too_large",
        JobError::StdinTooLarge { .. } => "stdin_too_large",
    };
    ApiError::new(ErrorKind::Invalid, code, error.to_string())
}

fn update(turn: &mut Turn<'_, '_>, id: JobId, job: &mut Job) {
    job.updated_wall_ms = turn.now.wall_ms;
    turn.tx.put(&id, job);
    turn.actions.push(Action::JobChanged(id));
}

/// The executor has begun.
pub(crate) fn started(turn: &mut Turn<'_, '_>, from: NodeId, id: JobId) -> Result<(), StoreError> {
    let job = of_peer(turn, from, id)?.filter(|job| job.status == JobStatus::Queued);
    let Some(mut job) = job else { return Ok(()) };
    job.status = JobStatus::Running;
    job.waiting_on = None;
    update(turn, id, &mut job);
    Ok(())
}

/// The executor says how it ended, with its proof.
pub(crate) fn ended(
    turn: &mut Turn<'_, '_>,
    from: NodeId,
    id: JobId,
    (result, proof): (JobResult, Vec<u8>),
) -> Result<(), StoreError> {
    let Some(mut job) = of_peer(turn, from, id)? else { return Ok(()) };
    let result = bounded(result);
    if job.result.is_some() {
        if job.late.is_none() && job.result.as_ref() != Some(&result) {
            job.late = Some(result);
            update(turn, id, &mut job);
        }
        return Ok(());
    }
    job.attested = evidence::judge(from, id, &result, &proof);
    if !proof.is_empty() {
        turn.tx.put(&id, &Evidence(proof));
    }
    end(turn, id, job, result);
    Ok(())
}

fn end(turn: &mut Turn<'_, '_>, id: JobId, mut job: Job, result: JobResult) {
    if job.attested == Attested::Pending {
        job.attested = Attested::Missing("no executor ran it".to_owned());
    }
    job.status = result.status;
    job.waiting_on = None;
    job.result = Some(result);
    turn.tx.delete::<OpenJob>(&(job.node, id));
    deadline::retain(turn, Deadline::ForgetJob(id));
    update(turn, id, &mut job);
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
        job.waiting_on = match outbox::withdraw(turn.tx, node, request_message(id))? {
            WithdrawOutcome::NeverSent => {
                end(turn, id, job, never_ran(reason));
                return Ok(());
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
        end(turn, id, job, unproven("peer_silent", true));
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
        end(turn, id, job, never_ran(reason));
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
            end(turn, id, job, unproven("outcome_unknown", true));
        }
    }
    Ok(())
}

/// Nothing will come from this peer any more. Returns how many jobs that ended.
pub(crate) fn peer_gone(turn: &mut Turn<'_, '_>, peer: NodeId) -> Result<usize, StoreError> {
    let open = scan_prefix::<OpenJob>(turn.tx, &peer, OPEN_BATCH)?;
    for ((_, id), OpenJob) in &open {
        let Some(job) = get::<Job>(turn.tx, id)? else { continue };
        let withdrawn = outbox::withdraw(turn.tx, peer, request_message(*id))?;
        end(turn, *id, job, unproven("peer_gone", withdrawn != WithdrawOutcome::NeverSent));
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

/// An end that no executor vouches for.
pub(crate) fn unproven(killed_by: &str, may_have_run: bool) -> JobResult {
    JobResult {
        status: JobStatus::Error,
        exit_code: None,
        killed_by: Some(killed_by.to_owned()),
        stdout: String::new(),
        stderr: String::new(),
        truncated: false,
        duration_ms: 0,
        isolation: None,
        may_have_run,
    }
}

/// The job, if it depends on this node: nobody else may say what became of it.
fn of_peer(turn: &Turn<'_, '_>, from: NodeId, id: JobId) -> Result<Option<Job>, StoreError> {
    Ok(get::<Job>(turn.tx, &id)?.filter(|job| job.node == from))
}

/// A peer's result within our bounds, and terminal whatever it says.
fn bounded(mut result: JobResult) -> JobResult {
    for stream in [&mut result.stdout, &mut result.stderr] {
        if stream.len() > OUTPUT_BYTES_MAX {
            stream.truncate(stream.floor_char_boundary(OUTPUT_BYTES_MAX));
            result.truncated = true;
        }
    }
    if !result.status.is_terminal() {
        result.status = JobStatus::Error;
    }
    result.killed_by = result.killed_by.map(|word| word.chars().take(80).collect());
    result
}
