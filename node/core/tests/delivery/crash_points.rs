//! Where a machine may stop, and what is true afterwards. The names say which point of the usual list it is: S for the
//! sender, R for the receiver, L for the link.

use mesh_node_core::outbox::{
    self, BlockReason, PublishError, ReportKind, Resumed, Side, Take, WithdrawOutcome,
};
use mesh_protocol::delivery::{Content, Resume};

use crate::pair::{HOUR_MS, Node, Pair, RECEIVER, SENDER, apply, message, request, take_and_apply};

fn report_kinds(node: &Node) -> Vec<(Side, ReportKind, u64, u64)> {
    let reports = outbox::reports(&node.disk, 100).unwrap();
    reports.into_iter().map(|report| (report.side, report.kind, report.from, report.to)).collect()
}

#[test]
fn s1_a_crash_before_the_publish_commit_leaves_nothing_to_send() {
    let mut pair = Pair::with_requests([1]);
    pair.sender.crash_in(|tx, now, rng| outbox::publish(tx, now, rng, RECEIVER, request(2)).unwrap());
    assert_eq!(pair.deliver(7), [message(1)]);
    assert!(!pair.is_applied(2));
}

#[test]
fn s2_publishing_again_after_an_unknown_outcome_finds_the_same_place() {
    let mut pair = Pair::new();
    let first = pair.publish(request(1)).unwrap();
    let again = pair.publish(request(1)).unwrap();
    assert_eq!(first, again);
    assert_eq!(pair.view().count, 1);
}

#[test]
fn s5_a_parcel_that_was_never_sent_goes_with_the_next_session() {
    let mut pair = Pair::with_requests([1, 2]);
    pair.connect(7);
    pair.sender.commit(|tx, _, _| outbox::forget_sessions(tx).unwrap());
    assert_eq!(pair.deliver(8), [message(1), message(2)]);
}

#[test]
fn s6_what_arrived_without_its_ack_is_settled_by_the_next_session() {
    let mut pair = Pair::with_requests([1, 2]);
    pair.connect(7);
    let sent = pair.parcels(7, 1);
    pair.take(7, sent.into_iter().next().unwrap());
    let Resumed::Live { delivered, send_from, gap: None, .. } = pair.connect(8) else { panic!() };
    assert_eq!(delivered.iter().map(|delivered| delivered.message).collect::<Vec<_>>(), [message(1)]);
    assert_eq!(send_from, 2);
}

#[test]
fn s7_an_ack_whose_commit_was_lost_settles_when_it_comes_again() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    pair.take(7, pair.parcels(7, 1).remove(0));
    let ack = pair.ack();
    pair.sender.crash_in(|tx, now, _| outbox::handle_ack(tx, now, RECEIVER, 7, ack).unwrap());
    assert_eq!(pair.view().count, 1);
    assert_eq!(pair.handle_ack(7, ack).len(), 1);
    assert_eq!(pair.view().count, 0);
}

#[test]
fn s8_a_restored_sender_begins_a_new_epoch_and_nothing_is_applied_twice() {
    let mut pair = Pair::with_requests([1, 2]);
    let backup = pair.sender.clone();
    pair.publish(request(3)).unwrap();
    pair.deliver(7);
    pair.sender = backup;
    pair.publish(request(4)).unwrap();
    let old_epoch = pair.view().epoch;
    let Resumed::RolledBack { report, .. } = pair.connect(8) else { panic!("it went unnoticed") };
    assert_eq!((report.kind, report.from, report.to), (ReportKind::SenderRolledBack, 1, 3));
    assert_ne!(pair.view().epoch, old_epoch);
    let Resumed::Live { send_from: 1, .. } = pair.connect(9) else { panic!() };
    let taken: Vec<Take> = pair.parcels(9, 1).into_iter().map(|parcel| pair.take(9, parcel)).collect();
    assert!(matches!(taken.as_slice(), [Take::Duplicate, Take::Duplicate, Take::Apply { .. }]), "{taken:?}");
    assert!(pair.is_applied(4));
    assert_eq!(report_kinds(&pair.receiver), [(Side::Receiving, ReportKind::NewEpoch, 0, 0)]);
}

