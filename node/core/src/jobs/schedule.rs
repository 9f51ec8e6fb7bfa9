//! Which of the executions that wait begins next.
//!
//! Tenants take turns: of those that have a job waiting and fewer running than they may, the one whose turn is longest
//! ago, and of two alike the one whose job has waited longest. Within a tenant jobs begin in order of arrival. A job
//! that there is no memory for now is waited for: nothing that came to its turn later begins before it, so that a large
//! job is never starved by small ones.

use std::collections::BTreeMap;

use mesh_protocol::id::{JobId, NodeId};
use serde::{Deserialize, Serialize};

use crate::limits::JOB_QUEUE_MAX;
use crate::site::JobPolicy;
use crate::store::{Overlay, Record, Store, StoreError, Table, scan_prefix};
use crate::time::NodeTime;

/// What an execution that has not ended is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    Waiting,
    Running,
    /// The sandbox is attesting that it is not run to its end.
    Closing,
}

/// An execution that has not ended, in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Queued {
    pub(super) tenant: String,
    pub(super) stage: Stage,
    /// Mebibytes it may use, decided when it was accepted.
    pub(super) mem_mb: u32,
    /// Bytes of what it is to run.
    pub(super) bytes: u64,
}

impl Record for Queued {
    const TABLE: Table = Table::JobQueue;
    type Key = Place;
}

/// Where an execution is in the queue.
pub(super) type Place = (NodeTime, NodeId, JobId);

/// When a tenant had its turn, in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Turned(u64);

impl Record for Turned {
    const TABLE: Table = Table::JobTurns;
    type Key = String;
}

/// All executions that have not ended, in order of arrival.
pub(super) fn queue(store: &dyn Store) -> Result<Vec<(Place, Queued)>, StoreError> {
    scan_prefix::<Queued>(store, &(), JOB_QUEUE_MAX)
}

/// The executions that begin now, given how many may run at once. Their tenants have had their turns.
pub(super) fn next(
    tx: &mut Overlay<'_>,
    policy: &JobPolicy,
    slots: usize,
) -> Result<Vec<(Place, Queued)>, StoreError> {
    let mut rows = queue(tx)?;
    let waits = |rows: &[(Place, Queued)]| rows.iter().any(|(_, row)| row.stage == Stage::Waiting);
    if !waits(&rows) && rows.iter().any(|(_, row)| row.stage == Stage::Running) {
        return Ok(Vec::new());
    }
    let mut turns = BTreeMap::new();
    for (tenant, turned) in scan_prefix::<Turned>(tx, &(), usize::MAX)? {
        if rows.iter().any(|(_, row)| row.tenant == tenant) {
            turns.insert(tenant, turned);
        } else {
            tx.delete::<Turned>(&tenant);
        }
    }
    // One that was not here has its turn with whoever's is furthest back, not before: who comes and goes does not
    // overtake who stays.
    let furthest = Turned(turns.values().map(|turned: &Turned| turned.0).min().unwrap_or(0));
    for (_, row) in &rows {
        if !turns.contains_key(&row.tenant) {
            tx.put(&row.tenant, &furthest);
            turns.insert(row.tenant.clone(), furthest);
        }
    }
    let mut begun = Vec::new();
    while let Some(at) = pick(&rows, &turns, policy, slots) {
        let Some((place, row)) = rows.get_mut(at) else { break };
        row.stage = Stage::Running;
        let turn = Turned(turns.values().map(|turned| turned.0).max().unwrap_or(0).saturating_add(1));
        tx.put(&row.tenant, &turn);
        tx.put(place, &*row);
        turns.insert(row.tenant.clone(), turn);
        begun.push((*place, row.clone()));
    }
    Ok(begun)
}

/// The place of the execution that begins next, if one does.
fn pick(
    rows: &[(Place, Queued)],
    turns: &BTreeMap<String, Turned>,
    policy: &JobPolicy,
    slots: usize,
) -> Option<usize> {
    let running = || rows.iter().map(|(_, row)| row).filter(|row| row.stage == Stage::Running);
    if running().count() >= slots {
        return None;
    }
    let mut running_of: BTreeMap<&str, usize> = BTreeMap::new();
    running().for_each(|row| *running_of.entry(row.tenant.as_str()).or_default() += 1);
    let mut first_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, (_, row)) in rows.iter().enumerate().filter(|(_, (_, row))| row.stage == Stage::Waiting) {
        first_of.entry(row.tenant.as_str()).or_insert(at);
    }
    let may = |tenant: &str| running_of.get(tenant).copied().unwrap_or(0) < policy.tenant_concurrency.max(1);
    let candidates = first_of.into_iter().filter(|(tenant, _)| may(tenant));
    let (_, at) = candidates.min_by_key(|(tenant, at)| (turns.get(*tenant).map(|it| it.0), *at))?;
    let used = running().fold(0_u32, |sum, row| sum.saturating_add(row.mem_mb));
    let (_, chosen) = rows.get(at)?;
    let fits = used == 0 || used.saturating_add(chosen.mem_mb) <= policy.memory_budget_mb;
    fits.then_some(at)
}

