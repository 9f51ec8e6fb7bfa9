//! What is due when: one table, ordered by this node's clock.
//!
//! A row is only a reminder. It fires at its time or later, and whoever handles it looks at the record itself: one
//! that has ended ignores it. So nothing ever has to be found and cancelled.
//!
//! Everything that grows is forgotten this way too: whatever is kept for people is reminded of its end when it is
//! written, [`RETAIN_MS`] later, and nothing is ever searched for.

use mesh_protocol::id::{FlightId, JobId, MessageId, NodeId};
use serde::{Deserialize, Serialize};

use crate::broker::conversation::Message;
use crate::broker::flight::Flight;
use crate::broker::receipt::Given;
use crate::event::Action;
use crate::limits::{DUE_BATCH, RETAIN_MS};
use crate::store::{Record, StoreError, Table, scan_prefix};
use crate::time::NodeTime;
use crate::turn::Turn;
use crate::{broker, jobs};

/// Reminders looked at first; where all of them are due, as many as are handled at once.
const DUE_FEW: usize = 4;

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Deadline {
    /// The answer to an ask is of no use any more.
    Flight(FlightId),
    /// A node was silent for too long about an ask it has.
    FlightSilence(FlightId),
    /// A run, or a wait for one, has taken its time.
    Run(NodeId, FlightId),
    /// The result of a job is of no use any more.
    Job(JobId),
    /// A node was silent for too long about a job it has.
    JobSilence(JobId),
    /// An execution has waited too long.
    Execution(NodeId, JobId),
    /// A message has been kept long enough.
    ForgetMessage(MessageId),
    /// A flight that has ended has been kept long enough.
    ForgetFlight(FlightId),
    /// A run that has ended has been kept long enough.
    ForgetRun(NodeId, FlightId),
    /// A job that has ended, and its evidence, have been kept long enough.
    ForgetJob(JobId),
    /// An execution that has ended has been kept long enough.
    ForgetExecution(NodeId, JobId),
    /// A receipt for a request id has been kept long enough.
    ForgetReceipt(String),
    /// More of what a forgotten job left is to be removed.
    SweepJob(JobId),
    /// Whether a job that may be run twice is to be given to another executor.
    MoveJob(JobId),
    /// An end that could not be signed is to be signed.
    AttestJob(JobId),
}

impl Record for Deadline {
    const TABLE: Table = Table::Deadlines;
    /// The time, and a random number that keeps two of one time apart.
    type Key = (NodeTime, u128);
}

/// Sets a reminder.
pub(crate) fn set(turn: &mut Turn<'_, '_>, at: NodeTime, what: Deadline) {
    let mut unique = [0; 16];
    turn.rng.fill_bytes(&mut unique);
    turn.tx.put(&(at, u128::from_be_bytes(unique)), &what);
    turn.actions.push(Action::WakeAt(at));
}

/// Handles what is due, a bounded number at once, and asks to be woken for the rest.
pub(crate) fn handle_due(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    let mut next = scan_prefix::<Deadline>(turn.tx, &(), DUE_FEW)?;
    // Most times it is one, before hundreds of which nothing is due for days.
    if next.len() >= DUE_FEW && next.iter().all(|((at, _), _)| *at <= turn.now.node) {
        next = scan_prefix::<Deadline>(turn.tx, &(), DUE_BATCH)?;
    }
    for ((at, unique), what) in next {
        if at > turn.now.node {
            break;
        }
        turn.tx.delete::<Deadline>(&(at, unique));
        fire(turn, what)?;
    }
    if let Some(((at, _), _)) = scan_prefix::<Deadline>(turn.tx, &(), 1)?.first() {
        turn.actions.push(Action::WakeAt(*at));
    }
    Ok(())
}

fn fire(turn: &mut Turn<'_, '_>, what: Deadline) -> Result<(), StoreError> {
    match what {
        Deadline::Flight(flight) => broker::flight::deadline_passed(turn, flight),
        Deadline::FlightSilence(flight) => broker::flight::silence_passed(turn, flight),
        Deadline::Run(origin, flight) => broker::run::deadline_passed(turn, origin, flight),
        Deadline::Job(job) => jobs::job::deadline_passed(turn, job),
        Deadline::JobSilence(job) => jobs::job::silence_passed(turn, job),
        Deadline::Execution(origin, job) => jobs::execution::deadline_passed(turn, origin, job),
        Deadline::ForgetMessage(message) => forget::<Message>(turn, &message),
        Deadline::ForgetFlight(flight) => forget::<Flight>(turn, &flight),
        Deadline::ForgetRun(origin, flight) => broker::run::forget(turn, (origin, flight)),
        Deadline::ForgetJob(job) => jobs::job::forget(turn, job),
        Deadline::SweepJob(job) => jobs::job::sweep(turn, job),
        Deadline::MoveJob(job) => jobs::submit::reconsider(turn, job),
        Deadline::AttestJob(job) => jobs::signing::again(turn, job),
        Deadline::ForgetExecution(origin, job) => jobs::execution::forget(turn, (origin, job)),
        Deadline::ForgetReceipt(key) => forget::<Given>(turn, &key),
    }
}

/// Removes a record whose time is over. Whoever set the reminder did so when the record could not change any more.
#[expect(clippy::unnecessary_wraps, reason = "every reminder is handled by a function of one shape")]
fn forget<R: Record>(turn: &mut Turn<'_, '_>, key: &R::Key) -> Result<(), StoreError> {
    turn.tx.delete::<R>(key);
    Ok(())
}

/// Sets the reminder to forget something that has ended.
pub(crate) fn retain(turn: &mut Turn<'_, '_>, what: Deadline) {
    set(turn, turn.now.node.plus_ms(RETAIN_MS), what);
}

/// The same for a job, which is kept as long as the operator says.
pub(crate) fn retain_job(turn: &mut Turn<'_, '_>, what: Deadline) {
    if let Some(ms) = turn.site.jobs.retain_ms {
        set(turn, turn.now.node.plus_ms(ms), what);
    }
}
