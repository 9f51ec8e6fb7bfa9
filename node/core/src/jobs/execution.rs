//! Executions: jobs as the node that runs them knows them.
//!
//! ```text
//! (asked) --> queued --> running --> ended            in order of arrival, as many at once as there are slots
//!                |          |
//!                +--closed--+--> ended                the sandbox attests that end too
//! ```
//! An execution is begun in the commit that says `running`; what was running when the node stopped is closed as
//! `error`, attested as such, and never run again.

use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{JobResult, JobSpec};
use mesh_protocol::message::{JobRequest, PeerMessage, StopReason};
use mesh_protocol::policy::Permission;
use serde::{Deserialize, Serialize};

use super::job::unproven;
use crate::broker::run::requester;
use crate::deadline::{self, Deadline};
use crate::event::{Action, CloseReason, JobTicket};
use crate::limits::{DEADLINE_MAX_MS, JOB_QUEUE_MAX, JOB_REPORT_BYTES};
use crate::outbox::Class;
use crate::store::{Record, StoreError, Table, get, scan_last, scan_prefix};
use crate::time::NodeTime;
use crate::turn::Turn;
use crate::{placement, policy};

/// Where an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecutionState {
    /// Waiting for a slot.
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
    /// What to run; without its texts once ended.
    pub spec: JobSpec,
    /// Where it is.
    pub state: ExecutionState,
    /// Which attempt.
    pub attempt: u32,
    /// When it was taken in, or a moment later: its place in the queue, behind all that were taken in before.
    pub queued_at: NodeTime,
    /// When it was taken in, wall clock.
    pub created_wall_ms: u64,
}

impl Record for Execution {
    const TABLE: Table = Table::Executions;
    /// The origin and its job: one peer's ids can never be mistaken for another's.
    type Key = (NodeId, JobId);
}

/// An execution that has not ended, in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Queued {
    running: bool,
}

impl Record for Queued {
    const TABLE: Table = Table::JobQueue;
    type Key = (NodeTime, NodeId, JobId);
}

/// Takes a job in: queued, or refused with the reason as its end.
pub(crate) fn accept(turn: &mut Turn<'_, '_>, origin: NodeId, request: JobRequest) -> Result<(), StoreError> {
    let key = (origin, request.job);
    if get::<Execution>(turn.tx, &key)?.is_some() {
        return Ok(());
    }
    let refusal = match refuse(turn, origin, &request)? {
        None if !turn.reserve(origin, JOB_REPORT_BYTES)? => {
            Some("the node has no room for the result".to_owned())
        }
        refusal => refusal,
    };
    if let Some(reason) = refusal {
        let ended = PeerMessage::JobEnded { job: request.job, result: refused(reason), evidence: Vec::new() };
        return turn.report(origin, None, ended);
    }
    let last = scan_last::<Queued>(turn.tx, 1)?.first().map(|((at, ..), _)| *at);
    let execution = Execution {
        tenant: requester(turn, origin, &request.from.name),
        spec: request.spec,
        state: ExecutionState::Queued,
        attempt: 0,
        queued_at: turn.now.node.after(last),
        created_wall_ms: turn.now.wall_ms,
    };
    let end = turn.now.node.plus_ms(request.remaining_ms.min(DEADLINE_MAX_MS));
    deadline::set(turn, end, Deadline::Execution(origin, request.job));
    turn.tx.put(&(execution.queued_at, origin, request.job), &Queued { running: false });
    turn.tx.put(&key, &execution);
    start_next(turn)
}

