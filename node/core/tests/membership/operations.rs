//! Random lists of everything that can happen to one machine, in any order, also orders no driver would produce.
//!
//! What must hold after each: outputs are bounded, nothing is due in the past, no peer is alive after unreachable
//! without contact, only members are judged, and what is gone for good stays gone. A list that once failed is kept
//! below under its own name.

use mesh_node_core::directory::exchange::Checked;
use mesh_node_core::links::{DialFailure, FailureKind};
use mesh_node_core::membership::{Input, Output};
use mesh_protocol::peer::{BootId, PeerState};
use mesh_protocol::probe::{Accusation, Probe, Rumour, Standing, Word};
use mesh_protocol::record::{Lifecycle, RecordVersion, Unchecked};
use proptest::prelude::*;

use crate::bench::{Bench, farewell, id, record};

/// Peers in play. With [`STRANGERS`] known beside them the mesh is too large for links to all.
const PEERS: u8 = 6;
const STRANGERS: u8 = 34;
/// More than one event can cause in a mesh of forty.
const OUTPUTS_MAX: usize = 400;

#[derive(Debug, Clone)]
enum Operation {
    Pass { ms: u64, answering: u8 },
    LinkUp { peer: u8, boot: u64 },
    LinkDown { peer: u8 },
    DialFailed { peer: u8, kind: u8 },
    Record { peer: u8, epoch: u64, ver: u64, left: bool },
    Accuse { from: u8, node: u8 },
    Inquire { from: u8, node: u8, seq: u64 },
    Report { from: u8, seq: u64, word: u8 },
    Rumour { from: u8, node: u8, observer: u8, count: u64, answers: bool },
    Silent { from: u8, node: u8 },
    SyncEnded { peer: u8, failed: bool },
    Needed { peer: u8 },
    Retry { peer: u8 },
    Revoked { peer: u8 },
    Announce { leaving: bool },
}

fn operation() -> impl Strategy<Value = Operation> {
    let peer = || 1..=PEERS;
    prop_oneof![
        6 => (prop_oneof![1_u64..3_000, 3_000_u64..90_000], any::<u8>())
            .prop_map(|(ms, answering)| Operation::Pass { ms, answering }),
        3 => (peer(), 1_u64..4).prop_map(|(peer, boot)| Operation::LinkUp { peer, boot }),
        2 => peer().prop_map(|peer| Operation::LinkDown { peer }),
        2 => (peer(), 0_u8..3).prop_map(|(peer, kind)| Operation::DialFailed { peer, kind }),
        2 => (peer(), 1_u64..4, 1_u64..4, any::<bool>())
            .prop_map(|(peer, epoch, ver, left)| Operation::Record { peer, epoch, ver, left }),
        1 => (peer(), 0..=PEERS).prop_map(|(from, node)| Operation::Accuse { from, node }),
        1 => (peer(), peer(), 0_u64..40).prop_map(|(from, node, seq)| Operation::Inquire { from, node, seq }),
        1 => (peer(), 0_u64..40, 0_u8..3).prop_map(|(from, seq, word)| Operation::Report { from, seq, word }),
        1 => (peer(), 0..=PEERS, peer(), 0_u64..9, any::<bool>()).prop_map(
            |(from, node, observer, count, answers)| Operation::Rumour { from, node, observer, count, answers }
        ),
        1 => (peer(), peer()).prop_map(|(from, node)| Operation::Silent { from, node }),
        1 => (peer(), any::<bool>()).prop_map(|(peer, failed)| Operation::SyncEnded { peer, failed }),
        1 => peer().prop_map(|peer| Operation::Needed { peer }),
        1 => peer().prop_map(|peer| Operation::Retry { peer }),
        1 => peer().prop_map(|peer| Operation::Revoked { peer }),
        1 => any::<bool>().prop_map(|leaving| Operation::Announce { leaving }),
    ]
}

fn datagram(from: u8, probe: &Probe) -> Input {
    Input::Datagram { from: id(from), bytes: probe.encode() }
}

fn short(n: u8) -> [u8; 8] {
    let who = if n == 0 { crate::bench::ME } else { n };
    id(who).as_bytes()[..8].try_into().unwrap()
}

