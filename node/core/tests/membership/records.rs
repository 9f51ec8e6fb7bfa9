//! What a record may change and what it may not, on one machine fed by hand.

use mesh_node_core::directory::exchange::{Checked, Exchange, ExchangeError};
use mesh_node_core::links::{DialFailure, FailureKind};
use mesh_node_core::membership::{Input, Output};
use mesh_protocol::id::MeshId;
use mesh_protocol::peer::{BootId, PeerState};
use mesh_protocol::probe::{Accusation, Probe, Standing};
use mesh_protocol::record::{Advertisement, NodeRecord, RECORD_BYTES_MAX, RecordVersion, SignedRecord};
use mesh_protocol::sync::SyncFrame;
use proptest::prelude::*;

use crate::bench::{Bench, ME, OTHER, PEER, advertisement, farewell, id, key, record, unsigned};

fn passing(text: &str) -> DialFailure {
    DialFailure { kind: FailureKind::Passing, text: text.to_owned(), address: None }
}

#[test]
fn refused_records_change_nothing_and_are_counted_against_their_bringer() {
    let mut bench = Bench::with_two_links();
    let root = bench.machine.directory().root();
    let forged = unsigned(OTHER, 9, 9).sign(&key(PEER)).unwrap();
    let foreign =
        NodeRecord { mesh: MeshId::from_bytes([8; 16]), ..unsigned(OTHER, 9, 9) }.sign(&key(OTHER)).unwrap();
    let oversize = SignedRecord { body: vec![1; RECORD_BYTES_MAX + 1], signature: [0; 64] };
    let malformed = SignedRecord { body: vec![1, 2, 3], signature: [0; 64] };
    let invented = NodeRecord { certificate: unsigned(PEER, 1, 1).certificate, ..unsigned(3, 1, 1) }
        .sign(&key(3))
        .unwrap();
    for refused in [forged, foreign, oversize, malformed, invented] {
        let outputs = bench.hear(PEER, refused);
        assert!(!outputs.iter().any(|output| matches!(output, Output::Store { .. })), "{outputs:?}");
    }
    let dropped = bench.peer(PEER).dropped;
    assert_eq!((dropped.foreign_signature, dropped.other_mesh, dropped.not_a_member), (1, 1, 1));
    assert_eq!((dropped.oversize, dropped.malformed, dropped.total()), (1, 1, 5));
    assert_eq!(bench.machine.directory().root(), root);
}

#[test]
fn an_older_record_never_replaces_a_newer_one() {
    let mut bench = Bench::new();
    bench.hear(PEER, record(PEER, 2, 1));
    for older in [record(PEER, 1, 9), record(PEER, 2, 0)] {
        assert!(bench.hear(PEER, older).is_empty());
    }
    assert_eq!(bench.peer(PEER).version, Some(RecordVersion { epoch: 2, ver: 1 }));
}

#[test]
fn a_record_of_ones_own_from_the_future_is_overtaken() {
    let mut bench = Bench::new();
    bench.hear(PEER, record(ME, 9, 3));
    assert_eq!(bench.raised, [10]);
    assert_eq!(bench.own_version(), RecordVersion { epoch: 10, ver: 1 });
}

#[test]
fn hearing_ones_own_record_as_it_is_raises_nothing() {
    let mut bench = Bench::new();
    let own = bench.machine.directory().get(&id(ME)).unwrap().signed().clone();
    bench.hear(PEER, own);
    assert!(bench.raised.is_empty());
}

#[test]
fn two_machines_with_one_identity_raise_epochs_slowly_and_are_shown_as_duplicate() {
    let mut bench = Bench::with_two_links();
    for epoch in 6..20 {
        bench.hear(PEER, record(ME, epoch * 10, 1));
    }
    assert_eq!(bench.raised.len(), 1);
    for boot in [7, 8, 7] {
        bench.feed(Input::LinkUp { peer: id(PEER), boot: BootId(boot) });
    }
    assert_eq!(bench.peer(PEER).state, PeerState::Duplicate);
}

#[test]
fn a_link_that_is_taken_away_at_once_is_dialled_a_moment_later_and_any_other_at_once() {
    let mut bench = Bench::with_two_links();
    let dialled = |outputs: &[Output]| {
        outputs.iter().any(|output| matches!(output, Output::Dial { peer, .. } if *peer == id(PEER)))
    };
    let down = || Input::LinkDown { peer: id(PEER), cause: "superseded".to_owned() };
    assert!(!dialled(&bench.feed(down())), "it was there for a moment");
    assert!(!dialled(&bench.pass(900, &[OTHER])));
    assert!(dialled(&bench.pass(1_200, &[OTHER])));
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect, "nobody is judged for that");
    bench.feed(Input::LinkUp { peer: id(PEER), boot: BootId(1) });
    bench.pass(6_000, &[PEER, OTHER]);
    assert!(dialled(&bench.feed(down())), "it was there for a while");
}