/// Why this job is not taken in; `None` when it is. Nothing the peer says lowers what is checked here.
fn refuse(turn: &Turn<'_, '_>, origin: NodeId, request: &JobRequest) -> Result<Option<String>, StoreError> {
    if !policy::permits(turn.tx, turn.site, turn.now, origin, Permission::Job)? {
        let refusal = policy::refusal(turn.site, Permission::Job);
        return Ok(Some(format!("{refusal}; {}", policy::remedy(turn.site, origin, Permission::Job))));
    }
    if let Err(error) = request.spec.check() {
        return Ok(Some(error.to_string()));
    }
    if !turn.awaits_executor
        && let Err(unfit) = placement::fits(&turn.site.executor, &request.spec)
    {
        return Ok(Some(format!("node {} {unfit}", turn.site.view.label(turn.site.me))));
    }
    let full = scan_prefix::<Queued>(turn.tx, &(), JOB_QUEUE_MAX)?.len() >= JOB_QUEUE_MAX;
    Ok(full.then(|| format!("node {} already has {JOB_QUEUE_MAX} jobs", turn.site.view.label(turn.site.me))))
}

fn refused(reason: String) -> JobResult {
    JobResult { stderr: reason, ..unproven("refused", false) }
}

/// What the sandbox offers is known: what waits and cannot run on it is closed, the rest begins.
pub(crate) fn observed(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    for ((_, origin, job), row) in scan_prefix::<Queued>(turn.tx, &(), JOB_QUEUE_MAX)? {
        let waits = |execution: &Execution| !row.running && execution.state == ExecutionState::Queued;
        let Some(execution) = get::<Execution>(turn.tx, &(origin, job))?.filter(waits) else { continue };
        if placement::fits(&turn.site.executor, &execution.spec).is_err() {
            close(turn, (origin, job), execution, CloseReason::Unavailable);
        }
    }
    start_next(turn)
}

/// Has the sandbox attest that an execution is not run to its end.
fn close(
    turn: &mut Turn<'_, '_>,
    (origin, job): (NodeId, JobId),
    mut execution: Execution,
    why: CloseReason,
) {
    execution.state = ExecutionState::Closing(why);
    turn.tx.put(&(origin, job), &execution);
    turn.actions.push(Action::CloseJob(ticket(origin, job, execution), why));
}

/// Begins the next executions, as many as there are free slots.
pub(crate) fn start_next(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    if turn.stopping || turn.awaits_executor {
        return Ok(());
    }
    let slots = usize::try_from(turn.site.executor.slots).unwrap_or(usize::MAX);
    let rows = scan_prefix::<Queued>(turn.tx, &(), JOB_QUEUE_MAX)?;
    let running = rows.iter().filter(|(_, row)| row.running).count();
    let mut free = slots.saturating_sub(running);
    for (place, _) in rows.into_iter().filter(|(_, row)| !row.running) {
        if free == 0 {
            break;
        }
        let (_, origin, job) = place;
        let waits = |execution: &Execution| execution.state == ExecutionState::Queued;
        // One that is being closed keeps its row until the sandbox has attested that.
        let Some(mut execution) = get::<Execution>(turn.tx, &(origin, job))?.filter(waits) else { continue };
        free = free.saturating_sub(1);
        execution.state = ExecutionState::Running;
        execution.attempt = execution.attempt.saturating_add(1);
        turn.tx.put(&place, &Queued { running: true });
        turn.tx.put(&(origin, job), &execution);
        turn.actions.push(Action::StartJob(ticket(origin, job, execution)));
    }
    Ok(())
}

fn ticket(origin: NodeId, job: JobId, execution: Execution) -> JobTicket {
    let Execution { tenant, spec, attempt, created_wall_ms, .. } = execution;
    JobTicket { origin, job, attempt, tenant, spec, created_wall_ms }
}

/// The sandbox is up. Another attempt's report is ignored.
pub(crate) fn started(
    turn: &mut Turn<'_, '_>,
    (origin, job): (NodeId, JobId),
    attempt: u32,
) -> Result<(), StoreError> {
    let execution = get::<Execution>(turn.tx, &(origin, job))?;
    if execution.is_some_and(|e| e.state == ExecutionState::Running && e.attempt == attempt) {
        let message = turn.message_id();
        turn.send(origin, message, Class::Status, PeerMessage::JobStarted { job })?;
    }
    Ok(())
}

