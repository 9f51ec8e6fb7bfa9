//! Runs: asks as the agent's home knows them.
//!
//! ```text
//! (asked) --> queued --> running --> ended          one attempt, in order of arrival, as many at once as
//! (stopped before it was asked) --> ended         its agent has slots
//! ```
//! A run is begun in the commit that says `running`, so a crash can end it but never repeat it: what was running when
//! the node stopped ends as `node_restarted` and may have run. Its outcome is queued for the origin in the commit that
//! ends it.

use mesh_protocol::address::Name;
use mesh_protocol::flight::{FailureCode, FlightOutcome};
use mesh_protocol::id::{ConversationId, FlightId, NodeId};
use mesh_protocol::message::{AskRequest, HOPS_MAX, Hop, PeerMessage, StopReason};
use mesh_protocol::policy::Permission;
use serde::{Deserialize, Serialize};

use super::conversation;
use crate::deadline::{self, Deadline};
use crate::event::Action;
use crate::limits::{DEADLINE_MAX_MS, RUN_QUEUE_MAX, RUN_REPORT_BYTES, SEEN_MS};
use crate::outbox::Class;
use crate::store::{Record, StoreError, Table, get, scan_last, scan_prefix};
use crate::time::NodeTime;
use crate::turn::Turn;
use crate::{early_stop, policy};

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunState {
    /// Waiting for the agent.
    Queued,
    /// The agent has it.
    Running,
    /// Over.
    Ended,
}

/// One ask, at the agent's home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The agent.
    pub agent: Name,
    /// Who asked, as people see it.
    pub requester: String,
    /// Where the task is.
    pub conversation: ConversationId,
    /// The task; empty once ended.
    pub task: String,
    /// The agents the ask came through.
    pub hops: Vec<Hop>,
    /// Where it is.
    pub state: RunState,
    /// Which attempt. There is one, unless a later release retries.
    pub attempt: u32,
    /// When it was taken in, or a moment later: its place in the queue, behind all that were taken in before.
    pub queued_at: NodeTime,
    /// When the answer is of no use any more.
    pub deadline: NodeTime,
    /// Whether it was told to stop, and why.
    pub stopping: Option<StopReason>,
    /// How it ended.
    pub outcome: Option<FlightOutcome>,
    /// When it was taken in, wall clock.
    pub created_wall_ms: u64,
}

impl Record for Run {
    const TABLE: Table = Table::Runs;
    /// The origin and its flight: one peer's ids can never be mistaken for another's.
    type Key = (NodeId, FlightId);
}

/// A run that has not ended, in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Queued {
    agent: Name,
    running: bool,
}

impl Record for Queued {
    const TABLE: Table = Table::RunQueue;
    type Key = (NodeTime, NodeId, FlightId);
}

/// Takes an ask in: queued, or refused with the reason as its outcome.
pub(crate) fn accept(turn: &mut Turn<'_, '_>, origin: NodeId, request: AskRequest) -> Result<(), StoreError> {
    let key = (origin, request.flight);
    if get::<Run>(turn.tx, &key)?.is_some() {
        return Ok(());
    }
    let refusal = match refuse(turn, origin, &request)? {
        None if !turn.reserve(origin, RUN_REPORT_BYTES)? => {
            let detail = "the node has no room for the answer";
            Some(FlightOutcome::not_begun(FailureCode::Busy, detail))
        }
        refusal => refusal,
    };
    if let Some(refusal) = refusal {
        return turn.report(origin, None, PeerMessage::RunEnded { flight: request.flight, outcome: refusal });
    }
    let requester = requester(turn, origin, &request.from.name);
    if origin != turn.site.me {
        let to = format!("@{}", request.to);
        let people = (requester.clone(), to);
        let task = request.task.clone();
        conversation::record_from_peer(turn, request.message, request.conversation, people, task)?;
    }
    let last = scan_last::<Queued>(turn.tx, 1)?.first().map(|((at, ..), _)| *at);
    let run = Run {
        agent: request.to.clone(),
        requester,
        conversation: request.conversation,
        task: request.task,
        hops: request.hops,
        state: RunState::Queued,
        attempt: 0,
        queued_at: turn.now.node.after(last),
        deadline: turn.now.node.plus_ms(request.remaining_ms.min(DEADLINE_MAX_MS)),
        stopping: None,
        outcome: None,
        created_wall_ms: turn.now.wall_ms,
    };
    deadline::set(turn, run.deadline, Deadline::Run(origin, request.flight));
    turn.tx
        .put(&(run.queued_at, origin, request.flight), &Queued { agent: run.agent.clone(), running: false });
    turn.tx.put(&key, &run);
    start_next(turn, &request.to)
}