#[test]
fn restarting_twice_is_not_being_a_duplicate() {
    let mut bench = Bench::with_two_links();
    for boot in [7, 8, 9, 9] {
        bench.feed(Input::LinkUp { peer: id(PEER), boot: BootId(boot) });
    }
    assert_eq!(bench.peer(PEER).state, PeerState::Alive);
}

#[test]
fn a_node_that_left_is_not_brought_back_by_its_older_record() {
    let mut bench = Bench::with_two_links();
    bench.hear(OTHER, farewell(PEER, 1, 2));
    bench.feed(Input::LinkDown { peer: id(PEER), cause: "closed".to_owned() });
    assert_eq!(bench.peer(PEER).state, PeerState::Left);
    bench.hear(OTHER, record(PEER, 1, 1));
    let outputs = bench.pass(60_000, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Left);
    assert!(!outputs.iter().any(|output| matches!(output, Output::Dial { peer, .. } if *peer == id(PEER))));
}

#[test]
fn a_node_that_left_comes_back_by_a_record_of_a_later_start() {
    let mut bench = Bench::new();
    bench.hear(OTHER, record(PEER, 1, 1));
    bench.hear(OTHER, farewell(PEER, 1, 2));
    let outputs = bench.hear(OTHER, record(PEER, 2, 1));
    assert_eq!(bench.peer(PEER).state, PeerState::Known);
    assert!(outputs.iter().any(|output| matches!(output, Output::Dial { .. })));
}

#[test]
fn the_farewell_of_a_stranger_is_not_kept() {
    let mut bench = Bench::new();
    assert!(bench.hear(OTHER, farewell(PEER, 1, 2)).is_empty());
    assert!(bench.machine.directory().get(&id(PEER)).is_none());
}

#[test]
fn a_revoked_node_is_cut_off_and_stays_so() {
    let mut bench = Bench::with_two_links();
    let outputs = bench.feed(Input::Revoked(id(PEER)));
    assert!(outputs.iter().any(|output| matches!(output, Output::Close { .. })));
    bench.feed(Input::LinkDown { peer: id(PEER), cause: "closed".to_owned() });
    bench.hear(OTHER, record(PEER, 9, 9));
    let outputs = bench.feed(Input::LinkUp { peer: id(PEER), boot: BootId(3) });
    assert!(matches!(outputs.first(), Some(Output::Close { .. })));
    assert_eq!(bench.peer(PEER).state, PeerState::Revoked);
}

#[test]
fn a_verdict_heard_from_others_makes_one_look_and_changes_nothing() {
    let mut bench = Bench::with_two_links();
    bench.pass(3_000, &[PEER, OTHER]);
    for _ in 0..40 {
        bench.now += 1_500;
        let heard = Checked { silent: vec![id(PEER)], ..Checked::default() };
        bench.feed(Input::Heard { from: id(OTHER), heard });
        bench.accuse(OTHER, PEER, RecordVersion { epoch: 1, ver: 1 });
        assert_eq!(bench.peer(PEER).state, PeerState::Alive);
        bench.pass(500, &[PEER, OTHER]);
    }
    assert_eq!(bench.peer(PEER).state, PeerState::Alive);
    bench.now += 1_100;
    let outputs = bench.accuse(OTHER, PEER, RecordVersion { epoch: 1, ver: 1 });
    let asked = |output: &Output| matches!(output, Output::Send { to, .. } if *to == id(PEER));
    assert!(outputs.iter().any(asked), "an accusation is looked into at once: {outputs:?}");
}

#[test]
fn accusers_shorten_a_suspicion_of_ones_own() {
    let judged_after = |accused: bool| {
        let mut bench = Bench::with_two_links();
        for peer in 3..=6 {
            bench.feed(Input::LinkUp { peer: id(peer), boot: BootId(1) });
        }
        let began = bench.now;
        while bench.peer(PEER).state != PeerState::Unreachable {
            bench.pass(50, &[OTHER, 3, 4, 5, 6]);
            if accused && bench.peer(PEER).state == PeerState::Suspect {
                for accuser in [3, 4] {
                    bench.accuse(accuser, PEER, RecordVersion { epoch: 1, ver: 1 });
                }
            }
            assert!(bench.now - began < 30_000);
        }
        bench.now - began
    };
    assert!(judged_after(true) + 2_000 < judged_after(false));
}

