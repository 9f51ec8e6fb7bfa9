//! Ends of jobs that are signed here: those this node decided, and those that could not be signed when they came.
//!
//! ```text
//! decided here ──> due ──signed──> settled
//! not signed ──────┘ └──failed──> due again: a few times soon, then at each start
//! ```
//! What an executor saw of the streams is kept until then, since nobody can see it again. Where it is not kept it is not
//! known, and what is signed says so.

use mesh_protocol::evidence::event::Event;
use mesh_protocol::evidence::receipt::ExecutorOutput;
use mesh_protocol::id::{JobId, NodeId};
use serde::{Deserialize, Serialize};

use super::ended::Ended;
use super::job::{Job, keep_proof};
use super::{events, outputs};
use crate::deadline::{self, Deadline};
use crate::event::{Action, JobTicket};
use crate::evidence::Attested;
use crate::limits::{JOB_SIGN_AGAIN_MS, JOB_SIGNINGS_AT_ONCE, JOB_SIGNINGS_MAX, OPEN_BATCH};
use crate::store::{Overlay, Record, StoreError, Table, get, scan_prefix};
use crate::turn::Turn;

/// That the end of a job is to be signed here: because this node decided it, or could not sign it when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Unattested;

impl Record for Unattested {
    const TABLE: Table = Table::Unattested;
    type Key = JobId;
}

/// What the executor saw of the streams of a job whose end is to be signed. A job that was stored without this has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Seen(ExecutorOutput);

impl Record for Seen {
    const TABLE: Table = Table::StreamsSeen;
    type Key = JobId;
}

/// Whether the end of a job is to be signed here.
pub(super) fn is_due(tx: &Overlay<'_>, id: JobId) -> Result<bool, StoreError> {
    Ok(get::<Unattested>(tx, &id)?.is_some())
}

/// There is nothing to sign any more.
pub(super) fn settled(tx: &mut Overlay<'_>, id: JobId) {
    tx.delete::<Unattested>(&id);
    tx.delete::<Seen>(&id);
}

/// Has this node sign an end that it decided itself.
pub(super) fn begin(turn: &mut Turn<'_, '_>, id: JobId, job: &Job) -> Result<(), StoreError> {
    turn.tx.put(&id, &Unattested);
    attest(turn, id, job)
}

fn attest(turn: &mut Turn<'_, '_>, id: JobId, job: &Job) -> Result<(), StoreError> {
    let Some(result) = job.result.clone() else { return Ok(()) };
    let ticket = JobTicket {
        origin: turn.site.me,
        job: id,
        attempt: 0,
        tenant: job.requester.clone(),
        asked: job.asked.clone(),
        created_wall_ms: job.created_wall_ms,
        events: events::all(turn.tx, (turn.site.me, id))?,
    };
    let seen = get::<Seen>(turn.tx, &id)?.map(|Seen(seen)| Box::new(seen));
    turn.actions.push(Action::AttestEnd(ticket, result, seen));
    Ok(())
}

/// This node signed an end that it decided itself.
pub(crate) fn attested_here(turn: &mut Turn<'_, '_>, id: JobId, proof: &[u8]) -> Result<(), StoreError> {
    if !is_due(turn.tx, id)? {
        return Ok(());
    }
    settled(turn.tx, id);
    let Some(mut job) = get::<Job>(turn.tx, &id)? else { return Ok(()) };
    let Some(result) = job.result.clone() else { return Ok(()) };
    let ended = Ended { result, evidence: proof.to_vec(), outputs: outputs::of(turn.tx, id)? };
    keep_proof(turn, turn.site.me, (id, &mut job), &ended)?;
    turn.tx.put(&id, &job);
    turn.actions.push(Action::JobChanged(id));
    Ok(())
}

/// The end of a job could not be signed here. A peer's job goes back to it without a proof: only what is kept here can
/// be signed later. Whoever follows the job hears its last events all the same; what is signed later is about them.
pub(crate) fn failed(
    turn: &mut Turn<'_, '_>,
    (origin, id): (NodeId, JobId),
    seen: Option<&ExecutorOutput>,
    last: &[Event],
) -> Result<(), StoreError> {
    if origin != turn.site.me {
        return Ok(());
    }
    let Some(mut job) = get::<Job>(turn.tx, &id)? else { return Ok(()) };
    let signed = matches!(job.attested, Attested::Verified { .. } | Attested::Unverified(_));
    let anothers = job.node != turn.site.me && !job.status.is_terminal();
    if signed || anothers {
        return Ok(());
    }
    turn.tx.put(&id, &Unattested);
    match seen {
        Some(seen) => turn.tx.put(&id, &Seen(seen.clone())),
        // What an attempt before this one saw is not what ended the job.
        None => turn.tx.delete::<Seen>(&id),
    }
    // Its end, which comes next, finds that.
    if job.status.is_terminal() {
        events::close(turn.tx, (origin, id), last)?;
        job.attested = count_failure(turn, id, &job.attested);
        turn.tx.put(&id, &job);
        turn.actions.push(Action::JobChanged(id));
    }
    Ok(())
}

/// Counts a failure, and has it tried again unless it failed too often; then the next start does.
pub(super) fn count_failure(turn: &mut Turn<'_, '_>, id: JobId, before: &Attested) -> Attested {
    let failures = match before {
        Attested::Unsigned { failures } => failures.saturating_add(1),
        _ => 1,
    };
    if failures < JOB_SIGNINGS_MAX {
        let pause_ms = JOB_SIGN_AGAIN_MS << (failures - 1);
        deadline::set(turn, turn.now.node.plus_ms(pause_ms), Deadline::AttestJob(id));
    }
    Attested::Unsigned { failures }
}

/// It is time to sign an end that could not be signed.
pub(crate) fn again(turn: &mut Turn<'_, '_>, id: JobId) -> Result<(), StoreError> {
    let due = is_due(turn.tx, id)?;
    let job = due.then(|| get::<Job>(turn.tx, &id)).transpose()?.flatten();
    job.map_or(Ok(()), |job| attest(turn, id, &job))
}

/// After a restart: what was to be signed is signed now, as many ends at a time as are no burden.
pub(crate) fn recover(turn: &mut Turn<'_, '_>) -> Result<(), StoreError> {
    for (place, (id, Unattested)) in scan_prefix(turn.tx, &(), OPEN_BATCH)?.into_iter().enumerate() {
        match u64::try_from(place / JOB_SIGNINGS_AT_ONCE).unwrap_or(u64::MAX) {
            0 => again(turn, id)?,
            later => {
                let at = turn.now.node.plus_ms(later.saturating_mul(JOB_SIGN_AGAIN_MS));
                deadline::set(turn, at, Deadline::AttestJob(id));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mesh_protocol::codec::encode;
    use mesh_protocol::evidence::digest::Digest;
    use mesh_protocol::evidence::receipt::StreamSeen;

    use super::*;

    #[test]
    fn the_bytes_of_what_was_seen_never_change() {
        let stream = |bytes_seen| StreamSeen { bytes_seen, raw_sha256: Digest::of(b""), truncated: true };
        let seen = Seen(ExecutorOutput { stdout: stream(300), stderr: stream(0) });
        let digest = Digest::of(b"").to_string();
        let stream = |head: &[u8]| [head, &[64], digest.as_bytes(), &[1]].concat();
        assert_eq!(encode(&seen), [stream(&[0xac, 2]), stream(&[0])].concat());
    }
}