#[test]
fn s8_other_messages_in_the_same_places_are_found_by_their_chain() {
    let mut pair = Pair::new();
    pair.connect(7);
    let snapshot = pair.sender.clone();
    pair.publish(request(1)).unwrap();
    pair.take(7, pair.parcels(7, 1).remove(0));
    // A machine restored with its memory believes in its session and goes on offering.
    pair.sender = snapshot;
    pair.publish(request(2)).unwrap();
    assert_eq!(pair.view().offered, 1);
    assert!(matches!(pair.connect(8), Resumed::RolledBack { .. }));
    assert_eq!(pair.deliver(9), [message(2)]);
    assert!(pair.is_applied(2));
}

#[test]
fn s8_a_disk_from_before_the_first_message_is_found_too() {
    let mut pair = Pair::new();
    let backup = pair.sender.clone();
    pair.publish(request(1)).unwrap();
    pair.publish(request(2)).unwrap();
    pair.deliver(7);
    let forgotten = pair.view().epoch;
    pair.sender = Node::restored(&backup);
    pair.publish(request(3)).unwrap();
    assert_ne!(pair.view().epoch, forgotten);
    let Resumed::RolledBack { report, .. } = pair.connect(8) else { panic!("it went unnoticed") };
    assert_eq!((report.kind, report.epoch), (ReportKind::SenderRolledBack, forgotten));
    assert_eq!((report.from, report.to), (1, 2));
    // The new numbering is opened on the same stream, and that session lives.
    assert_eq!(pair.deliver(8), [message(3)]);
    // It was found once: the sessions after it say nothing.
    pair.publish(request(4)).unwrap();
    assert_eq!(pair.deliver(9), [message(4)]);
    assert_eq!(report_kinds(&pair.sender), [(Side::Sending, ReportKind::SenderRolledBack, 1, 2)]);
}

#[test]
fn s8_a_numbering_nothing_was_taken_from_is_nobodys_loss() {
    let mut pair = Pair::new();
    let before = pair.sender.clone();
    pair.connect(7);
    // Neither knows of a message in it, so there is nothing to be sorry for.
    pair.sender = Node::restored(&before);
    pair.publish(request(1)).unwrap();
    assert_eq!(pair.deliver(8), [message(1)]);
    assert_eq!(report_kinds(&pair.sender), []);
}

#[test]
fn s8_outboxes_that_were_thrown_away_are_nobodys_loss() {
    let mut pair = Pair::with_requests([1]);
    pair.deliver(7);
    for number in 2..30 {
        pair.publish(request(number)).unwrap();
        pair.sender.commit(|tx, _, rng| outbox::discard(tx, rng, RECEIVER).unwrap());
    }
    pair.publish(request(30)).unwrap();
    assert_eq!(pair.deliver(8), [message(30)]);
    assert_eq!(report_kinds(&pair.sender), []);
}

#[test]
fn s8_two_losses_found_at_once_are_both_reported() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let backup = pair.sender.clone();
    pair.publish(request(2)).unwrap();
    pair.deliver(8);
    pair.sender.commit(|tx, _, rng| outbox::discard(tx, rng, RECEIVER).unwrap());
    pair.publish(request(3)).unwrap();
    pair.deliver(9);
    pair.sender = Node::restored(&backup);
    assert!(matches!(pair.connect(10), Resumed::RolledBack { .. }));
    let ranges: Vec<_> = report_kinds(&pair.sender).into_iter().map(|(_, _, from, to)| (from, to)).collect();
    assert_eq!(ranges, [(1, 1), (1, 2)]);
}

