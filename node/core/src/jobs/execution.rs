//! Executions: jobs as the node that runs them knows them.
//!
//! ```text
//! (asked) --> queued --> running --> ended            whose turn it is, as many at once as there are slots
//!                |          |
//!                +--closed--+--> ended                the sandbox attests that end too
//! ```
//! An execution is begun in the commit that says `running`; what was running when the node stopped is closed as
//! `error`, attested as such, and never run again. Its events are rows from `accepted` on, which is written in the
//! commit that takes it in; `finished` is written in the one that ends it.

use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::{Event, EventKind};
use mesh_protocol::evidence::limits;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{JobResult, JobSpec, Language};
use mesh_protocol::message::{JOB_EVENTS_MAX, JobRequest, PeerMessage, StopReason};
use mesh_protocol::policy::Permission;
use serde::{Deserialize, Serialize};

use super::ended::{Ended, unproven};
use super::events::{self, JobKey};
use super::outline::Outline;
use super::schedule::{self, Queued, Stage};
use crate::broker::run::requester;
use crate::deadline::{self, Deadline};
use crate::event::{Action, CloseReason, JobTicket};
use crate::limits::{DEADLINE_MAX_MS, JOB_FILES_REPORT_BYTES, JOB_REPORT_BYTES, SEEN_MS};
use crate::outbox::Class;
use crate::store::{Record, StoreError, Table, get, scan_last};
use crate::time::NodeTime;
use crate::turn::Turn;
use crate::{early_stop, placement, policy};

/// Where an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecutionState {
    /// Waiting for its turn.
    Queued,
    /// The sandbox has it.
    Running,
    /// It is not run to its end, for this reason; the sandbox is attesting that.
    Closing(CloseReason),
    /// Over.
    Ended,
}

/// One job, where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The tenant: `<peer>/<name>`, or a name of this node.
    pub tenant: String,
    /// What was asked for.
    pub asked: Outline,
    /// Where it is.
    pub state: ExecutionState,
    /// Which attempt.
    pub attempt: u32,
    /// When it was taken in, or a moment later: its place in the queue, behind all that were taken in before.
    pub queued_at: NodeTime,
    /// When it was taken in, wall clock.
    pub created_wall_ms: u64,
    /// Bytes of the origin's outbox that are kept for its end.
    pub reserved: u64,
}

impl Record for Execution {
    const TABLE: Table = Table::Executions;
    /// The origin and its job: one peer's ids can never be mistaken for another's.
    type Key = JobKey;
}

/// What an execution that waits is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobBody(pub(super) JobSpec);

impl Record for JobBody {
    const TABLE: Table = Table::JobBodies;
    type Key = JobKey;
}

/// Takes a job in: queued, or refused with the reason as its end.
pub(crate) fn accept(turn: &mut Turn<'_, '_>, origin: NodeId, request: JobRequest) -> Result<(), StoreError> {
    let key = (origin, request.job);
    if get::<Execution>(turn.tx, &key)?.is_some() {
        return Ok(());
    }
    let tenant = requester(turn, origin, &request.from.name);
    let reserved = if request.spec.outputs.is_empty() { JOB_REPORT_BYTES } else { JOB_FILES_REPORT_BYTES };
    let refusal = match refuse(turn, origin, &tenant, &request)? {
        None if !turn.reserve(origin, reserved)? => {
            Some(refused("storage_capacity", "the node has no room for the result".to_owned()))
        }
        refusal => refusal,
    };
    if let Some(result) = refusal {
        return turn.report(origin, None, ended(request.job, result));
    }
    let last = scan_last::<Queued>(turn.tx, 1)?.first().map(|((at, ..), _)| *at);
    let execution = Execution {
        asked: Outline::of(&request.spec),
        tenant,
        state: ExecutionState::Queued,
        attempt: 0,
        queued_at: turn.now.node.after(last),
        created_wall_ms: turn.now.wall_ms,
        reserved,
    };
    let end = turn.now.node.plus_ms(request.remaining_ms.min(DEADLINE_MAX_MS));
    deadline::set(turn, end, Deadline::Execution(origin, request.job));
    let row = Queued {
        tenant: execution.tenant.clone(),
        stage: Stage::Waiting,
        mem_mb: request.spec.limits.clamped().mem_mb.min(turn.site.jobs.job_mem_mb_max),
        bytes: u64::try_from(request.spec.bytes()).unwrap_or(u64::MAX),
    };
    turn.tx.put(&(execution.queued_at, origin, request.job), &row);
    events::put(turn.tx, key, &accepted(request.job, &execution));
    turn.tx.put(&key, &execution);
    turn.tx.put(&key, &JobBody(request.spec));
    start_next(turn)
}

