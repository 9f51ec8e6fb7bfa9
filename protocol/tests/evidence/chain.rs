//! The event chain: whatever is done to it shows at the event it was done to.

use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::{Break, Chain, ChainError, EventChain, check_links};
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::{Event, EventKind};
use mesh_protocol::evidence::limits::{MAX_EVENT_DATA_BYTES, MAX_EVENTS};
use proptest::prelude::*;

use crate::fixture::{JOB, chain, value};

fn broken(seq: u64, fault: Break) -> Result<(), ChainError> {
    Err(ChainError::Broken { seq, fault })
}

/// A chain of `outputs` records between `accepted` and `finished`, and what its receipt says.
fn recorded(outputs: usize) -> (Vec<Event>, EventChain) {
    let mut chain = Chain::new(JOB);
    chain.append(1, EventKind::Accepted, Value::Null).unwrap();
    for number in 0..outputs {
        chain.append(2, EventKind::Stdout, value(&format!(r#"{{"text":"{number}"}}"#))).unwrap();
    }
    chain.append(3, EventKind::Finished, Value::Null).unwrap();
    let summary = chain.summary().unwrap();
    (chain.into_events(), summary)
}

/// The hashes of the fixture's first and last event, computed by a program in another language from the description.
#[test]
fn frozen_hashes_are_kept() {
    let chain = chain();
    let hashes = [0, 4].map(|index| chain.events()[index].event_hash.to_string());
    assert_eq!(
        hashes,
        [
            "b03f9a7a60343b4e6ed27c8ba78c2f1101522618af718e2fff4ac51db79d8ea2",
            "f026535545fb42042061ac027e018f013315ca8cc6000af75c45cb1efc80e4ea"
        ]
    );
}

#[test]
fn the_preimage_is_laid_out_as_described() {
    let chain = chain();
    let second = &chain.events()[1];
    let data = r#"{"isolation_class":"gvisor-application-kernel"}"#;
    let expected: Vec<u8> = [
        b"mesh-job-event\0\0".as_slice(),
        &1u64.to_be_bytes(),
        &(JOB.len() as u64).to_be_bytes(),
        JOB.as_bytes(),
        &2u64.to_be_bytes(),
        &1_700_000_000_040u64.to_be_bytes(),
        &7u64.to_be_bytes(),
        b"started",
        &(data.len() as u64).to_be_bytes(),
        data.as_bytes(),
        &32u64.to_be_bytes(),
        chain.events()[0].event_hash.as_bytes(),
    ]
    .concat();
    assert_eq!(second.preimage(JOB), expected);
    assert_eq!(second.event_hash, Digest::of(&expected));
}

#[test]
fn a_chain_belongs_to_one_job() {
    let (events, summary) = recorded(2);
    assert_eq!(summary.check(JOB, &events), Ok(()));
    assert_eq!(summary.check("another", &events), broken(1, Break::Hash));
}

#[test]
fn nothing_follows_finished() {
    let mut chain = chain();
    let error = chain.append(9, EventKind::Stdout, Value::Null).unwrap_err();
    assert_eq!(error, ChainError::Broken { seq: 6, fault: Break::AfterFinished });
    assert_eq!(chain.events().len(), 5);
}

#[test]
fn an_event_that_is_whole_in_itself_must_still_fit_its_place() {
    type Change = fn(&mut Event);
    let misfits: [(Break, Change); 3] = [
        (Break::Sequence, |event| event.seq = 7),
        (Break::HashVersion, |event| event.hash_version = 2),
        (Break::Link, |event| event.prev_hash = None),
    ];
    for (fault, change) in misfits {
        let mut events = chain().into_events();
        change(&mut events[2]);
        events[2].event_hash = Digest::of(&events[2].preimage(JOB));
        assert_eq!(check_links(JOB, &events), broken(3, fault));
    }
}

#[test]
fn a_receipt_that_counts_other_events_is_noticed() {
    let (events, mut summary) = recorded(2);
    summary.events += 1;
    assert_eq!(summary.check(JOB, &events), broken(4, Break::Count));
}

#[test]
fn an_open_chain_has_no_summary() {
    assert_eq!(
        Chain::new(JOB).summary().unwrap_err(),
        ChainError::Broken { seq: 1, fault: Break::Unfinished }
    );
}

#[test]
fn a_chain_that_lost_an_event_or_its_beginning_is_not_complete() {
    assert!(chain().summary().unwrap().complete);
    let mut lossy = chain();
    lossy.note_loss();
    assert!(!lossy.summary().unwrap().complete);

    let mut late = Chain::new(JOB);
    late.append(1, EventKind::Finished, Value::Null).unwrap();
    let mut summary = late.summary().unwrap();
    assert!(!summary.complete);
    assert_eq!(summary.check(JOB, late.events()), Ok(()));
    summary.complete = true;
    assert_eq!(summary.check(JOB, late.events()), broken(1, Break::Beginning));
}

#[test]
fn a_stored_chain_is_continued_as_if_never_interrupted() {
    let mut first = Chain::new(JOB);
    first.append(1, EventKind::Accepted, Value::Null).unwrap();
    let mut resumed = Chain::resume(JOB, first.events().to_vec()).unwrap();
    for chain in [&mut first, &mut resumed] {
        chain.append(2, EventKind::Finished, Value::Null).unwrap();
    }
    assert_eq!(first.events(), resumed.events());
    assert!(Chain::resume("another", first.into_events()).is_err());
}

#[test]
fn a_full_chain_can_still_be_closed() {
    let mut chain = Chain::new(JOB);
    while chain.append(1, EventKind::Stdout, Value::Null).is_ok() {}
    assert_eq!(chain.events().len(), MAX_EVENTS - 1);
    chain.append(2, EventKind::Finished, Value::Null).unwrap();
    assert!(chain.summary().unwrap().check(JOB, chain.events()).is_ok());
}

#[test]
fn data_beyond_its_bound_is_refused() {
    let mut chain = Chain::new(JOB);
    let data = |bytes: usize| Value::Text("x".repeat(bytes - 2));
    let error = chain.append(1, EventKind::Stdout, data(MAX_EVENT_DATA_BYTES + 1)).unwrap_err();
    assert_eq!(error, ChainError::DataTooLarge { bytes: MAX_EVENT_DATA_BYTES + 1 });
    assert!(chain.append(1, EventKind::Stdout, data(MAX_EVENT_DATA_BYTES)).is_ok());
}

#[test]
fn an_event_with_an_unknown_member_is_refused() {
    let mut json = serde_json::to_value(&chain().events()[0]).unwrap();
    assert!(serde_json::from_value::<Event>(json.clone()).is_ok());
    json["note"] = "not covered by the hash".into();
    assert!(serde_json::from_value::<Event>(json).is_err());
}

#[derive(Debug, Clone, Copy)]
enum Tampering {
    Data,
    Time,
    Kind,
    Previous,
    Hash,
    Sequence,
    Version,
}

fn tamper(event: &mut Event, with: Tampering) {
    let other = Digest::of(b"other");
    match with {
        Tampering::Data => event.data = value(r#"{"text":"altered"}"#),
        Tampering::Time => event.ts_ms ^= 1,
        Tampering::Kind => event.kind = EventKind::Violation,
        Tampering::Previous => event.prev_hash = Some(other),
        Tampering::Hash => event.event_hash = other,
        Tampering::Sequence => event.seq += 1,
        Tampering::Version => event.hash_version = 2,
    }
}

fn tamperings() -> impl Strategy<Value = Tampering> {
    use Tampering::{Data, Hash, Kind, Previous, Sequence, Time, Version};
    prop::sample::select(vec![Data, Time, Kind, Previous, Hash, Sequence, Version])
}

fn first_bad(result: Result<(), ChainError>) -> u64 {
    match result {
        Err(ChainError::Broken { seq, .. }) => seq,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn a_changed_event_is_named(outputs in 0usize..12, at in any::<prop::sample::Index>(), with in tamperings()) {
        let (mut events, summary) = recorded(outputs);
        let at = at.index(events.len());
        tamper(&mut events[at], with);
        prop_assert_eq!(first_bad(check_links(JOB, &events)), at as u64 + 1);
        prop_assert_eq!(first_bad(summary.check(JOB, &events)), at as u64 + 1);
    }

    #[test]
    fn a_deleted_event_is_missed_at_its_place(outputs in 0usize..12, at in any::<prop::sample::Index>()) {
        let (mut events, summary) = recorded(outputs);
        let at = at.index(events.len());
        events.remove(at);
        prop_assert_eq!(first_bad(summary.check(JOB, &events)), at as u64 + 1);
    }

    #[test]
    fn two_events_in_each_others_place_are_noticed_at_the_first(outputs in 2usize..12, at in any::<prop::sample::Index>()) {
        let (mut events, summary) = recorded(outputs);
        let at = at.index(events.len() - 1);
        events.swap(at, at + 1);
        prop_assert_eq!(first_bad(summary.check(JOB, &events)), at as u64 + 1);
    }

    #[test]
    fn a_shortened_chain_that_is_closed_again_misses_the_head(outputs in 1usize..12) {
        let (mut events, summary) = recorded(outputs);
        events.truncate(outputs);
        let mut forged = Chain::resume(JOB, events).unwrap();
        forged.append(3, EventKind::Finished, Value::Null).unwrap();
        let last = forged.events().len() as u64;
        prop_assert_eq!(summary.check(JOB, forged.events()), broken(last, Break::Head));
    }
}