/// Why this ask is not taken in; `None` when it is.
fn refuse(
    turn: &Turn<'_, '_>,
    origin: NodeId,
    request: &AskRequest,
) -> Result<Option<FlightOutcome>, StoreError> {
    let here = turn.site.view.label(turn.site.me);
    let mine = origin == turn.site.me;
    // What is not advertised does not exist for a peer.
    let setting = turn.site.agents.get(&request.to).filter(|setting| mine || setting.advertised);
    let Some(setting) = setting else {
        let detail = format!("node {here} has no agent @{}", request.to);
        return Ok(Some(FlightOutcome::not_begun(FailureCode::UnknownAgent, detail)));
    };
    let agent = (request.to.as_str(), setting.profile);
    if !policy::permits_agent(turn.tx, turn.site, turn.now, origin, Permission::Ask, agent)? {
        return Ok(Some(FlightOutcome::Failed {
            code: FailureCode::Refused,
            detail: format!("{} @{}", policy::refusal(turn.site, Permission::Ask), request.to),
            remediation: Some(policy::remedy(turn.site, origin, Permission::Ask)),
            may_have_run: false,
        }));
    }
    let circle = request.hops.iter().any(|hop| hop.node == turn.site.me && hop.agent == request.to.as_str());
    if circle || request.hops.len() >= HOPS_MAX {
        let detail =
            format!("the ask came through {} agents and would go on to @{}", request.hops.len(), request.to);
        return Ok(Some(FlightOutcome::not_begun(FailureCode::AskLoop, detail)));
    }
    if let Some(reason) = &setting.offline {
        return Ok(Some(FlightOutcome::not_begun(FailureCode::AgentOffline, reason.clone())));
    }
    if scan_prefix::<Queued>(turn.tx, &(), RUN_QUEUE_MAX)?.len() >= RUN_QUEUE_MAX {
        let detail = format!("node {here} already has {RUN_QUEUE_MAX} asks to work on");
        return Ok(Some(FlightOutcome::not_begun(FailureCode::Busy, detail)));
    }
    Ok(None)
}

/// Begins the agent's next runs, as many as it works on at once.
fn start_next(turn: &mut Turn<'_, '_>, agent: &Name) -> Result<(), StoreError> {
    if turn.stopping {
        return Ok(());
    }
    let slots = turn.site.agents.get(agent).map_or(0, |setting| setting.slots);
    let mine: Vec<_> = scan_prefix::<Queued>(turn.tx, &(), RUN_QUEUE_MAX)?
        .into_iter()
        .filter(|(_, row)| row.agent == *agent)
        .collect();
    let running = mine.iter().filter(|(_, row)| row.running).count();
    for (place, row) in mine.into_iter().filter(|(_, row)| !row.running).take(slots.saturating_sub(running)) {
        let (_, origin, flight) = place;
        let Some(mut run) = get::<Run>(turn.tx, &(origin, flight))? else { continue };
        run.state = RunState::Running;
        run.attempt = run.attempt.saturating_add(1);
        turn.tx.put(&place, &Queued { running: true, ..row });
        turn.tx.put(&(origin, flight), &run);
        let this = Hop { node: turn.site.me, agent: agent.to_string() };
        turn.actions.push(Action::StartRun {
            origin,
            flight,
            attempt: run.attempt,
            agent: agent.clone(),
            task: run.task,
            remaining_ms: run.deadline.since(turn.now.node),
            hops: run.hops.into_iter().chain(std::iter::once(this)).collect(),
        });
        let message = turn.message_id();
        turn.send(origin, message, Class::Status, PeerMessage::RunStarted { flight })?;
    }
    Ok(())
}

