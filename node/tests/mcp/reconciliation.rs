//! The reconciliation table against everything a process could do to it, in any order.

use std::collections::{BTreeMap, BTreeSet};

use mesh_node::mcp::limits::{SUBMISSIONS_MAX, UNRESOLVED_FOR};
use mesh_node::mcp::reconciliation::{Begun, Ending, Reconciliation, ReconciliationError};
use proptest::prelude::*;
use uuid::Uuid;

const TEN_MINUTES_MS: u64 = 600_000;

fn key(number: u64) -> Uuid {
    Uuid::from_u128(number.into())
}

fn begin(
    table: &mut Reconciliation,
    what: u8,
    number: u64,
    now_ms: u64,
) -> Result<Begun, ReconciliationError> {
    table.begin([what; 32], key(number), now_ms)
}

#[derive(Debug, Clone)]
enum Step {
    Begin(u8),
    /// Settles one of the active submissions.
    Settle(prop::sample::Index, Ending),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ending = prop_oneof![Just(Ending::Acknowledged), Just(Ending::Refused), Just(Ending::Lost)];
    prop_oneof![
        4 => (0_u8..3).prop_map(Step::Begin),
        4 => (any::<prop::sample::Index>(), ending).prop_map(|(which, ending)| Step::Settle(which, ending)),
        1 => (0..TEN_MINUTES_MS).prop_map(Step::Pass),
    ]
}

/// What one submission is to the process that made it, kept beside the table in the plainest way.
#[derive(Debug, Clone, Copy)]
struct Seen {
    what: u8,
    begun: Begun,
    /// Since when its outcome is unknown, if an earlier use of its key was lost.
    lost_at_ms: Option<u64>,
}

proptest! {
    #[test]
    fn a_lost_key_comes_back_to_its_twin_alone_and_is_never_in_two_hands(steps in prop::collection::vec(step(), 1..200)) {
        let mut table = Reconciliation::default();
        let (mut active, mut lost): (Vec<Seen>, BTreeMap<Uuid, Seen>) = (Vec::new(), BTreeMap::new());
        let (mut now_ms, mut number) = (0, 0);
        for step in steps {
            match step {
                Step::Pass(ms) => now_ms += ms,
                Step::Begin(what) => {
                    lost.retain(|_, seen| now_ms - seen.lost_at_ms.unwrap() < TEN_MINUTES_MS);
                    number += 1;
                    let twin_in_reconciliation =
                        active.iter().any(|seen| seen.what == what && seen.lost_at_ms.is_some());
                    let lost_twins: BTreeSet<_> =
                        lost.iter().filter(|(_, seen)| seen.what == what).map(|(key, _)| *key).collect();
                    match begin(&mut table, what, number, now_ms) {
                        Err(error) => {
                            prop_assert_eq!(error, ReconciliationError::BeingReconciled);
                            prop_assert!(twin_in_reconciliation);
                        }
                        Ok(begun) => {
                            prop_assert!(!twin_in_reconciliation);
                            prop_assert!(active.iter().all(|seen| seen.begun.key != begun.key));
                            prop_assert_eq!(begun.reused, !lost_twins.is_empty());
                            let expected = if begun.reused { lost_twins } else { [key(number)].into() };
                            prop_assert!(expected.contains(&begun.key));
                            let lost_at_ms = lost.remove(&begun.key).and_then(|seen| seen.lost_at_ms);
                            active.push(Seen { what, begun, lost_at_ms });
                        }
                    }
                }
                Step::Settle(which, ending) if !active.is_empty() => {
                    let mut seen = active.swap_remove(which.index(active.len()));
                    table.settle(seen.begun.slot, ending, now_ms);
                    match ending {
                        Ending::Acknowledged => continue,
                        Ending::Lost => seen.lost_at_ms = Some(now_ms),
                        Ending::Refused if seen.lost_at_ms.is_none() => continue,
                        Ending::Refused => {}
                    }
                    lost.insert(seen.begun.key, seen);
                }
                Step::Settle(..) => {}
            }
            prop_assert!(table.len() >= active.len() && table.len() <= SUBMISSIONS_MAX);
        }
    }
}

#[test]
fn a_key_is_kept_for_ten_minutes_and_not_a_millisecond_more() {
    assert_eq!(UNRESOLVED_FOR.as_millis(), u128::from(TEN_MINUTES_MS));
    for (later_ms, reused) in [(TEN_MINUTES_MS - 1, true), (TEN_MINUTES_MS, false)] {
        let mut table = Reconciliation::default();
        let first = begin(&mut table, 1, 1, 5).unwrap();
        table.settle(first.slot, Ending::Lost, 5);
        assert_eq!(begin(&mut table, 1, 2, 5 + later_ms).unwrap().reused, reused);
    }
}

#[test]
fn an_acknowledged_job_frees_its_own_key_and_no_twins() {
    let mut table = Reconciliation::default();
    let (one, other) = (begin(&mut table, 1, 1, 0).unwrap(), begin(&mut table, 1, 2, 0).unwrap());
    assert_ne!(one.key, other.key, "concurrent look-alikes have keys of their own");
    table.settle(one.slot, Ending::Lost, 0);
    table.settle(other.slot, Ending::Acknowledged, 0);
    assert_eq!(begin(&mut table, 1, 3, 0).unwrap().key, one.key);
}

#[test]
fn a_full_table_refuses_and_evicts_nothing_until_something_expires() {
    let mut table = Reconciliation::default();
    let slots: Vec<_> = (0..SUBMISSIONS_MAX)
        .map(|number| table.begin(fingerprint(number), key(number as u64), 0).unwrap())
        .collect();
    assert_eq!(table.begin(fingerprint(SUBMISSIONS_MAX), key(9_999), 0), Err(ReconciliationError::Full));
    table.settle(slots[0].slot, Ending::Lost, 0);
    assert_eq!(table.begin(fingerprint(SUBMISSIONS_MAX), key(9_999), 1), Err(ReconciliationError::Full));
    assert!(table.begin(fingerprint(0), key(9_999), 1).unwrap().reused, "a lost key needs no new place");
    table.settle(slots[0].slot, Ending::Lost, 1);
    assert!(!table.begin(fingerprint(SUBMISSIONS_MAX), key(9_999), 1 + TEN_MINUTES_MS).unwrap().reused);
}

fn fingerprint(number: usize) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint[..8].copy_from_slice(&number.to_be_bytes());
    fingerprint
}