/// What one operation is as an input, if it is one.
fn input(bench: &Bench, operation: &Operation) -> Option<Input> {
    Some(match *operation {
        Operation::Pass { .. } => return None,
        Operation::LinkUp { peer, boot } => Input::LinkUp { peer: id(peer), boot: BootId(boot) },
        Operation::LinkDown { peer } => Input::LinkDown { peer: id(peer), cause: "gone".to_owned() },
        Operation::DialFailed { peer, kind } => {
            let kinds = [FailureKind::Passing, FailureKind::Refused, FailureKind::Incompatible];
            let failure =
                DialFailure { kind: kinds[usize::from(kind)], text: "no".to_owned(), address: None };
            Input::DialFailed { peer: id(peer), failure }
        }
        Operation::Record { peer, epoch, ver, left } => {
            let signed = if left { farewell(peer, epoch, ver) } else { record(peer, epoch, ver) };
            let heard =
                mesh_node_core::directory::exchange::Heard { records: vec![signed], silent: Vec::new() };
            Input::Heard { from: id(1), heard: heard.check(&crate::bench::root(), |_, _| Unchecked::Both) }
        }
        Operation::Accuse { from, node } => {
            let (node, version) = if node == 0 {
                (id(crate::bench::ME), bench.own_version())
            } else {
                (id(node), RecordVersion { epoch: 1, ver: 1 })
            };
            let standing = Standing {
                version: RecordVersion { epoch: 1, ver: 1 },
                accusations: vec![Accusation { node, version }],
            };
            datagram(from, &Probe::Ping { seq: 3, standing })
        }
        Operation::Inquire { from, node, seq } => datagram(from, &Probe::Inquire { seq, node: id(node) }),
        Operation::Report { from, seq, word } => {
            let words = [Word::Answers, Word::Silent, Word::Unasked];
            datagram(from, &Probe::Report { seq, word: words[usize::from(word)] })
        }
        Operation::Rumour { from, node, observer, count, answers } => {
            let rumour = Rumour { node: short(node), observer: short(observer), epoch: 1, count, answers };
            datagram(from, &Probe::Hearsay(vec![rumour]))
        }
        Operation::Silent { from, node } => {
            Input::Heard { from: id(from), heard: Checked { silent: vec![id(node)], ..Checked::default() } }
        }
        Operation::SyncEnded { peer, failed } => {
            Input::SyncEnded { peer: id(peer), error: failed.then(|| "timed out".to_owned()) }
        }
        Operation::Needed { peer } => Input::Needed(id(peer)),
        Operation::Retry { peer } => Input::Retry(id(peer)),
        Operation::Revoked { peer } => Input::Revoked(id(peer)),
        Operation::Announce { leaving } => {
            Input::Announce(if leaving { Lifecycle::Leaving } else { Lifecycle::Up })
        }
    })
}

fn state(bench: &Bench, peer: u8) -> Option<PeerState> {
    bench.machine.state(&id(peer))
}

/// Runs a list on a small or a large mesh and checks after each operation.
fn run(large: bool, operations: &[Operation]) {
    let mut bench = Bench::with_two_links();
    if large {
        for n in 0..STRANGERS {
            bench.hear(2, record(50 + n, 1, 1));
        }
    }
    let mut revoked = [false; PEERS as usize + 1];
    for operation in operations {
        // Each in a moment of its own, so that a contact now is told from one before.
        bench.now += 1;
        let before: Vec<Option<PeerState>> = (0..=PEERS).map(|peer| state(&bench, peer)).collect();
        let contact: Vec<Option<u64>> = (0..=PEERS).map(|peer| last_success(&bench, peer)).collect();
        match operation {
            Operation::Pass { ms, answering } => {
                let answering: Vec<u8> =
                    (1..=PEERS).filter(|peer| answering >> (peer - 1) & 1 == 1).collect();
                bench.pass(*ms, &answering);
            }
            other => {
                let input = input(&bench, other).unwrap();
                let outputs = bench.feed(input);
                assert!(outputs.len() <= OUTPUTS_MAX, "{} outputs of {other:?}", outputs.len());
                check_outputs(&bench, &outputs);
            }
        }
        if let Operation::Revoked { peer } = operation {
            revoked[usize::from(*peer)] = true;
        }
        // A wake-up that is due now is done now: otherwise a driver would spin.
        bench.feed(Input::Wake);
        assert!(bench.machine.next_wake().0 > bench.now, "{operation:?} leaves something due for ever");
        for peer in 1..=PEERS {
            let (was, is) = (before[usize::from(peer)], state(&bench, peer));
            let silent = matches!(was, Some(PeerState::Unreachable));
            if silent && is == Some(PeerState::Alive) {
                assert_ne!(contact[usize::from(peer)], last_success(&bench, peer), "alive without contact");
            }
            assert!(!revoked[usize::from(peer)] || is == Some(PeerState::Revoked), "{peer} is back");
        }
    }
}

fn last_success(bench: &Bench, peer: u8) -> Option<u64> {
    let view = bench.machine.peer(mesh_node_core::time::NodeTime(bench.now), &id(peer))?;
    view.last_success.map(|at| at.node_ms)
}

fn check_outputs(bench: &Bench, outputs: &[Output]) {
    for output in outputs {
        match output {
            Output::Dial { peer, addresses } => {
                let record = bench.machine.directory().get(peer).map(|entry| entry.record());
                let told = record.map(|record| record.advertisement.addresses.clone());
                assert_eq!(*addresses, told.unwrap_or_default());
                let view = bench.machine.peer(mesh_node_core::time::NodeTime(bench.now), peer).unwrap();
                assert!(!view.linked, "a linked peer is dialled");
            }
            Output::Send { bytes, .. } => assert!(Probe::decode(bytes).is_ok()),
            _ => {}
        }
    }
}

#[test]
fn a_link_in_the_moment_of_a_refusal_is_a_contact() {
    let refused = Operation::DialFailed { peer: 1, kind: 1 };
    run(false, &[Operation::LinkDown { peer: 1 }, refused, Operation::LinkUp { peer: 1, boot: 2 }]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn any_list_of_operations_leaves_a_small_mesh_in_order(
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        run(false, &operations);
    }

    #[test]
    fn any_list_of_operations_leaves_a_large_mesh_in_order(
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        run(true, &operations);
    }
}