#[derive(Serialize)]
struct AcceptedEvent<'a> {
    language: Language,
    requester: &'a str,
    code_sha256: Digest,
}

/// The first event of a job.
fn accepted(job: JobId, execution: &Execution) -> Vec<Event> {
    let data = AcceptedEvent {
        language: execution.asked.language,
        requester: &execution.tenant,
        code_sha256: execution.asked.code_sha256,
    };
    let mut chain = Chain::new(job.to_string());
    // Three short texts are always a document.
    if let Ok(data) = Value::of(&data, &limits::EVENT) {
        let _ = chain.append(execution.created_wall_ms, EventKind::Accepted, data);
    }
    chain.into_events()
}

/// Why this job is not taken in; `None` when it is. Nothing the peer says lowers what is checked here.
fn refuse(
    turn: &Turn<'_, '_>,
    origin: NodeId,
    tenant: &str,
    request: &JobRequest,
) -> Result<Option<JobResult>, StoreError> {
    if !policy::permits(turn.tx, turn.site, turn.now, origin, Permission::Job)? {
        let refusal = policy::refusal(turn.site, Permission::Job);
        let remedy = policy::remedy(turn.site, origin, Permission::Job);
        return Ok(Some(refused("refused", format!("{refusal}; {remedy}"))));
    }
    if let Err(error) = request.spec.check() {
        return Ok(Some(refused(error.code(), error.to_string())));
    }
    let here = turn.site.view.label(turn.site.me);
    if !turn.awaits_executor
        && let Err(unfit) = placement::fits(&turn.site.executor, &request.spec)
    {
        return Ok(Some(refused(unfit.code(), format!("node {here} {unfit}"))));
    }
    let bytes = u64::try_from(request.spec.bytes()).unwrap_or(u64::MAX);
    let full = schedule::full(turn.tx, &turn.site.jobs, (tenant, bytes))?;
    Ok(full.map(|code| refused(code, format!("node {here} takes in no more jobs now"))))
}

fn refused(code: &str, reason: String) -> JobResult {
    JobResult { stderr: reason, ..unproven(code, false) }
}

fn ended(job: JobId, result: JobResult) -> PeerMessage {
    PeerMessage::JobEnded { job, result, evidence: Vec::new(), outputs: Vec::new() }
}

/// What the sandbox offers is known: what waits and cannot run on it is closed, the rest begins.
pub(crate) fn observed(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    for ((_, origin, job), row) in schedule::queue(turn.tx)? {
        let key = (origin, job);
        let waits = row.stage == Stage::Waiting;
        let Some(JobBody(spec)) = get::<JobBody>(turn.tx, &key)?.filter(|_| waits) else { continue };
        if placement::fits(&turn.site.executor, &spec).is_err()
            && let Some(execution) = get::<Execution>(turn.tx, &key)?
        {
            close(turn, key, execution, CloseReason::Unavailable)?;
        }
    }
    start_next(turn)
}

/// Has the sandbox attest that an execution is not run to its end.
fn close(
    turn: &mut Turn<'_, '_>,
    key: JobKey,
    mut execution: Execution,
    why: CloseReason,
) -> Result<(), StoreError> {
    execution.state = ExecutionState::Closing(why);
    let place = (execution.queued_at, key.0, key.1);
    if let Some(row) = get::<Queued>(turn.tx, &place)? {
        turn.tx.put(&place, &Queued { stage: Stage::Closing, bytes: 0, ..row });
    }
    turn.tx.delete::<JobBody>(&key);
    turn.tx.put(&key, &execution);
    let ticket = ticket(turn, key, execution)?;
    turn.actions.push(Action::CloseJob(ticket, why));
    Ok(())
}

