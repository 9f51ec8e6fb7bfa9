//! The sender's promises: room, order of statuses, deadlines, and never inventing an outcome.

use mesh_node_core::limits;
use mesh_node_core::outbox::{self, Class, NewParcel, PublishError, Resumed, Slot, WithdrawOutcome};
use mesh_node_core::time::NodeTime;
use mesh_protocol::delivery::{Ack, Chain, Epoch, Open, Resume};
use mesh_protocol::id::{MessageId, NodeId};

use crate::pair::{HOUR_MS, Pair, RECEIVER, message, request};

const SLOT: Slot = Slot([5; 16]);

fn status(number: u64) -> NewParcel {
    NewParcel { class: Class::Status, supersedes: Some(SLOT), ..request(number) }
}

fn withdraw(pair: &mut Pair, number: u64) -> WithdrawOutcome {
    pair.sender.commit(|tx, _, _| outbox::withdraw(tx, RECEIVER, message(number)).unwrap())
}

fn never_arrived(resumed: &Resumed) -> &[MessageId] {
    match resumed {
        Resumed::Live { never_arrived, .. } => never_arrived,
        Resumed::RolledBack { .. } | Resumed::Stale => &[],
    }
}

/// Publishes bodies of the largest size until one is refused.
fn fill(pair: &mut Pair) -> PublishError {
    (1_000..2_000)
        .find_map(|number| {
            let body = vec![0; limits::PARCEL_BODY_BYTES_MAX];
            pair.publish(NewParcel { body, ..request(number) }).err()
        })
        .unwrap()
}

#[test]
fn a_full_outbox_refuses_requests_with_numbers() {
    let mut pair = Pair::with_requests([1]);
    pair.sender.wait(90);
    let PublishError::Full { count, bytes, oldest_age_ms, peer } = fill(&mut pair) else { panic!() };
    assert_eq!((peer, count, oldest_age_ms), (RECEIVER, 17, 90));
    assert!(bytes <= limits::OUTBOX_BYTES_MAX);
    assert_eq!(pair.view().count, 17);
}

#[test]
fn a_full_outbox_of_one_peer_leaves_room_for_others() {
    let mut pair = Pair::new();
    fill(&mut pair);
    let other = NodeId::from_bytes([9; 32]);
    let body = vec![0; limits::PARCEL_BODY_BYTES_MAX];
    let parcel = NewParcel { body, ..request(1) };
    let queued = pair.sender.commit(|tx, now, rng| outbox::publish(tx, now, rng, other, parcel)).unwrap();
    assert_eq!((queued.seq, queued.depth), (Some(1), 1));
}

#[test]
fn a_full_outbox_still_takes_withdrawals_and_reserved_answers() {
    let mut pair = Pair::new();
    pair.sender.commit(|tx, now, rng| outbox::reserve(tx, now, rng, RECEIVER, 1_000).unwrap());
    fill(&mut pair);
    pair.publish(NewParcel { class: Class::Control, ..request(1) }).unwrap();
    let terminal = Class::Terminal { reserved: 1_000 };
    pair.publish(NewParcel { class: terminal, body: vec![0; 70_000], ..request(2) }).unwrap();
    // The next has no reservation of its own.
    let second = pair.publish(NewParcel {
        class: terminal,
        body: vec![0; limits::PARCEL_BODY_BYTES_MAX],
        ..request(3)
    });
    assert!(matches!(second, Err(PublishError::Full { .. })));
}

#[test]
fn released_room_can_be_used_again() {
    let mut pair = Pair::new();
    let all = limits::OUTBOX_BYTES_MAX;
    pair.sender.commit(|tx, now, rng| outbox::reserve(tx, now, rng, RECEIVER, all).unwrap());
    assert!(matches!(pair.publish(request(1)), Err(PublishError::Full { .. })));
    pair.sender.commit(|tx, _, _| outbox::release(tx, RECEIVER, all).unwrap());
    pair.publish(request(1)).unwrap();
}

#[test]
fn a_body_longer_than_a_parcel_is_refused() {
    let body = vec![0; limits::PARCEL_BODY_BYTES_MAX + 1];
    let refused = Pair::new().publish(NewParcel { body, ..request(1) });
    assert!(matches!(refused, Err(PublishError::TooLong { .. })));
}

#[test]
fn a_thousand_statuses_of_one_slot_are_two_parcels() {
    let mut pair = Pair::new();
    for number in 1..=1_000 {
        pair.publish(status(number)).unwrap();
    }
    assert_eq!(pair.view().count, 2);
    assert_eq!(pair.deliver(7), [message(1)]);
    // The acknowledgement of the first gave the newest its place, in the same session.
    assert_eq!(pair.parcels(7, 2).first().unwrap().message, message(1_000));
    assert_eq!(pair.deliver(8), [message(1_000)]);
    assert_eq!(pair.view().count, 0);
}

