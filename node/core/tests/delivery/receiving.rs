//! The receiver's promises: in order, once, from one session, and bounded whatever a peer sends.

use mesh_node_core::limits;
use mesh_node_core::outbox::{self, Resumed, Take};
use mesh_protocol::delivery::{Chain, Content, Epoch, Gap, Open, Parcel};
use proptest::prelude::*;

use crate::pair::{HOUR_MS, Pair, SENDER, message};

const DAY_MS: u64 = 24 * HOUR_MS;

fn open(epoch: u8, session: u64) -> Open {
    Open { epoch: Epoch([epoch; 16]), next: 1, acked: 0, session }
}

fn parcel(seq: u64, number: u64) -> Parcel {
    Parcel { seq, acked: 0, message: message(number), content: Content::Body(Vec::new()) }
}

fn collect_garbage(pair: &mut Pair) -> usize {
    pair.receiver.commit(|tx, now, _| outbox::collect_garbage(tx, now, 1_000).unwrap())
}

#[test]
fn a_hole_is_not_taken() {
    let mut pair = Pair::new();
    pair.handle_open(open(1, 7));
    assert_eq!(pair.take(7, parcel(2, 2)), Take::OutOfOrder { expected: 1 });
    assert_eq!(pair.ack().mark, 0);
}

#[test]
fn parcels_of_a_replaced_session_are_not_taken() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let late = pair.parcels(7, 1).remove(0);
    pair.connect(8);
    assert_eq!(pair.take(7, late), Take::Stale);
    assert!(!pair.is_applied(1));
}

#[test]
fn nothing_is_taken_from_a_peer_that_opened_no_session() {
    let mut pair = Pair::new();
    assert_eq!(pair.take(7, parcel(1, 1)), Take::Stale);
    assert_eq!(outbox::ack_for(&pair.receiver.disk, SENDER).unwrap(), None);
}

#[test]
fn a_message_is_remembered_for_a_week_in_any_epoch() {
    let mut pair = Pair::new();
    pair.handle_open(open(1, 7));
    pair.take(7, Parcel { acked: 0, ..parcel(1, 1) });
    // The sender knows that it arrived, so age alone decides.
    pair.handle_open(Open { acked: 1, next: 2, ..open(1, 8) });
    pair.receiver.wait(7 * DAY_MS - 1);
    assert_eq!(collect_garbage(&mut pair), 0);
    pair.handle_open(open(2, 9));
    assert_eq!(pair.take(9, parcel(1, 1)), Take::Duplicate);
    pair.receiver.wait(1);
    assert_eq!(collect_garbage(&mut pair), 1);
    assert!(matches!(pair.take(9, parcel(2, 1)), Take::Apply { .. }));
}

#[test]
fn a_message_is_remembered_as_long_as_its_sender_may_send_it_again() {
    let mut pair = Pair::new();
    pair.handle_open(open(1, 7));
    pair.take(7, parcel(1, 1));
    pair.receiver.wait(30 * DAY_MS);
    collect_garbage(&mut pair);
    pair.handle_open(open(2, 8));
    assert_eq!(pair.take(8, parcel(1, 1)), Take::Duplicate);
}

#[test]
fn only_the_epochs_used_last_are_remembered() {
    let mut pair = Pair::new();
    for epoch in 0..50 {
        pair.handle_open(open(epoch, u64::from(epoch)));
        pair.take(u64::from(epoch), parcel(1, u64::from(epoch)));
    }
    let kept = u8::try_from(limits::INBOX_EPOCHS_MAX).unwrap();
    assert_eq!(pair.handle_open(open(50 - kept, 100)).mark, 1);
    assert_eq!(pair.handle_open(open(0, 101)).mark, 0);
}

#[test]
fn reports_of_one_peer_are_bounded() {
    let mut pair = Pair::new();
    pair.handle_open(open(1, 7));
    for seq in 1..=1_000 {
        let gap = Gap { from: seq, to: seq, chain: Chain::START };
        pair.receiver.commit(|tx, now, _| outbox::handle_gap(tx, now, SENDER, 7, gap).unwrap());
    }
    let reports = outbox::reports(&pair.receiver.disk, usize::MAX).unwrap();
    assert_eq!(u64::try_from(reports.len()).unwrap(), limits::DELIVERY_REPORTS_MAX);
    assert_eq!(reports.last().unwrap().to, 1_000);
}