/// The sandbox is done, or has attested the end of one it closed.
pub(crate) fn reported(
    turn: &mut Turn<'_, '_>,
    (origin, job): (NodeId, JobId),
    attempt: u32,
    (result, evidence): (JobResult, Vec<u8>),
) -> Result<(), StoreError> {
    let current = get::<Execution>(turn.tx, &(origin, job))?.filter(|execution| {
        let open = matches!(execution.state, ExecutionState::Running | ExecutionState::Closing(_));
        open && execution.attempt == attempt
    });
    let Some(mut execution) = current else { return Ok(()) };
    turn.tx.delete::<Queued>(&(execution.queued_at, origin, job));
    execution.state = ExecutionState::Ended;
    execution.spec.code = String::new();
    execution.spec.stdin = String::new();
    turn.tx.put(&(origin, job), &execution);
    deadline::retain(turn, Deadline::ForgetExecution(origin, job));
    turn.report(origin, Some(JOB_REPORT_BYTES), PeerMessage::JobEnded { job, result, evidence })?;
    start_next(turn)
}

/// Stops an execution. One that has not arrived yet is remembered as ended, so that it is not begun when it does.
pub(crate) fn stop(
    turn: &mut Turn<'_, '_>,
    origin: NodeId,
    job: JobId,
    reason: StopReason,
) -> Result<(), StoreError> {
    let key = (origin, job);
    let Some(execution) = get::<Execution>(turn.tx, &key)? else {
        // The job of a peer that may not send any would be refused, and came before this if it came at all.
        if policy::permits(turn.tx, turn.site, turn.now, origin, Permission::Job)? {
            turn.tx.put(&key, &stopped_early(turn));
            deadline::retain(turn, Deadline::ForgetExecution(origin, job));
        }
        let result = unproven("cancelled_before_start", false);
        return turn.report(origin, None, PeerMessage::JobEnded { job, result, evidence: Vec::new() });
    };
    match execution.state {
        ExecutionState::Queued => {
            let why = match reason {
                StopReason::Requested => CloseReason::CancelledBeforeStart,
                StopReason::DeadlinePassed => CloseReason::DeadlinePassed,
            };
            close(turn, key, execution, why);
        }
        ExecutionState::Running => turn.actions.push(Action::StopJob { origin, job }),
        ExecutionState::Closing(_) | ExecutionState::Ended => {}
    }
    Ok(())
}

fn stopped_early(turn: &Turn<'_, '_>) -> Execution {
    use mesh_protocol::job::{JobLimits, Language};
    let spec = JobSpec {
        language: Language::Bash,
        code: String::new(),
        stdin: String::new(),
        limits: JobLimits::default(),
        minimum_isolation: mesh_protocol::isolation::IsolationClass::default(),
    };
    Execution {
        tenant: String::new(),
        spec,
        state: ExecutionState::Ended,
        attempt: 0,
        queued_at: turn.now.node,
        created_wall_ms: turn.now.wall_ms,
    }
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
    let rows = scan_prefix::<Queued>(turn.tx, &(), JOB_QUEUE_MAX)?;
    let mut theirs = rows.into_iter().filter(|((_, origin, _), _)| gone(*origin));
    theirs.try_for_each(|((_, origin, job), _)| stop(turn, origin, job, StopReason::Requested))
}

/// After a restart: what was running is closed, never run again; what was waiting goes on when the sandbox is known.
pub(crate) fn recover(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    for ((_, origin, job), row) in scan_prefix::<Queued>(turn.tx, &(), JOB_QUEUE_MAX)? {
        let Some(execution) = get::<Execution>(turn.tx, &(origin, job))? else { continue };
        let why = match execution.state {
            // It was being closed already: for the reason it was.
            ExecutionState::Closing(why) => why,
            _ if row.running => CloseReason::NodeRestarted,
            _ => continue,
        };
        close(turn, (origin, job), execution, why);
    }
    start_next(turn)
}