#[test]
fn a_terminal_message_drops_the_status_that_waits() {
    let mut pair = Pair::new();
    pair.publish(status(1)).unwrap();
    pair.publish(status(2)).unwrap();
    let terminal = Class::Terminal { reserved: 0 };
    let queued = pair.publish(NewParcel { class: terminal, supersedes: Some(SLOT), ..request(3) }).unwrap();
    assert_eq!((queued.replaced, queued.depth), (Some(message(2)), 2));
    assert_eq!(pair.deliver(7), [message(1), message(3)]);
    assert_eq!(pair.deliver(8), []);
}

#[test]
fn what_is_published_without_a_session_was_never_sent() {
    let mut pair = Pair::with_requests([1]);
    pair.open(7);
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::NeverSent);
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::Unknown);
}

#[test]
fn what_is_published_in_a_session_may_have_been_sent() {
    let mut pair = Pair::new();
    pair.connect(7);
    assert!(pair.publish(request(1)).unwrap().offered);
    pair.sender.commit(|tx, _, _| outbox::forget_sessions(tx).unwrap());
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::Offered);
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::Offered);
}

#[test]
fn a_withdrawn_parcel_that_the_next_session_does_not_know_never_arrived() {
    let mut pair = Pair::with_requests([1, 2]);
    pair.connect(7);
    assert_eq!(withdraw(&mut pair, 2), WithdrawOutcome::Offered);
    pair.take(7, pair.parcels(7, 1).remove(0));
    let resumed = pair.connect(8);
    assert_eq!(never_arrived(&resumed), [message(2)]);
    assert_eq!(pair.deliver(9), []);
    assert!(!pair.is_applied(2));
    assert_eq!((pair.view().count, pair.view().bytes), (0, 0));
}

#[test]
fn a_withdrawn_parcel_that_is_acknowledged_did_arrive() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::Offered);
    pair.take(7, pair.parcels(7, 1).remove(0));
    let delivered = pair.handle_ack(7, pair.ack());
    assert!(delivered.first().unwrap().withdrawn);
    assert!(pair.is_applied(1));
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::Acknowledged);
}

#[test]
fn nothing_is_claimed_of_parcels_that_a_lost_disk_may_have_sent() {
    let mut pair = Pair::with_requests([1, 2]);
    let backup = pair.sender.clone();
    pair.deliver(7);
    pair.sender = backup;
    assert!(matches!(pair.connect(8), Resumed::RolledBack { .. }));
    // Offered nowhere in the new epoch, and yet it ran.
    assert_eq!(withdraw(&mut pair, 2), WithdrawOutcome::Offered);
    assert_eq!(never_arrived(&pair.connect(9)), []);
}

#[test]
fn nothing_is_claimed_of_parcels_that_a_restored_receiver_may_have_run() {
    let mut pair = Pair::with_requests([1]);
    let backup = pair.receiver.clone();
    pair.deliver(7);
    pair.receiver = backup;
    pair.connect(8);
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::Offered);
    assert_eq!(never_arrived(&pair.connect(9)), []);
}

#[test]
fn a_deadline_ends_with_the_acknowledgement() {
    let mut pair = Pair::new();
    pair.publish(NewParcel { deadline_ms: Some(100), ..request(1) }).unwrap();
    assert_eq!(outbox::next_deadline(&pair.sender.disk).unwrap(), Some(NodeTime(1_100)));
    pair.deliver(7);
    pair.sender.wait(HOUR_MS);
    assert_eq!(outbox::due(&pair.sender.disk, pair.sender.now, 10).unwrap(), []);
    assert_eq!(outbox::next_deadline(&pair.sender.disk).unwrap(), None);
}

#[test]
fn deadlines_fall_due_in_order_and_not_before_their_time() {
    let mut pair = Pair::new();
    for (number, deadline_ms) in [(1, 300), (2, 100), (3, 200)] {
        pair.publish(NewParcel { deadline_ms: Some(deadline_ms), ..request(number) }).unwrap();
    }
    pair.sender.wait(200);
    let due = outbox::due(&pair.sender.disk, pair.sender.now, 10).unwrap();
    assert_eq!(due.iter().map(|due| due.message).collect::<Vec<_>>(), [message(2), message(3)]);
}

#[test]
fn acks_of_other_sessions_epochs_and_parcels_never_offered_change_nothing() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let good = Ack { epoch: pair.view().epoch, mark: 1 };
    assert_eq!(pair.handle_ack(6, good), []);
    assert_eq!(pair.handle_ack(7, Ack { epoch: Epoch([0; 16]), ..good }), []);
    assert_eq!(pair.handle_ack(7, Ack { mark: u64::MAX, ..good }), []);
    assert_eq!(pair.view().acked, 0);
    assert_eq!(pair.handle_ack(7, good).len(), 1);
}

#[test]
fn a_resume_of_another_session_is_stale() {
    let mut pair = Pair::with_requests([1]);
    let open = pair.open(7);
    let resume = pair.handle_open(open);
    pair.open(8);
    assert_eq!(pair.handle_resume(7, resume), Resumed::Stale);
}