/// Begins the next executions, as many as there are free slots.
pub(crate) fn start_next(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    if turn.stopping || turn.awaits_executor {
        return Ok(());
    }
    let slots = usize::try_from(turn.site.executor.slots).unwrap_or(usize::MAX);
    for ((_, origin, job), row) in schedule::next(turn.tx, &turn.site.jobs, slots)? {
        let key = (origin, job);
        let (execution, body) = (get::<Execution>(turn.tx, &key)?, get::<JobBody>(turn.tx, &key)?);
        let (Some(mut execution), Some(JobBody(mut spec))) = (execution, body) else { continue };
        execution.state = ExecutionState::Running;
        execution.attempt = execution.attempt.saturating_add(1);
        // What the operator grants now may be less than when it was accepted, and is never more.
        spec.limits.mem_mb = row.mem_mb.min(turn.site.jobs.job_mem_mb_max);
        turn.tx.put(&key, &execution);
        // It is never run a second time.
        turn.tx.delete::<JobBody>(&key);
        let ticket = ticket(turn, key, execution)?;
        turn.actions.push(Action::StartJob(ticket, Box::new(spec)));
    }
    Ok(())
}

fn ticket(turn: &Turn<'_, '_>, (origin, job): JobKey, execution: Execution) -> Result<JobTicket, StoreError> {
    let Execution { tenant, asked, attempt, created_wall_ms, .. } = execution;
    let events = events::all(turn.tx, (origin, job))?;
    Ok(JobTicket { origin, job, attempt, tenant, asked, created_wall_ms, events })
}

fn of_attempt(
    turn: &Turn<'_, '_>,
    key: JobKey,
    attempt: u32,
    open: impl Fn(ExecutionState) -> bool,
) -> Result<Option<Execution>, StoreError> {
    let current = get::<Execution>(turn.tx, &key)?;
    Ok(current.filter(|execution| execution.attempt == attempt && open(execution.state)))
}

/// The sandbox is up. Another attempt's report is ignored.
pub(crate) fn started(turn: &mut Turn<'_, '_>, key: JobKey, attempt: u32) -> Result<(), StoreError> {
    if of_attempt(turn, key, attempt, |state| state == ExecutionState::Running)?.is_some() {
        let message = turn.message_id();
        turn.send(key.0, message, Class::Status, PeerMessage::JobStarted { job: key.1 })?;
    }
    Ok(())
}

/// What a job did: kept, and told to its origin. What is lost on the way comes again with the evidence.
pub(crate) fn told(
    turn: &mut Turn<'_, '_>,
    key: JobKey,
    attempt: u32,
    told: &[Event],
) -> Result<(), StoreError> {
    if of_attempt(turn, key, attempt, |state| state == ExecutionState::Running)?.is_none() {
        return Ok(());
    }
    events::put(turn.tx, key, told);
    let (origin, job) = key;
    if origin == turn.site.me {
        turn.actions.push(Action::JobChanged(job));
        return Ok(());
    }
    // Its origin has nothing of it yet: `accepted` goes with what follows it.
    let first = told.first().is_some_and(|event| event.seq == 2);
    let accepted = if first { events::after(turn.tx, key, 0, 1)? } else { Vec::new() };
    let texts: Vec<String> =
        accepted.iter().chain(told).filter_map(|event| serde_json::to_string(event).ok()).collect();
    for events in texts.chunks(JOB_EVENTS_MAX) {
        let message = turn.message_id();
        let events = PeerMessage::JobEvents { job, events: events.to_vec() };
        turn.send(origin, message, Class::Status, events)?;
    }
    Ok(())
}

/// The sandbox is done, or has attested the end of one it closed.
pub(crate) fn reported(
    turn: &mut Turn<'_, '_>,
    key: JobKey,
    attempt: u32,
    ended: Ended,
    last: &[Event],
) -> Result<(), StoreError> {
    let open = |state| matches!(state, ExecutionState::Running | ExecutionState::Closing(_));
    let Some(mut execution) = of_attempt(turn, key, attempt, open)? else { return Ok(()) };
    let (origin, job) = key;
    turn.tx.delete::<Queued>(&(execution.queued_at, origin, job));
    execution.state = ExecutionState::Ended;
    turn.tx.put(&key, &execution);
    if origin == turn.site.me {
        events::put(turn.tx, key, last);
    } else {
        // The evidence has them all.
        while events::forget(turn.tx, key, limits::MAX_EVENTS)? {}
    }
    deadline::retain_job(turn, Deadline::ForgetExecution(origin, job));
    let Ended { result, evidence, outputs } = ended;
    let message = PeerMessage::JobEnded { job, result, evidence, outputs };
    turn.report(origin, Some(execution.reserved), message)?;
    start_next(turn)
}