/// The agent is done with a run. Another attempt's report, or one for a run that is over, is ignored.
pub(crate) fn reported(
    turn: &mut Turn<'_, '_>,
    (origin, flight): (NodeId, FlightId),
    attempt: u32,
    outcome: FlightOutcome,
) -> Result<(), StoreError> {
    let current = get::<Run>(turn.tx, &(origin, flight))?
        .filter(|run| run.state == RunState::Running && run.attempt == attempt);
    let Some(run) = current else { return Ok(()) };
    let outcome = match (outcome, run.stopping) {
        (FlightOutcome::Cancelled { .. }, Some(StopReason::DeadlinePassed)) => FlightOutcome::Failed {
            code: FailureCode::TimedOut,
            detail: format!("@{} was stopped at the deadline of the ask", run.agent),
            remediation: Some("ask again with a later deadline".to_owned()),
            may_have_run: true,
        },
        // Nobody asked for it: the node is stopping.
        (FlightOutcome::Cancelled { .. }, None) => interrupted(&run.agent),
        (outcome, _) => outcome,
    };
    end(turn, (origin, flight), run, outcome)
}

fn end(
    turn: &mut Turn<'_, '_>,
    (origin, flight): (NodeId, FlightId),
    mut run: Run,
    outcome: FlightOutcome,
) -> Result<(), StoreError> {
    turn.tx.delete::<Queued>(&(run.queued_at, origin, flight));
    run.state = RunState::Ended;
    run.task = String::new();
    run.outcome = Some(outcome.clone());
    turn.tx.put(&(origin, flight), &run);
    deadline::retain(turn, Deadline::ForgetRun(origin, flight));
    turn.report(origin, Some(RUN_REPORT_BYTES), PeerMessage::RunEnded { flight, outcome })?;
    start_next(turn, &run.agent)
}

/// Stops a run. One that has not arrived yet is remembered as stopped, so that it is not begun when it does; where that
/// cannot be, its origin is told that it may.
pub(crate) fn stop(
    turn: &mut Turn<'_, '_>,
    origin: NodeId,
    flight: FlightId,
    reason: StopReason,
) -> Result<(), StoreError> {
    let not_begun = |may_have_run| match reason {
        StopReason::Requested => FlightOutcome::Cancelled { may_have_run },
        StopReason::DeadlinePassed => FlightOutcome::Failed {
            code: FailureCode::TimedOut,
            detail: "the deadline of the ask passed before it could begin".to_owned(),
            remediation: None,
            may_have_run,
        },
    };
    let key = (origin, flight);
    let Some(run) = get::<Run>(turn.tx, &key)? else {
        // The ask of a peer that may not ask would be refused, and came before this if it came at all.
        let never_begins = !policy::permits(turn.tx, turn.site, turn.now, origin, Permission::Ask)?
            || remember_stop(turn, key, not_begun(false))?;
        return turn.report(
            origin,
            None,
            PeerMessage::RunEnded { flight, outcome: not_begun(!never_begins) },
        );
    };
    match run.state {
        RunState::Queued => end(turn, key, run, not_begun(false)),
        RunState::Running => {
            turn.tx.put(&key, &Run { stopping: Some(run.stopping.unwrap_or(reason)), ..run });
            turn.actions.push(Action::StopRun { origin, flight });
            Ok(())
        }
        RunState::Ended => Ok(()),
    }
}