#[test]
fn an_accused_node_refutes_with_a_later_version_and_not_twice_for_one() {
    let mut bench = Bench::with_two_links();
    bench.now += 2_000;
    let before = bench.own_version();
    let outputs = bench.accuse(PEER, ME, before);
    assert!(bench.own_version() > before);
    let shown = |output: &&Output| matches!(output, Output::Send { .. });
    assert!(outputs.iter().filter(shown).count() >= 2, "both peers are shown the new version");
    bench.now += 2_000;
    let after = bench.own_version();
    bench.accuse(PEER, ME, before);
    assert_eq!(bench.own_version(), after);
}

#[test]
fn a_refuted_suspicion_takes_longer_but_does_not_make_alive() {
    let mut bench = Bench::with_two_links();
    bench.pass(3_500, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
    bench.hear(OTHER, record(PEER, 1, 2));
    assert_eq!(bench.peer(PEER).state, PeerState::Suspect);
    bench.pass(30_000, &[OTHER]);
    assert_eq!(bench.peer(PEER).state, PeerState::Unreachable);
}

#[test]
fn what_time_does_not_mend_is_told_at_once_and_dialled_rarely() {
    let mut bench = Bench::new();
    bench.hear(OTHER, record(PEER, 1, 1));
    let failure = DialFailure { kind: FailureKind::Incompatible, ..passing("it speaks versions 7 to 9") };
    bench.feed(Input::DialFailed { peer: id(PEER), failure });
    let view = bench.peer(PEER);
    assert_eq!((view.state, view.cause.as_str()), (PeerState::Incompatible, "it speaks versions 7 to 9"));
    assert!(view.next_dial_in_ms.unwrap() >= 240_000);
}

#[test]
fn an_unreachable_peer_is_dialled_again_at_once_when_its_record_changes() {
    let mut bench = Bench::new();
    bench.hear(OTHER, record(PEER, 1, 1));
    for _ in 0..12 {
        bench.feed(Input::DialFailed { peer: id(PEER), failure: passing("no answer") });
        bench.pass(40_000, &[]);
    }
    assert_eq!(bench.peer(PEER).state, PeerState::Unreachable);
    bench.feed(Input::DialFailed { peer: id(PEER), failure: passing("no answer") });
    let outputs = bench.hear(OTHER, record(PEER, 2, 1));
    assert!(outputs.iter().any(|output| matches!(output, Output::Dial { .. })), "{outputs:?}");
}

#[test]
fn a_node_without_an_address_is_dialled_for_who_may_carry_and_judged_by_no_dial() {
    let mut bench = Bench::with_two_links();
    let hidden = unsigned(3, 1, 1);
    let advertisement = Advertisement { addresses: Vec::new(), ..hidden.advertisement.clone() };
    bench.hear(OTHER, NodeRecord { advertisement, ..hidden }.sign(&key(3)).unwrap());
    let dialled = |outputs: &[Output]| {
        let nowhere = Output::Dial { peer: id(3), addresses: Vec::new() };
        outputs.iter().filter(|output| **output == nowhere).count()
    };
    let mut dials = 0;
    for _ in 0..12 {
        bench.feed(Input::DialFailed { peer: id(3), failure: passing("nobody carries to it") });
        dials += dialled(&bench.pass(40_000, &[PEER, OTHER]));
    }
    assert_eq!(dials, 12, "again and again, at a falling rate");
    assert_eq!(bench.peer(3).state, PeerState::Known, "only it can dial, and it may in a moment");
    bench.feed(Input::LinkUp { peer: id(3), boot: BootId(3) });
    assert_eq!(bench.peer(3).state, PeerState::Alive);
    bench.feed(Input::LinkDown { peer: id(3), cause: "the relay went".to_owned() });
    bench.feed(Input::DialFailed { peer: id(3), failure: passing("nobody carries to it") });
    let outputs = bench.pass(40_000, &[PEER, OTHER]);
    assert_eq!(
        bench.peer(3).state,
        PeerState::Unreachable,
        "its link is gone: that is evidence of one's own"
    );
    assert!(dialled(&outputs) > 0, "and it is dialled for ever, as any other");
}

#[test]
fn changes_of_ones_own_are_published_at_once_but_not_more_than_once_a_second() {
    let mut bench = Bench::with_two_links();
    bench.pass(2_000, &[PEER, OTHER]);
    let before = bench.own_version().ver;
    for running in 1..=50 {
        let mut changed = advertisement(0, "127.0.0.100:4433".parse().unwrap());
        changed.load.running = running;
        bench.feed(Input::Advertise(Box::new(changed)));
    }
    assert_eq!(bench.own_version().ver, before + 1);
    bench.pass(1_500, &[PEER, OTHER]);
    assert_eq!(bench.own_version().ver, before + 2);
    let published = bench.machine.directory().get(&id(ME)).unwrap().record();
    assert_eq!(published.advertisement.load.running, 50);
}

#[test]
fn news_from_an_exchange_is_compared_with_somebody_a_moment_later() {
    let mut bench = Bench::with_two_links();
    bench.pass(1_000, &[PEER, OTHER]);
    bench.hear(PEER, record(3, 1, 1));
    let outputs = bench.pass(300, &[PEER, OTHER]);
    assert!(outputs.iter().any(|output| matches!(output, Output::Sync { .. })), "{outputs:?}");
    bench.pass(2_000, &[PEER, OTHER]);
    bench.hear(PEER, record(3, 1, 1));
    let outputs = bench.pass(300, &[PEER, OTHER]);
    assert!(!outputs.iter().any(|output| matches!(output, Output::Sync { .. })), "old news: {outputs:?}");
}

#[test]
fn a_peer_that_always_claims_news_is_asked_a_few_times_a_second() {
    let mut bench = Bench::with_two_links();
    let standing = Standing { version: RecordVersion { epoch: 9, ver: 9 }, accusations: Vec::new() };
    let mut exchanges = 0;
    for _ in 0..1_000 {
        let mut outputs = bench.pass(1, &[]);
        let bytes = Probe::Ping { seq: 1, standing: standing.clone() }.encode();
        outputs.extend(bench.feed(Input::Datagram { from: id(PEER), bytes }));
        let with_it = |output: &&Output| matches!(output, Output::Sync { peer } if *peer == id(PEER));
        exchanges += outputs.iter().filter(with_it).count();
    }
    assert!((2..=5).contains(&exchanges), "{exchanges}");
}

#[test]
fn a_record_that_cannot_be_signed_is_not_announced() {
    let mut bench = Bench::with_two_links();
    bench.pass(2_000, &[PEER, OTHER]);
    let before = bench.own_version();
    let mut changed = advertisement(0, "127.0.0.100:4433".parse().unwrap());
    changed.load.running = 1;
    bench.machine.handle(bench.time(), &mut bench.rng, Input::Advertise(Box::new(changed)));
    assert_eq!(bench.own_version(), before);
}

#[test]
fn what_left_is_forgotten_after_a_month_and_nothing_else_is() {
    let mut bench = Bench::new();
    bench.hear(PEER, record(PEER, 1, 1));
    bench.hear(PEER, record(OTHER, 1, 1));
    bench.hear(PEER, farewell(PEER, 1, 2));
    bench.feed(Input::DialFailed { peer: id(OTHER), failure: passing("no answer") });
    bench.now += 31 * 24 * 3_600 * 1_000;
    let outputs = bench.feed(Input::Wake);
    assert!(outputs.contains(&Output::Forget { node: id(PEER) }), "{outputs:?}");
    assert!(bench.machine.directory().get(&id(OTHER)).is_some());
}

#[test]
fn a_frame_out_of_turn_ends_the_exchange_and_nothing_else() {
    let bench = Bench::with_two_links();
    let mut exchange = Exchange::respond();
    let frame = SyncFrame::Records { records: Vec::new(), last: true }.encode();
    assert_eq!(bench.machine.continue_sync(&mut exchange, &frame), Err(ExchangeError::OutOfTurn));
}

proptest! {
    #[test]
    fn whatever_a_peer_sends_the_machine_stands(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        seq in any::<u64>(),
        versions in proptest::collection::vec((0_u8..4, any::<u64>(), any::<u64>()), 0..16),
    ) {
        let mut bench = Bench::with_two_links();
        bench.feed(Input::Datagram { from: id(PEER), bytes: bytes.clone() });
        let mut exchange = Exchange::respond();
        let _ = bench.machine.continue_sync(&mut exchange, &bytes);
        bench.hear(PEER, SignedRecord { body: bytes, signature: [0; 64] });
        let accusations = versions.iter().map(|(node, epoch, ver)| Accusation {
            node: id(*node),
            version: RecordVersion { epoch: *epoch, ver: *ver },
        });
        let standing = Standing {
            version: RecordVersion { epoch: u64::MAX, ver: u64::MAX },
            accusations: accusations.collect(),
        };
        bench.feed(Input::Datagram { from: id(PEER), bytes: Probe::Ack { seq, standing }.encode() });
        bench.pass(5_000, &[PEER, OTHER]);
        prop_assert_eq!(bench.peer(OTHER).state, PeerState::Alive);
    }
}