/// Stops an execution. One that has not arrived yet is remembered as ended, so that it is not begun when it does; where
/// that cannot be, its origin is told that it may.
pub(crate) fn stop(
    turn: &mut Turn<'_, '_>,
    origin: NodeId,
    job: JobId,
    reason: StopReason,
) -> Result<(), StoreError> {
    let key = (origin, job);
    let Some(execution) = get::<Execution>(turn.tx, &key)? else {
        // The job of a peer that may not send any would be refused, and came before this if it came at all.
        let never_begins = !policy::permits(turn.tx, turn.site, turn.now, origin, Permission::Job)?
            || remember_stop(turn, key)?;
        let word = if never_begins { "cancelled_before_start" } else { "too_many_stops" };
        return turn.report(origin, None, ended(job, unproven(word, !never_begins)));
    };
    match execution.state {
        ExecutionState::Queued => {
            let why = match reason {
                StopReason::Requested => CloseReason::CancelledBeforeStart,
                StopReason::DeadlinePassed => CloseReason::DeadlinePassed,
            };
            close(turn, key, execution, why)?;
        }
        ExecutionState::Running => turn.actions.push(Action::StopJob { origin, job }),
        ExecutionState::Closing(_) | ExecutionState::Ended => {}
    }
    Ok(())
}

/// Remembers that a job that has not come is not to begin, and returns whether it could.
fn remember_stop(turn: &mut Turn<'_, '_>, key: JobKey) -> Result<bool, StoreError> {
    let (origin, job) = key;
    let remembered = early_stop::take_room(turn.tx, origin)?;
    if remembered {
        let stopped = Execution {
            tenant: String::new(),
            asked: Outline::of(&JobSpec::new(Language::Bash, String::new())),
            state: ExecutionState::Ended,
            attempt: 0,
            queued_at: turn.now.node,
            created_wall_ms: turn.now.wall_ms,
            reserved: 0,
        };
        turn.tx.put(&key, &stopped);
        deadline::set(turn, turn.now.node.plus_ms(SEEN_MS), Deadline::ForgetExecution(origin, job));
    }
    Ok(remembered)
}

/// An execution has been kept long enough.
pub(crate) fn forget(turn: &mut Turn<'_, '_>, key: JobKey) -> Result<(), StoreError> {
    let Some(execution) = get::<Execution>(turn.tx, &key)? else { return Ok(()) };
    turn.tx.delete::<Execution>(&key);
    // Nobody's job runs in nobody's name: such a one was only stopped.
    if execution.tenant.is_empty() { early_stop::give_room(turn.tx, key.0) } else { Ok(()) }
}

/// It waited too long. One that runs is bound by its own limits.
pub(crate) fn deadline_passed(turn: &mut Turn<'_, '_>, origin: NodeId, job: JobId) -> Result<(), StoreError> {
    match get::<Execution>(turn.tx, &(origin, job))? {
        Some(execution) if execution.state == ExecutionState::Queued => {
            stop(turn, origin, job, StopReason::DeadlinePassed)
        }
        Some(_) | None => Ok(()),
    }
}

/// Ends what nodes asked that this one has nothing more to do with.
pub(crate) fn origins_gone(turn: &mut Turn<'_, '_>, gone: impl Fn(NodeId) -> bool) -> Result<(), StoreError> {
    let rows = schedule::queue(turn.tx)?;
    let mut theirs = rows.into_iter().filter(|((_, origin, _), _)| gone(*origin));
    theirs.try_for_each(|((_, origin, job), _)| stop(turn, origin, job, StopReason::Requested))
}

/// After a restart: what was running is closed, never run again; what was waiting goes on when the sandbox is known.
pub(crate) fn recover(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    for ((_, origin, job), row) in schedule::queue(turn.tx)? {
        let Some(execution) = get::<Execution>(turn.tx, &(origin, job))? else { continue };
        let why = match execution.state {
            // It was being closed already: for the reason it was.
            ExecutionState::Closing(why) => why,
            _ if row.stage == Stage::Running => CloseReason::NodeRestarted,
            _ => continue,
        };
        close(turn, (origin, job), execution, why)?;
    }
    start_next(turn)
}