#[test]
fn a_gap_that_does_not_begin_at_the_mark_is_refused() {
    let mut pair = Pair::new();
    pair.handle_open(open(1, 7));
    let mut gap = |from, to| {
        let gap = Gap { from, to, chain: Chain::START };
        pair.receiver.commit(|tx, now, _| outbox::handle_gap(tx, now, SENDER, 7, gap).unwrap())
    };
    assert_eq!(gap(2, 5), Take::OutOfOrder { expected: 1 });
    assert_eq!(gap(1, u64::MAX), Take::Tombstone);
    assert_eq!(gap(1, u64::MAX), Take::Duplicate);
    assert_eq!(pair.take(7, parcel(u64::MAX, 1)), Take::Duplicate);
}

#[test]
fn a_tombstone_moves_the_mark_and_applies_nothing() {
    let mut pair = Pair::new();
    pair.handle_open(open(1, 7));
    let tombstone = Parcel { content: Content::Tombstone, ..parcel(1, 1) };
    assert_eq!(pair.take(7, tombstone), Take::Tombstone);
    assert_eq!(pair.ack().mark, 1);
    let resume = pair.handle_open(open(1, 8));
    assert_eq!(resume.tombstones, 1);
}

/// Anything a peer may send.
#[derive(Debug, Clone)]
enum Hostile {
    Open { epoch: u8, acked: u64, session: u64 },
    Parcel { session: u64, seq: u64, acked: u64, number: u64, buried: bool },
    Gap { session: u64, from: u64, to: u64 },
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..6_u64, any::<u64>()]
}

fn hostile() -> impl Strategy<Value = Hostile> {
    prop_oneof![
        (0..3_u8, number(), 0..3_u64).prop_map(|(epoch, acked, session)| Hostile::Open {
            epoch,
            acked,
            session
        }),
        (0..3_u64, number(), number(), 0..6_u64, any::<bool>()).prop_map(
            |(session, seq, acked, number, buried)| Hostile::Parcel { session, seq, acked, number, buried }
        ),
        (0..3_u64, number(), number()).prop_map(|(session, from, to)| Hostile::Gap { session, from, to }),
    ]
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_each_message_is_applied_once_and_marks_only_rise(
        frames in proptest::collection::vec(hostile(), 0..60)
    ) {
        let mut pair = Pair::new();
        let mut applied = std::collections::BTreeSet::new();
        let mut marks = std::collections::BTreeMap::new();
        for frame in frames {
            match frame {
                Hostile::Open { epoch, acked, session } => {
                    pair.handle_open(Open { acked, ..open(epoch, session) });
                }
                Hostile::Parcel { session, seq, acked, number, buried } => {
                    let content = if buried { Content::Tombstone } else { Content::Body(Vec::new()) };
                    if let Take::Apply { message, .. } = pair.take(session, Parcel { acked, content, ..parcel(seq, number) }) {
                        prop_assert!(applied.insert(message));
                    }
                }
                Hostile::Gap { session, from, to } => {
                    let gap = Gap { from, to, chain: Chain::START };
                    pair.receiver.commit(|tx, now, _| outbox::handle_gap(tx, now, SENDER, session, gap).unwrap());
                }
            }
            if let Some(ack) = outbox::ack_for(&pair.receiver.disk, SENDER).unwrap() {
                let before = marks.insert(ack.epoch, ack.mark);
                prop_assert!(before.is_none_or(|before| before <= ack.mark));
            }
        }
    }

    #[test]
    fn any_cut_of_any_session_still_delivers_everything_once(cuts in proptest::collection::vec((0..6_usize, any::<bool>()), 0..12)) {
        let mut pair = Pair::with_requests(1..=8);
        let mut effects = Vec::new();
        let finish = (8, true);
        for (session, (taken, acked)) in (1..).zip(cuts.into_iter().chain([finish])) {
            let Resumed::Live { send_from, .. } = pair.connect(session) else { panic!("a disk went back") };
            for parcel in pair.parcels(session, send_from).into_iter().take(taken) {
                if let Take::Apply { message, .. } = pair.take(session, parcel) {
                    effects.push(message);
                }
            }
            if acked {
                pair.handle_ack(session, pair.ack());
            }
        }
        prop_assert_eq!(effects, (1..=8).map(message).collect::<Vec<_>>());
        prop_assert_eq!(pair.view().count, 0);
    }
}

#[test]
fn two_peers_do_not_share_marks_or_messages() {
    let mut pair = Pair::new();
    let other = mesh_protocol::id::NodeId::from_bytes([9; 32]);
    pair.handle_open(open(1, 7));
    assert!(matches!(pair.take(7, parcel(1, 1)), Take::Apply { .. }));
    pair.receiver.commit(|tx, now, _| outbox::handle_open(tx, now, other, open(1, 7)).unwrap());
    let taken = pair.receiver.commit(|tx, now, _| outbox::take(tx, now, other, 7, parcel(1, 1)).unwrap());
    assert!(matches!(taken, Take::Apply { .. }));
}
