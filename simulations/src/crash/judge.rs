//! What must hold once a run has come to rest. One function an invariant.

use std::collections::BTreeSet;

use mesh_node::storage::Snapshot;
use mesh_node_core::broker::conversation::Message;
use mesh_node_core::broker::flight::Flight;
use mesh_node_core::jobs::job::Job;
use mesh_node_core::jobs::outputs;
use mesh_node_core::outbox::{self, DeliveryReport, ReportKind, Side};
use mesh_node_core::store::get;
use mesh_protocol::delivery::Epoch;
use mesh_protocol::flight::{FailureCode, FlightOutcome};
use mesh_protocol::id::{FlightId, JobId, MessageId};
use mesh_protocol::job::JobStatus;

use super::point::{SIDES, SideIndex};
use super::row::Row;
use super::truth::{Given, Request, Truth, Want};
use super::world::World;

/// An invariant that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    /// A database did not open, or not all of it was read.
    Unreadable,
    /// A commit that was acknowledged is not there.
    LostCommit,
    /// It is there, with other rows than it had.
    ChangedRows,
    /// Work that was accepted is not known to its node any more.
    ForgottenWork,
    /// A message that was accepted did not arrive and lies in no reported gap.
    SilentLoss,
    /// An effect happened twice, although no disk there went back.
    DoubleEffect,
    /// One request was accepted as two.
    DoubleReceipt,
    /// An outcome says what is not so.
    FalseOutcome,
    /// The files of a job are others than were sent along, or than it left.
    OtherFiles,
    /// A gap is recorded on one side only.
    GapOnOneSide,
    /// A restored disk was reported although none was.
    InventedRollback,
    /// A restored disk was not reported.
    UnreportedRollback,
    /// Something is still waiting after healing.
    NoRest,
}

/// What both sides have in the end.
struct End {
    rows: [Snapshot; 2],
    reports: [Vec<DeliveryReport>; 2],
}

impl End {
    /// `None` when one of them does not run.
    fn of(world: &World) -> anyhow::Result<Option<Self>> {
        let [Some(a), Some(b)] = [0, 1].map(|side: SideIndex| world.side(side).running.as_ref()) else {
            return Ok(None);
        };
        let rows = [a.database.snapshot()?, b.database.snapshot()?];
        let [first, second] = &rows;
        let reports = [outbox::reports(first, usize::MAX)?, outbox::reports(second, usize::MAX)?];
        Ok(Some(Self { rows, reports }))
    }

    const fn rows(&self, side: SideIndex) -> &Snapshot {
        let [a, b] = &self.rows;
        if side == 0 { a } else { b }
    }

    fn reports(&self, side: SideIndex) -> &[DeliveryReport] {
        let [a, b] = &self.reports;
        if side == 0 { a } else { b }
    }

    /// The gaps in what a side sent, as one of the two knows them.
    fn gaps(&self, sender: SideIndex, known_to: SideIndex) -> BTreeSet<(Epoch, u64, u64)> {
        let role = if sender == known_to { Side::Sending } else { Side::Receiving };
        let gaps = self.reports(known_to).iter();
        gaps.filter(|report| report.kind == ReportKind::Gap && report.side == role)
            .map(|report| (report.epoch, report.from, report.to))
            .collect()
    }
}

/// Adds what is broken to the world's violations, and the rows that only its end shows.
pub(super) fn judge(world: &mut World, rests: bool) -> anyhow::Result<()> {
    let Some(end) = End::of(world)? else {
        world.violations.insert(Violation::NoRest);
        return Ok(());
    };
    let mut broken = BTreeSet::new();
    if !rests {
        broken.insert(Violation::NoRest);
    }
    for request in world.truth.requests.iter().filter(|request| !request.excused) {
        if request.given.len() > 1 {
            broken.insert(Violation::DoubleReceipt);
        }
        for given in &request.given {
            broken.extend(verdict(&world.truth, &end, request, *given)?);
        }
    }
    if !world.truth.mangled.is_empty() {
        broken.insert(Violation::OtherFiles);
    }
    if has_double_effect(&world.truth) {
        broken.insert(Violation::DoubleEffect);
    }
    broken.extend(rollbacks(&world.truth, &end, rests)?);
    world.violations.extend(broken);
    note_rows(world, &end)
}