#[test]
fn a_peer_that_claims_everything_costs_an_epoch_and_loses_nothing() {
    let mut pair = Pair::with_requests([1, 2]);
    for session in 10..20 {
        let open = pair.open(session);
        let lie = Resume {
            epoch: open.epoch,
            mark: u64::MAX,
            chain: Chain::START,
            tombstones: u64::MAX,
            before: None,
        };
        assert!(matches!(pair.handle_resume(session, lie), Resumed::RolledBack { .. }));
    }
    assert_eq!(pair.view().attempts, 10);
    assert_eq!(pair.deliver(7), [message(1), message(2)]);
}

#[test]
fn a_peer_that_claims_everything_twice_in_a_session_is_not_believed() {
    let mut pair = Pair::with_requests([1]);
    let lie =
        |open: Open| Resume { epoch: open.epoch, mark: 9, chain: Chain::START, tombstones: 0, before: None };
    let open = pair.open(7);
    let Resumed::RolledBack { epoch, requeued, .. } = pair.handle_resume(7, lie(open)) else { panic!() };
    assert_eq!(requeued, [(message(1), 1)]);
    let open = pair.open(7);
    assert_eq!(open.epoch, epoch);
    assert_eq!(pair.handle_resume(7, lie(open)), Resumed::Stale);
    assert_eq!(pair.view().epoch, epoch);
}

#[test]
fn a_withdrawn_status_gives_its_slot_to_the_one_behind_in_a_new_epoch() {
    let mut pair = Pair::new();
    pair.publish(status(1)).unwrap();
    pair.publish(status(2)).unwrap();
    let backup = pair.sender.clone();
    pair.deliver(7);
    pair.sender = backup;
    withdraw(&mut pair, 1);
    assert!(matches!(pair.connect(8), Resumed::RolledBack { .. }));
    assert_eq!(pair.deliver(9), [message(2)]);
    assert_eq!((pair.view().count, pair.view().bytes), (0, 0));
    pair.publish(status(3)).unwrap();
    assert_eq!(pair.deliver(10), [message(3)]);
}

#[test]
fn acknowledged_parcels_are_forgotten_after_their_time_and_not_before() {
    let mut pair = Pair::with_requests([1]);
    pair.deliver(7);
    let with_parcel = pair.sender.disk.len();
    pair.sender.wait(HOUR_MS - 1);
    pair.sender.commit(|tx, now, _| outbox::collect_garbage(tx, now, 100).unwrap());
    assert_eq!(pair.sender.disk.len(), with_parcel);
    pair.sender.wait(limits::RETAINED_STEP_MS + 1);
    pair.sender.commit(|tx, now, _| outbox::collect_garbage(tx, now, 100).unwrap());
    // The parcel and its place are gone; the head and the totals stay.
    assert_eq!(pair.sender.disk.len(), 2);
    assert_eq!(withdraw(&mut pair, 1), WithdrawOutcome::Unknown);
}

#[test]
fn discarding_says_what_may_have_run_and_leaves_nothing() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    pair.sender.commit(|tx, _, _| outbox::session_lost(tx, RECEIVER, 7).unwrap());
    pair.publish(NewParcel { deadline_ms: Some(5), ..request(2) }).unwrap();
    pair.publish(status(3)).unwrap();
    pair.publish(status(4)).unwrap();
    let discarded = pair.sender.commit(|tx, _, rng| outbox::discard(tx, rng, RECEIVER).unwrap());
    let discarded: Vec<_> = discarded.iter().map(|one| (one.message, one.may_have_run)).collect();
    assert_eq!(discarded, [(message(1), true), (message(2), false), (message(3), false)]);
    assert_eq!(pair.sender.disk.len(), 2);
    assert_eq!((pair.view().count, pair.view().bytes), (0, 0));
    pair.publish(request(5)).unwrap();
    assert_eq!(pair.deliver(8), [message(5)]);
}

#[test]
fn failures_are_counted_until_a_session_lives() {
    let mut pair = Pair::with_requests([1]);
    let long = "x".repeat(10_000);
    pair.sender.commit(|tx, _, _| outbox::note_failure(tx, RECEIVER, &long).unwrap());
    assert_eq!(pair.view().attempts, 1);
    assert_eq!(pair.view().last_error.unwrap().len(), limits::LAST_ERROR_CHARS_MAX);
    pair.connect(7);
    assert_eq!((pair.view().attempts, pair.view().last_error), (0, None));
}

#[test]
fn a_sending_task_gets_no_more_than_it_asked_for_but_always_something() {
    let mut pair = Pair::with_requests(1..=100);
    pair.connect(7);
    let next = |count, bytes| {
        outbox::next_parcels(&pair.sender.disk, RECEIVER, 7, 1, count, bytes).unwrap().unwrap().len()
    };
    assert_eq!(next(40, u64::MAX), 40);
    assert_eq!(next(40, 1), 1);
    assert_eq!(next(1_000, u64::MAX), 100);
    assert_eq!(
        outbox::next_parcels(&pair.sender.disk, RECEIVER, 6, 1, 10, 10).unwrap(),
        None,
        "another session"
    );
}