#[test]
fn s8_a_receiver_that_remembers_less_does_not_accuse_the_sender() {
    let mut pair = Pair::with_requests([1]);
    pair.deliver(7);
    let old = pair.receiver.clone();
    for session in [8, 10, 12] {
        let mut offered = pair.open(session);
        offered.acked = 0;
        let lie = Resume { mark: u64::MAX, ..pair.handle_open(offered) };
        assert!(matches!(pair.handle_resume(session, lie), Resumed::RolledBack { .. }));
        pair.publish(request(session)).unwrap();
        pair.deliver(session + 1);
    }
    // It knows the first numbering only, and the sender is in its fourth.
    pair.receiver = old;
    let found = report_kinds(&pair.sender).len();
    let Resumed::Live { report: Some(report), .. } = pair.connect(20) else { panic!("it is the other disk") };
    assert_eq!(report.kind, ReportKind::ReceiverRolledBack);
    pair.publish(request(20)).unwrap();
    pair.deliver(21);
    let after = report_kinds(&pair.sender).split_off(found);
    assert!(after.iter().all(|(_, kind, ..)| *kind != ReportKind::SenderRolledBack), "{after:?}");
}

#[test]
fn s8_a_restored_sender_does_not_call_a_tombstone_delivered() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let backup = pair.sender.clone();
    pair.sender.commit(|tx, _, _| outbox::withdraw(tx, RECEIVER, message(1)).unwrap());
    pair.deliver(8);
    assert!(!pair.is_applied(1));
    pair.sender = backup;
    assert!(matches!(pair.connect(9), Resumed::RolledBack { .. }));
    assert_eq!(pair.deliver(10), [message(1)]);
    assert!(pair.is_applied(1));
}

#[test]
fn r1_a_parcel_that_was_read_but_not_committed_comes_again() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let parcel = pair.parcels(7, 1).remove(0);
    pair.receiver.crash_in(|tx, now, _| take_and_apply(tx, now, 7, parcel));
    assert!(!pair.is_applied(1));
    assert_eq!(pair.deliver(8), [message(1)]);
    assert!(pair.is_applied(1));
}

#[test]
fn r3_a_parcel_that_was_committed_but_not_acknowledged_is_not_applied_again() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let parcel = pair.parcels(7, 1).remove(0);
    assert!(matches!(pair.take(7, parcel.clone()), Take::Apply { .. }));
    assert_eq!(pair.take(7, parcel), Take::Duplicate);
    assert_eq!(pair.ack().mark, 1);
}

#[test]
fn r4_a_lost_ack_is_covered_by_the_next_one() {
    let mut pair = Pair::with_requests([1, 2]);
    pair.connect(7);
    for parcel in pair.parcels(7, 1) {
        pair.take(7, parcel);
    }
    let ack = pair.ack();
    assert_eq!(pair.handle_ack(7, ack).len(), 2);
    assert!(pair.handle_ack(7, ack).is_empty());
}

#[test]
fn r8_an_effect_and_its_answer_are_in_one_commit_or_in_none() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let parcel = pair.parcels(7, 1).remove(0);
    pair.receiver.crash_in(|tx, now, rng| {
        take_and_apply(tx, now, 7, parcel.clone());
        outbox::publish(tx, now, rng, SENDER, request(100)).unwrap()
    });
    assert!(!pair.is_applied(1));
    assert_eq!(outbox::depth(&pair.receiver.disk, pair.receiver.now, SENDER).unwrap(), None);
    pair.receiver.commit(|tx, now, rng| {
        take_and_apply(tx, now, 7, parcel);
        outbox::publish(tx, now, rng, SENDER, request(100)).unwrap()
    });
    assert!(pair.is_applied(1));
    assert_eq!(outbox::depth(&pair.receiver.disk, pair.receiver.now, SENDER).unwrap().unwrap().count, 1);
}

#[test]
fn r9_a_restored_receiver_gets_again_what_is_kept() {
    let mut pair = Pair::with_requests([1]);
    pair.deliver(7);
    let backup = pair.receiver.clone();
    pair.publish(request(2)).unwrap();
    pair.deliver(8);
    pair.receiver = backup;
    assert!(!pair.is_applied(2));
    assert_eq!(pair.deliver(9), [message(2)]);
    assert!(pair.is_applied(2));
    assert_eq!(report_kinds(&pair.sender), [(Side::Sending, ReportKind::ReceiverRolledBack, 2, 2)]);
    assert_eq!(report_kinds(&pair.receiver), [(Side::Receiving, ReportKind::ReceiverRolledBack, 2, 2)]);
}