fn verdict(truth: &Truth, end: &End, request: &Request, given: Given) -> anyhow::Result<Option<Violation>> {
    match given {
        Given::Message(message) => message_lost(truth, end, request.side, message),
        Given::Flight(flight) => flight_verdict(truth, end, request.side, flight),
        Given::Job(job) => {
            let verdict = job_verdict(truth, end, request.side, job)?;
            let long = matches!(request.want, Want::LongJob(_));
            Ok(if long && verdict.is_none() { files_verdict(end, request.side, job)? } else { verdict })
        }
    }
}

/// What succeeded left its files, whole, where it was asked for.
fn files_verdict(end: &End, side: SideIndex, id: JobId) -> anyhow::Result<Option<Violation>> {
    let job = get::<Job>(end.rows(side), &id)?;
    let succeeded = job.is_some_and(|job| job.status == JobStatus::Succeeded);
    let left = outputs::of(end.rows(side), id)?;
    let left = left.iter().map(|file| (file.path.as_str(), &file.content.0));
    let whole = left.eq(Truth::files("output").iter().map(|(path, bytes)| (path.as_str(), bytes)));
    Ok((succeeded && !whole).then_some(Violation::OtherFiles))
}

fn message_lost(
    truth: &Truth,
    end: &End,
    side: SideIndex,
    message: MessageId,
) -> anyhow::Result<Option<Violation>> {
    let arrived = get::<Message>(end.rows(1 - side), &message)?.is_some();
    let gaps = end.gaps(side, side);
    let in_gap = truth.sent.iter().any(|((sender, epoch, seq), sent)| {
        *sender == side
            && *sent == message
            && gaps.iter().any(|(gap, from, to)| gap == epoch && (from..=to).contains(&seq))
    });
    let owed = truth.revoked.is_none();
    Ok((owed && !arrived && !in_gap).then_some(Violation::SilentLoss))
}

/// Whether a side could know what its peer did when it decided. A record that something late was added to does not say
/// any more when that was: it counts as decided at the beginning of time. What a disk that went back undid, its node does not know
/// any more; and a node whose own disk went back does not know that before it met its peer.
fn knows(truth: &Truth, end: &End, side: SideIndex, wall_ms: u64) -> bool {
    let mut found = end.reports(side).iter().filter(|report| report.kind == ReportKind::SenderRolledBack);
    match truth.restored {
        None => true,
        Some(restored) => restored == side && found.all(|report| wall_ms > report.wall_ms),
    }
}

fn flight_verdict(
    truth: &Truth,
    end: &End,
    side: SideIndex,
    id: FlightId,
) -> anyhow::Result<Option<Violation>> {
    let Some(flight) = get::<Flight>(end.rows(side), &id)? else { return Ok(Some(Violation::ForgottenWork)) };
    let known = knows(truth, end, side, flight.late.as_ref().map_or(flight.updated_wall_ms, |_| 0));
    let said = |outcome: &FlightOutcome| match outcome {
        FlightOutcome::Completed { reply } => *reply == Truth::reply(id) && truth.answered.contains(&id),
        FlightOutcome::Failed { may_have_run, .. } | FlightOutcome::Cancelled { may_have_run } => {
            *may_have_run || !known || !truth.began(Given::Flight(id))
        }
    };
    let is_true = flight.outcome.iter().all(said);
    Ok((!is_true).then_some(Violation::FalseOutcome))
}