/// Why one more execution is not taken in; `None` when it is.
pub(super) fn full(
    store: &dyn Store,
    policy: &JobPolicy,
    (tenant, bytes): (&str, u64),
) -> Result<Option<&'static str>, StoreError> {
    let rows = queue(store)?;
    let waiting = || rows.iter().filter(|(_, row)| row.stage == Stage::Waiting);
    let held = rows.iter().fold(bytes, |sum, (_, row)| sum.saturating_add(row.bytes));
    Ok(if rows.len() >= JOB_QUEUE_MAX || waiting().count() >= policy.queue_max {
        Some("queue_saturated")
    } else if held > crate::limits::JOB_BODIES_BYTES_MAX {
        Some("storage_capacity")
    } else if waiting().filter(|(_, row)| row.tenant == tenant).count() >= policy.tenant_queue_max {
        Some("tenant_queue_saturated")
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OrderedStore;

    fn row(n: u64, tenant: &str, mem_mb: u32) -> (Place, Queued) {
        let id = u8::try_from(n).unwrap();
        let place = (NodeTime(n), NodeId::from_bytes([1; 32]), JobId::from_bytes([id; 16]));
        (place, Queued { tenant: tenant.to_owned(), stage: Stage::Waiting, mem_mb, bytes: 0 })
    }

    fn store(rows: &[(Place, Queued)]) -> OrderedStore {
        let mut store = OrderedStore::default();
        let changes = {
            let mut tx = Overlay::new(&store);
            rows.iter().for_each(|(place, row)| tx.put(place, row));
            tx.into_changes()
        };
        store.apply(changes);
        store
    }

    /// Begins jobs one at a time, each ending before the next begins, and says whose they were.
    fn order(rows: &[(Place, Queued)], policy: &JobPolicy) -> Vec<String> {
        let store = store(rows);
        let mut tx = Overlay::new(&store);
        let mut order = Vec::new();
        loop {
            let begun = next(&mut tx, policy, 1).unwrap();
            let Some((place, row)) = begun.into_iter().next() else { return order };
            tx.delete::<Queued>(&place);
            order.push(row.tenant);
        }
    }

    #[test]
    fn two_tenants_take_turns_however_many_jobs_one_has() {
        let rows = [row(1, "a", 1), row(2, "a", 1), row(3, "a", 1), row(4, "b", 1), row(5, "b", 1)];
        assert_eq!(order(&rows, &JobPolicy::default()), ["a", "b", "a", "b", "a"]);
    }

    #[test]
    fn a_tenant_runs_no_more_at_once_than_it_may_and_others_do_not_wait_for_it() {
        let rows = [row(1, "a", 1), row(2, "a", 1), row(3, "a", 1), row(4, "b", 1)];
        let store = store(&rows);
        let begun = next(&mut Overlay::new(&store), &JobPolicy::default(), 8).unwrap();
        let mut begun: Vec<u64> = begun.iter().map(|((at, ..), _)| at.0).collect();
        begun.sort_unstable();
        assert_eq!(begun, [1, 2, 4]);
    }

    #[test]
    fn a_large_job_whose_turn_it_is_is_not_starved_by_small_ones() {
        let policy = JobPolicy { memory_budget_mb: 1000, tenant_concurrency: 8, ..JobPolicy::default() };
        let rows = [row(1, "a", 600), row(2, "b", 900), row(3, "c", 100), row(4, "d", 100)];
        let store = store(&rows);
        let mut tx = Overlay::new(&store);
        let begun = next(&mut tx, &policy, 8).unwrap();
        assert_eq!(begun.len(), 1, "the second does not fit, and nobody passes it");
        tx.delete::<Queued>(&rows[0].0);
        let begun = next(&mut tx, &policy, 8).unwrap();
        let begun: Vec<&str> = begun.iter().map(|(_, row)| row.tenant.as_str()).collect();
        assert_eq!(begun, ["b", "c"], "and then as many as fit beside it");
    }

    #[test]
    fn a_job_larger_than_the_budget_still_runs_alone() {
        let policy = JobPolicy { memory_budget_mb: 100, ..JobPolicy::default() };
        assert_eq!(order(&[row(1, "a", 600), row(2, "b", 10)], &policy), ["a", "b"]);
    }

    #[test]
    fn who_comes_and_goes_does_not_overtake_who_stays() {
        let store = store(&[row(1, "stays", 1), row(2, "stays", 1)]);
        let mut tx = Overlay::new(&store);
        let policy = JobPolicy::default();
        let (first, _) = next(&mut tx, &policy, 1).unwrap().remove(0);
        tx.delete::<Queued>(&first);
        let (place, passing) = row(3, "passing", 1);
        tx.put(&place, &passing);
        assert_eq!(next(&mut tx, &policy, 1).unwrap()[0].1.tenant, "stays");
    }

    #[test]
    fn a_full_queue_of_one_tenant_leaves_room_for_another() {
        let policy = JobPolicy { tenant_queue_max: 2, queue_max: 3, ..JobPolicy::default() };
        let store = store(&[row(1, "a", 1), row(2, "a", 1)]);
        assert_eq!(full(&store, &policy, ("a", 0)).unwrap(), Some("tenant_queue_saturated"));
        assert_eq!(full(&store, &policy, ("b", 0)).unwrap(), None);
        assert_eq!(full(&store, &policy, ("b", u64::MAX)).unwrap(), Some("storage_capacity"));
        let policy = JobPolicy { queue_max: 2, ..policy };
        assert_eq!(full(&store, &policy, ("b", 0)).unwrap(), Some("queue_saturated"));
    }
}
