//! Suspicion, verdicts and what withdraws them, on one machine fed by hand.

use mesh_node_core::membership::{Input, Output};
use mesh_node_core::time::NodeTime;
use mesh_protocol::peer::PeerState;
use mesh_protocol::probe::{Probe, Rumour, Word};
use mesh_protocol::record::RecordVersion;
use mesh_protocol::sync::IdPrefix;

use crate::bench::{Bench, OTHER, PEER, id, record};

fn prefix(n: u8) -> IdPrefix {
    id(n).as_bytes()[..8].try_into().unwrap()
}

/// What was sent to a peer, decoded.
fn sent_to(outputs: &[Output], peer: u8) -> Vec<Probe> {
    let to_it = outputs.iter().filter_map(|output| match output {
        Output::Send { to, bytes } if *to == id(peer) => Some(bytes),
        _ => None,
    });
    to_it.map(|bytes| Probe::decode(bytes).unwrap()).collect()
}

fn datagram(bench: &mut Bench, from: u8, probe: &Probe) -> Vec<Output> {
    bench.feed(Input::Datagram { from: id(from), bytes: probe.encode() })
}

#[test]
fn what_seemed_to_expire_during_sleep_did_not() {
    let mut bench = Bench::with_two_links();
    bench.pass(3_500, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
    bench.now += 300_000;
    bench.feed(Input::Wake);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
    bench.pass(15_000, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect, "its link may still have to be dialled anew");
    bench.pass(20_000, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Unreachable);
}

#[test]
fn a_peer_that_answers_a_helper_is_kept_alive_and_the_direct_failure_is_shown() {
    let mut bench = Bench::with_two_links();
    bench.helpers_say = Some(Word::Answers);
    bench.pass(60_000, &[OTHER]);
    let view = bench.peer(PEER);
    assert_eq!(view.state, PeerState::Alive);
    assert!(view.cause.contains("does not answer this node"), "{}", view.cause);
    assert!(view.last_error.is_some_and(|error| error.text.contains("did not answer")));
    assert!(view.seen_by.iter().any(|seen| seen.node == id(OTHER) && seen.answers));
    bench.pass(5_000, &[PEER, OTHER]);
    assert_eq!(bench.peer(PEER).cause, "it answered a probe", "a direct answer clears it");
    bench.helpers_say = Some(Word::Silent);
    bench.pass(60_000, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Unreachable);
}

#[test]
fn an_unreachable_peer_is_shown_with_who_reaches_it() {
    let mut bench = Bench::with_two_links();
    bench.helpers_say = Some(Word::Answers);
    bench.feed(Input::LinkDown { peer: id(PEER), cause: "idle for 15 s".to_owned() });
    for _ in 0..20 {
        bench.pass(3_000, &[OTHER]);
        let failure = mesh_node_core::links::DialFailure {
            kind: mesh_node_core::links::FailureKind::Passing,
            text: "no answer".to_owned(),
            address: None,
        };
        bench.feed_answered(Input::DialFailed { peer: id(PEER), failure }, &[OTHER]);
    }
    let view = bench.peer(PEER);
    assert_eq!(view.state, PeerState::Unreachable, "what others reach is not reached from here");
    assert!(view.seen_by.iter().any(|seen| seen.node == id(OTHER) && seen.answers), "{:?}", view.seen_by);
}

#[test]
fn a_node_that_is_asked_about_another_one_always_reports() {
    let mut bench = Bench::with_two_links();
    bench.pass(500, &[PEER, OTHER]);
    let inquire = |node| Probe::Inquire { seq: 70, node };
    let asked = datagram(&mut bench, OTHER, &inquire(id(PEER)));
    let Some(Probe::Ping { seq, standing }) = sent_to(&asked, PEER).pop() else { unreachable!("{asked:?}") };
    let answered = datagram(&mut bench, PEER, &Probe::Ack { seq, standing });
    assert_eq!(sent_to(&answered, OTHER), [Probe::Report { seq: 70, word: Word::Answers }]);

    datagram(&mut bench, OTHER, &inquire(id(PEER)));
    let outputs = bench.pass(450, &[OTHER]);
    assert!(sent_to(&outputs, OTHER).contains(&Probe::Report { seq: 70, word: Word::Silent }), "{outputs:?}");

    let stranger = datagram(&mut bench, OTHER, &inquire(id(77)));
    assert_eq!(sent_to(&stranger, OTHER), [Probe::Report { seq: 70, word: Word::Unasked }]);
}

#[test]
fn a_flood_of_inquiries_is_answered_and_not_kept() {
    let mut bench = Bench::with_two_links();
    let mut pings = 0;
    for seq in 0..1_000 {
        let outputs = datagram(&mut bench, OTHER, &Probe::Inquire { seq, node: id(PEER) });
        pings += sent_to(&outputs, PEER).len();
    }
    assert_eq!(pings, 64);
}

#[test]
fn reports_nobody_asked_for_change_nothing() {
    let mut bench = Bench::with_two_links();
    bench.pass(3_500, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
    for seq in 0..1_000 {
        datagram(&mut bench, PEER, &Probe::Report { seq, word: Word::Answers });
    }
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
}

#[test]
fn a_node_that_hears_no_reports_doubts_its_own_hearing_until_it_hears_again() {
    let doubt_after = |answering: &[u8]| {
        let mut bench = Bench::with_two_links();
        let doubt = |bench: &Bench| bench.machine.view(NodeTime(bench.now)).doubt;
        bench.pass(4_000, answering);
        let doubted = doubt(&bench);
        bench.pass(200_000, &[PEER, OTHER]);
        assert_eq!(doubt(&bench), 0);
        doubted
    };
    assert_eq!(doubt_after(&[OTHER]), 0, "a report that says nothing good is one");
    assert!((1..=8).contains(&doubt_after(&[])));
}

/// A bench in a mesh of forty, two of them linked.
fn large() -> Bench {
    let mut bench = Bench::with_two_links();
    for n in 3..=42 {
        bench.hear(OTHER, record(n, 1, 1));
    }
    bench
}

#[test]
fn a_rumour_is_kept_with_its_observer_passed_on_and_judges_nobody() {
    let mut bench = large();
    let rumour = |answers, count| Rumour { node: prefix(20), observer: prefix(21), epoch: 1, count, answers };
    let outputs = datagram(&mut bench, OTHER, &Probe::Hearsay(vec![rumour(false, 5)]));
    assert!(outputs.contains(&Output::Changed { peer: id(20) }));
    let view = bench.peer(20);
    assert_eq!(view.state, PeerState::Known);
    assert_eq!(
        view.seen_by.iter().map(|seen| (seen.node, seen.answers)).collect::<Vec<_>>(),
        [(id(21), false)]
    );
    let outputs = bench.pass(1_000, &[PEER, OTHER]);
    let passed_on = |peer: u8| sent_to(&outputs, peer).iter().any(|probe| matches!(probe, Probe::Hearsay(_)));
    assert!(passed_on(PEER) || passed_on(OTHER), "{outputs:?}");

    datagram(&mut bench, OTHER, &Probe::Hearsay(vec![rumour(true, 4)]));
    assert!(!bench.peer(20).seen_by[0].answers, "an older rumour is none");
    datagram(&mut bench, OTHER, &Probe::Hearsay(vec![rumour(true, 6)]));
    assert!(bench.peer(20).seen_by[0].answers);
    bench.pass(700_000, &[PEER, OTHER]);
    assert!(bench.peer(20).seen_by.is_empty(), "old hearsay is not shown");
}

#[test]
fn rumours_end() {
    let mut bench = large();
    let rumours =
        (3..20).map(|n| Rumour { node: prefix(n), observer: prefix(21), epoch: 1, count: 1, answers: false });
    datagram(&mut bench, OTHER, &Probe::Hearsay(rumours.collect()));
    bench.pass(60_000, &[PEER, OTHER]);
    let later = bench.pass(60_000, &[PEER, OTHER]);
    let hearsay = |peer: u8| sent_to(&later, peer).iter().any(|probe| matches!(probe, Probe::Hearsay(_)));
    assert!(!hearsay(PEER) && !hearsay(OTHER));
}

#[test]
fn a_rumour_about_oneself_is_refuted_once() {
    let mut bench = large();
    bench.pass(2_000, &[PEER, OTHER]);
    let me = crate::bench::ME;
    let rumour = Rumour { node: prefix(me), observer: prefix(21), epoch: 1, count: 1, answers: false };
    let before = bench.own_version();
    for _ in 0..5 {
        datagram(&mut bench, OTHER, &Probe::Hearsay(vec![rumour]));
        bench.pass(1_500, &[PEER, OTHER]);
    }
    assert_eq!(bench.own_version(), RecordVersion { ver: before.ver + 1, ..before });
}

#[test]
fn rumours_of_strangers_and_about_strangers_are_dropped() {
    let mut bench = large();
    let stranger = [0xee; 8];
    let of = Rumour { node: prefix(20), observer: stranger, epoch: 1, count: 1, answers: false };
    let about = Rumour { node: stranger, observer: prefix(20), epoch: 1, count: 1, answers: false };
    let mine = Rumour { observer: prefix(crate::bench::ME), ..of };
    datagram(&mut bench, OTHER, &Probe::Hearsay(vec![of, about, mine]));
    assert!(bench.peer(20).seen_by.is_empty());
}

#[test]
fn a_small_mesh_has_no_rumours() {
    let mut bench = Bench::with_two_links();
    let mut outputs = bench.pass(60_000, &[OTHER]);
    outputs.extend(bench.pass(10_000, &[PEER, OTHER]));
    assert!(!sent_to(&outputs, OTHER).iter().any(|probe| matches!(probe, Probe::Hearsay(_))));
}