fn job_verdict(truth: &Truth, end: &End, side: SideIndex, id: JobId) -> anyhow::Result<Option<Violation>> {
    let Some(job) = get::<Job>(end.rows(side), &id)? else { return Ok(Some(Violation::ForgottenWork)) };
    let known = knows(truth, end, side, job.late.as_ref().map_or(job.updated_wall_ms, |_| 0));
    let is_true = job.result.iter().all(|result| match result.status {
        JobStatus::Succeeded => truth.jobs_done.contains(&id),
        _ => result.may_have_run || !known || !truth.began(Given::Job(id)),
    });
    Ok((!is_true).then_some(Violation::FalseOutcome))
}

/// A disk that went back has forgotten what it did, and a caller whose node forgot its request has asked anew.
fn has_double_effect(truth: &Truth) -> bool {
    let twice = |side: SideIndex, times: u32| times > 1 && truth.restored != Some(side);
    let by_id = truth.runs_begun.iter().any(|((side, ..), times)| twice(*side, *times))
        || truth.jobs_begun.iter().any(|((side, ..), times)| twice(*side, *times));
    let by_request = truth.requests.iter().any(|request| {
        let times = truth.tasks_begun.get(&request.id).copied().unwrap_or(0);
        !request.excused && twice(1 - request.side, times)
    });
    by_id || by_request
}

fn rollbacks(truth: &Truth, end: &End, rests: bool) -> anyhow::Result<Vec<Violation>> {
    let mut broken = Vec::new();
    for sender in SIDES {
        if rests && end.gaps(sender, sender) != end.gaps(sender, 1 - sender) {
            broken.push(Violation::GapOnOneSide);
        }
    }
    match truth.restored {
        None if SIDES.iter().any(|side| !end.reports(*side).is_empty()) => {
            broken.push(Violation::InventedRollback);
        }
        Some(side) if rests => {
            let mut told = false;
            for given in &truth.forgotten {
                told |= match given {
                    Given::Message(message) => get::<Message>(end.rows(1 - side), message)?.is_some(),
                    work => truth.began(*work),
                };
            }
            let found = end.reports(side).iter().filter(|report| report.kind == ReportKind::SenderRolledBack);
            match found.count() {
                0 if told => broken.push(Violation::UnreportedRollback),
                // One disk was put back, once.
                2.. => broken.push(Violation::InventedRollback),
                _ => {}
            }
        }
        Some(_) | None => {}
    }
    Ok(broken)
}

fn note_rows(world: &mut World, end: &End) -> anyhow::Result<()> {
    let reported =
        |kind| SIDES.iter().any(|side| end.reports(*side).iter().any(|report| report.kind == kind));
    let mut rows = BTreeSet::new();
    if reported(ReportKind::SenderRolledBack) {
        rows.insert(Row::S8);
    }
    if reported(ReportKind::ReceiverRolledBack) {
        rows.insert(Row::R9);
    }
    for request in &world.truth.requests {
        for given in &request.given {
            let Given::Flight(flight) = given else { continue };
            let outcome = get::<Flight>(end.rows(request.side), flight)?.and_then(|flight| flight.outcome);
            if matches!(outcome, Some(FlightOutcome::Failed { code: FailureCode::PeerUnreachable, .. })) {
                rows.insert(Row::L3);
            }
        }
    }
    world.rows.extend(rows);
    Ok(())
}

/// Asks and jobs that were accepted, and how many of them came to their own end.
pub(super) fn work(world: &World) -> anyhow::Result<(u64, u64)> {
    let Some(end) = End::of(world)? else { return Ok((0, 0)) };
    let (mut accepted, mut completed) = (0, 0);
    for request in &world.truth.requests {
        for given in &request.given {
            let done = match given {
                Given::Flight(flight) => get::<Flight>(end.rows(request.side), flight)?
                    .is_some_and(|flight| matches!(flight.outcome, Some(FlightOutcome::Completed { .. }))),
                Given::Job(job) => get::<Job>(end.rows(request.side), job)?
                    .is_some_and(|job| job.status == JobStatus::Succeeded),
                Given::Message(_) => continue,
            };
            accepted += 1;
            completed += u64::from(done);
        }
    }
    Ok((accepted, completed))
}