#[test]
fn r9_what_is_no_longer_kept_is_a_gap_with_the_same_range_on_both_sides() {
    let mut pair = Pair::with_requests([1]);
    pair.deliver(7);
    let backup = pair.receiver.clone();
    pair.publish(request(2)).unwrap();
    pair.publish(request(3)).unwrap();
    pair.deliver(8);
    pair.sender.wait(2 * HOUR_MS);
    pair.publish(request(4)).unwrap();
    pair.deliver(9);
    pair.receiver = backup;
    // The session breaks before the gap arrives: the next one brings it, and it is recorded once.
    let Resumed::Live { gap: Some(gap), send_from: 4, .. } = pair.connect(10) else { panic!("no gap") };
    assert_eq!((gap.from, gap.to), (2, 3));
    assert_eq!(pair.deliver(11), [message(4)]);
    assert!(pair.is_applied(4));
    let gaps = |node| report_kinds(node).into_iter().filter(|(_, kind, ..)| *kind == ReportKind::Gap);
    assert_eq!(gaps(&pair.sender).collect::<Vec<_>>(), [(Side::Sending, ReportKind::Gap, 2, 3)]);
    assert_eq!(gaps(&pair.receiver).collect::<Vec<_>>(), [(Side::Receiving, ReportKind::Gap, 2, 3)]);
    pair.publish(request(5)).unwrap();
    assert_eq!(pair.deliver(12), [message(5)]);
}

#[test]
fn l1_a_lost_connection_is_resumed_where_it_broke() {
    let mut pair = Pair::with_requests(1..=5);
    pair.connect(7);
    for parcel in pair.parcels(7, 1).into_iter().take(2) {
        pair.take(7, parcel);
    }
    pair.sender.commit(|tx, _, _| outbox::session_lost(tx, RECEIVER, 7).unwrap());
    assert!(!pair.view().live);
    let Resumed::Live { send_from: 3, .. } = pair.connect(8) else { panic!() };
}

#[test]
fn l2_rows_of_a_blocked_peer_stay_and_are_not_sent() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    pair.sender.commit(|tx, _, rng| {
        outbox::set_blocked(tx, rng, RECEIVER, BlockReason::Revoked).unwrap();
    });
    assert!(pair.parcels(7, 1).is_empty());
    let refused = pair.publish(request(2));
    assert!(matches!(refused, Err(PublishError::Blocked { reason: BlockReason::Revoked, .. })));
    assert_eq!(pair.view().count, 1);
    pair.sender.commit(|tx, _, _| outbox::unblock(tx, RECEIVER).unwrap());
    assert_eq!(pair.deliver(8), [message(1)]);
}

#[test]
fn l3_a_message_that_expires_before_it_is_sent_leaves_its_place() {
    let mut pair = Pair::with_requests([1]);
    pair.publish(outbox::NewParcel { deadline_ms: Some(500), ..request(2) }).unwrap();
    pair.publish(request(3)).unwrap();
    pair.sender.wait(500);
    let due = outbox::due(&pair.sender.disk, pair.sender.now, 10).unwrap();
    assert_eq!(due.iter().map(|due| due.message).collect::<Vec<_>>(), [message(2)]);
    let outcome = pair.sender.commit(|tx, _, _| outbox::withdraw(tx, RECEIVER, message(2)).unwrap());
    assert_eq!(outcome, WithdrawOutcome::NeverSent);
    pair.connect(7);
    let contents: Vec<bool> =
        pair.parcels(7, 1).into_iter().map(|parcel| parcel.content == Content::Tombstone).collect();
    assert_eq!(contents, [false, true, false]);
    assert_eq!(pair.deliver(8), [message(1), message(3)]);
}

#[test]
fn an_event_that_fails_after_taking_leaves_the_parcel_untaken() {
    let mut pair = Pair::with_requests([1]);
    pair.connect(7);
    let parcel = pair.parcels(7, 1).remove(0);
    let mark_before = pair.ack().mark;
    pair.receiver.crash_in(|tx, now, _| {
        take_and_apply(tx, now, 7, parcel);
        apply(tx, message(9));
    });
    assert_eq!(pair.ack().mark, mark_before);
    assert_eq!(pair.deliver(8), [message(1)], "untaken, it comes again");
    assert!(!pair.is_applied(9));
}