/// Remembers that an ask that has not come is not to begin, and returns whether it could.
fn remember_stop(
    turn: &mut Turn<'_, '_>,
    key: (NodeId, FlightId),
    outcome: FlightOutcome,
) -> Result<bool, StoreError> {
    let (origin, flight) = key;
    let remembered = early_stop::take_room(turn.tx, origin)?;
    if remembered {
        turn.tx.put(&key, &stopped_early(turn, outcome));
        deadline::set(turn, turn.now.node.plus_ms(SEEN_MS), Deadline::ForgetRun(origin, flight));
    }
    Ok(remembered)
}

/// A run has been kept long enough.
pub(crate) fn forget(turn: &mut Turn<'_, '_>, key: (NodeId, FlightId)) -> Result<(), StoreError> {
    let Some(run) = get::<Run>(turn.tx, &key)? else { return Ok(()) };
    turn.tx.delete::<Run>(&key);
    // Nobody asks in nobody's name: such a one was only stopped.
    if run.requester.is_empty() { early_stop::give_room(turn.tx, key.0) } else { Ok(()) }
}

fn stopped_early(turn: &Turn<'_, '_>, outcome: FlightOutcome) -> Run {
    Run {
        #[expect(clippy::expect_used, reason = "a constant that is a name")]
        agent: "unknown".parse().expect("a name"),
        requester: String::new(),
        conversation: ConversationId::from_bytes([0; 16]),
        task: String::new(),
        hops: Vec::new(),
        state: RunState::Ended,
        attempt: 0,
        queued_at: turn.now.node,
        deadline: turn.now.node,
        stopping: None,
        outcome: Some(outcome),
        created_wall_ms: turn.now.wall_ms,
    }
}

/// The ask's own deadline, enforced here because here is where it runs.
pub(crate) fn deadline_passed(
    turn: &mut Turn<'_, '_>,
    origin: NodeId,
    flight: FlightId,
) -> Result<(), StoreError> {
    match get::<Run>(turn.tx, &(origin, flight))? {
        Some(run) if run.state != RunState::Ended => stop(turn, origin, flight, StopReason::DeadlinePassed),
        Some(_) | None => Ok(()),
    }
}

/// After a restart: what was running has been interrupted, what was waiting goes on.
pub(crate) fn recover(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    let rows = scan_prefix::<Queued>(turn.tx, &(), RUN_QUEUE_MAX)?;
    for ((_, origin, flight), _) in rows.iter().filter(|(_, row)| row.running) {
        let Some(run) = get::<Run>(turn.tx, &(*origin, *flight))? else { continue };
        let outcome = interrupted(&run.agent);
        end(turn, (*origin, *flight), run, outcome)?;
    }
    start_all(turn)
}

/// Ends what nodes asked that this one has nothing more to do with.
pub(crate) fn origins_gone(turn: &mut Turn<'_, '_>, gone: impl Fn(NodeId) -> bool) -> Result<(), StoreError> {
    let rows = scan_prefix::<Queued>(turn.tx, &(), RUN_QUEUE_MAX)?;
    let mut theirs = rows.into_iter().filter(|((_, origin, _), _)| gone(*origin));
    theirs.try_for_each(|((_, origin, flight), _)| stop(turn, origin, flight, StopReason::Requested))
}

fn interrupted(agent: &Name) -> FlightOutcome {
    FlightOutcome::Failed {
        code: FailureCode::NodeRestarted,
        detail: format!("the node was restarted while @{agent} was at work"),
        remediation: Some("check what it did, then ask again".to_owned()),
        may_have_run: true,
    }
}

/// Begins what can begin, for every agent here.
pub(crate) fn start_all(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    turn.site.agents.keys().try_for_each(|agent| start_next(turn, agent))
}

/// Who asked, as people and records here see it: the link says which node, the message only a name within it.
pub(crate) fn requester(turn: &Turn<'_, '_>, origin: NodeId, name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    if origin == turn.site.me { name } else { format!("{}/{name}", turn.site.view.label(origin)) }
}
