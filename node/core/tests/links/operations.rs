//! Random lists of everything that can happen to one links machine, in any order, also orders no driver would produce.
//!
//! What must hold after each: of the connections that are there the one that beats all others is used, and said to be;
//! a peer has one dial at most and never too many connections, all to one process of it; whoever waits is told once, and
//! waits only while there is a dial. A list that once failed is kept below under its own name.

use std::collections::{BTreeMap, BTreeSet};

use mesh_node_core::links::{
    CONNECTIONS_PER_PEER_MAX, ConnectionKey, DialFailure, FailureKind, Input, Links, Output,
    WAITERS_PER_PEER_MAX, Waiter,
};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;
use proptest::prelude::*;

const ME: NodeId = NodeId::from_bytes([2; 32]);
/// One on either side of this node in the order of ids, and this node itself.
const PEERS: [NodeId; 3] = [NodeId::from_bytes([1; 32]), NodeId::from_bytes([3; 32]), ME];

#[derive(Debug, Clone, Copy)]
enum Operation {
    Wanted {
        peer: usize,
        waiter: Option<u64>,
        addresses: bool,
    },
    Improve {
        peer: usize,
        addresses: bool,
    },
    GaveUp {
        peer: usize,
        waiter: u64,
    },
    /// A connection the peer dialled, or a third node, or this one under a number of its own.
    Came {
        peer: usize,
        dialler: usize,
        number: u64,
        relayed: bool,
        boot: u64,
    },
    /// The dial under way succeeds, if there is one.
    Reached {
        peer: usize,
        relayed: bool,
        boot: u64,
    },
    /// It fails, or one that is not under way.
    Failed {
        peer: usize,
        other: bool,
    },
    Drop {
        peer: usize,
    },
    /// The first, second, ... of what is there ends, or one that is not there.
    Ended {
        peer: usize,
        place: usize,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let peer = || prop_oneof![5 => 0..2_usize, 1 => Just(2_usize)];
    prop_oneof![
        4 => (peer(), proptest::option::of(0..6_u64), proptest::bool::weighted(0.8))
            .prop_map(|(peer, waiter, addresses)| Operation::Wanted { peer, waiter, addresses }),
        1 => (peer(), any::<bool>()).prop_map(|(peer, addresses)| Operation::Improve { peer, addresses }),
        1 => (peer(), 0..6_u64).prop_map(|(peer, waiter)| Operation::GaveUp { peer, waiter }),
        4 => (peer(), 0..3_usize, 0..9_u64, any::<bool>(), 1..4_u64).prop_map(
            |(peer, dialler, number, relayed, boot)| Operation::Came { peer, dialler, number, relayed, boot }
        ),
        3 => (peer(), any::<bool>(), 1..4_u64)
            .prop_map(|(peer, relayed, boot)| Operation::Reached { peer, relayed, boot }),
        2 => (peer(), any::<bool>()).prop_map(|(peer, other)| Operation::Failed { peer, other }),
        1 => peer().prop_map(|peer| Operation::Drop { peer }),
        3 => (peer(), 0..5_usize).prop_map(|(peer, place)| Operation::Ended { peer, place }),
    ]
}

/// What a driver would know from the outputs alone.
#[derive(Default)]
struct Seen {
    /// What is there: to which process, and whether it is being retired.
    connections: BTreeMap<(NodeId, ConnectionKey), (BootId, bool)>,
    dials: BTreeMap<NodeId, u64>,
    waiting: BTreeSet<(NodeId, u64)>,
    up: BTreeMap<NodeId, ConnectionKey>,
    last_number: u64,
}

impl Seen {
    fn input(&self, operation: Operation) -> Option<Input> {
        let addresses = |some: bool| if some { vec!["127.0.0.1:1".parse().unwrap()] } else { Vec::new() };
        Some(match operation {
            Operation::Wanted { peer, waiter, addresses: some } => {
                let peer = PEERS[peer];
                // A caller waits for one thing at a time.
                let waiter = waiter.filter(|waiter| !self.waiting.contains(&(peer, *waiter)));
                Input::Wanted { peer, waiter: waiter.map(Waiter), addresses: addresses(some) }
            }
            Operation::Improve { peer, addresses: some } => {
                Input::Improve { peer: PEERS[peer], addresses: addresses(some) }
            }
            Operation::GaveUp { peer, waiter } => Input::GaveUp { peer: PEERS[peer], waiter: Waiter(waiter) },
            Operation::Came { peer, dialler, number, relayed, boot } => {
                let key = ConnectionKey { dialler: PEERS[dialler], number, relayed };
                Input::Established { peer: PEERS[peer], key, boot: BootId(boot), address: None }
            }
            Operation::Reached { peer, relayed, boot } => {
                let number = *self.dials.get(&PEERS[peer])?;
                let key = ConnectionKey { dialler: ME, number, relayed };
                Input::Established { peer: PEERS[peer], key, boot: BootId(boot), address: None }
            }
            Operation::Failed { peer, other } => {
                let number = self.dials.get(&PEERS[peer]).copied().unwrap_or(7);
                let failure =
                    DialFailure { kind: FailureKind::Passing, text: "no".to_owned(), address: None };
                Input::DialFailed { peer: PEERS[peer], number: number + u64::from(other), failure }
            }
            Operation::Drop { peer } => Input::Drop { peer: PEERS[peer], cause: "dropped".to_owned() },
            Operation::Ended { peer, place } => {
                let peer = PEERS[peer];
                let keys = self.connections.keys().filter(|(of, _)| *of == peer);
                let key =
                    keys.map(|(_, key)| *key).nth(place).unwrap_or_else(|| ConnectionKey::direct(peer, 99));
                Input::Ended { peer, key, cause: "ended".to_owned() }
            }
        })
    }

    fn takes_place(&mut self, input: &Input, outputs: &[Output]) {
        match input {
            Input::Wanted { peer, waiter: Some(waiter), .. } => _ = self.waiting.insert((*peer, waiter.0)),
            Input::GaveUp { peer, waiter } => _ = self.waiting.remove(&(*peer, waiter.0)),
            Input::Established { peer, key, boot, .. } => {
                if self.dials.get(peer) == Some(&key.number) && key.dialler == ME {
                    self.dials.remove(peer);
                }
                let refused = Output::Refuse { peer: *peer, key: *key };
                if !outputs.contains(&refused) {
                    assert!(*peer != ME && [ME, *peer].contains(&key.dialler), "an impossible name is kept");
                    self.connections.insert((*peer, *key), (*boot, false));
                }
            }
            Input::DialFailed { peer, number, .. } if self.dials.get(peer) == Some(number) => {
                self.dials.remove(peer);
            }
            Input::Ended { peer, key, .. } => _ = self.connections.remove(&(*peer, *key)),
            _ => {}
        }
        for output in outputs {
            self.put_out(output);
        }
    }

    fn put_out(&mut self, output: &Output) {
        match output {
            Output::StartDial { peer, number, .. } => {
                assert_ne!(*peer, ME, "it dials itself");
                assert!(*number > self.last_number, "numbers grow");
                self.last_number = *number;
                assert_eq!(self.dials.insert(*peer, *number), None, "one dial at a time");
            }
            Output::AbandonDial { peer, number } => {
                assert_eq!(self.dials.remove(peer), Some(*number), "only what is under way is abandoned");
            }
            Output::Ready { waiter, key } => {
                let told: Vec<NodeId> = self
                    .connections
                    .keys()
                    .filter(|(_, there)| there == key)
                    .map(|(peer, _)| *peer)
                    .collect();
                let waited = told.iter().any(|peer| self.waiting.remove(&(*peer, waiter.0)));
                assert!(waited, "{waiter:?} is told of {key:?} and did not wait for it");
            }
            Output::Failed { waiter, .. } => {
                let held: Vec<_> =
                    self.waiting.iter().filter(|(_, held)| *held == waiter.0).copied().collect();
                // Which peer it was is not said: one without a dial.
                let failed = held.into_iter().find(|(peer, _)| !self.dials.contains_key(peer));
                assert!(self.waiting.remove(&failed.expect("somebody who waits")));
            }
            Output::Up { peer, key, boot } => {
                assert_eq!(self.connections.get(&(*peer, *key)), Some(&(*boot, false)));
                self.up.insert(*peer, *key);
            }
            Output::Down { peer, .. } => {
                assert!(self.up.remove(peer).is_some(), "down without having been up")
            }
            Output::Unreached { peer, .. } => assert!(!self.up.contains_key(peer)),
            Output::Retire { peer, key, .. } => {
                let held = self.connections.get_mut(&(*peer, *key)).expect("what is retired is there");
                assert!(key.dialler == ME && !held.1, "only one's own, and once");
                held.1 = true;
            }
            Output::Close { peer, key } => {
                assert!(self.connections.remove(&(*peer, *key)).is_some(), "what is closed is there");
            }
            Output::Refuse { .. } => {}
        }
    }

    fn is_in_order(&self, links: &Links) {
        for peer in PEERS {
            let there: Vec<(&ConnectionKey, &(BootId, bool))> = self
                .connections
                .iter()
                .filter(|((of, _), _)| *of == peer)
                .map(|((_, key), held)| (key, held))
                .collect();
            let best = there.iter().filter(|(_, (_, retiring))| !retiring).map(|(key, _)| **key);
            let best = best.reduce(|best, next| if next.beats(&best) { next } else { best });
            assert_eq!(links.current(&peer), best, "the best is used");
            assert_eq!(self.up.get(&peer).copied(), best, "and was said to be");
            assert!(there.len() <= CONNECTIONS_PER_PEER_MAX);
            let boots: BTreeSet<BootId> = there.iter().map(|(_, (boot, _))| *boot).collect();
            assert!(boots.len() <= 1, "all lead to one process: {boots:?}");
            let waiting = self.waiting.iter().filter(|(of, _)| *of == peer).count();
            assert!(waiting <= WAITERS_PER_PEER_MAX);
            assert!(waiting == 0 || self.dials.contains_key(&peer), "{waiting} wait for nothing");
        }
    }
}

fn run(operations: &[Operation]) {
    let mut links = Links::new(ME, 1);
    let mut seen = Seen::default();
    for operation in operations {
        let Some(input) = seen.input(*operation) else { continue };
        let asked = matches!(input, Input::Wanted { waiter: None, peer, .. } if peer != ME);
        let outputs = links.handle(input.clone());
        seen.takes_place(&input, &outputs);
        seen.is_in_order(&links);
        if let Input::Wanted { peer, .. } = input
            && asked
        {
            let answered = outputs.iter().any(|output| matches!(output, Output::Up { .. }));
            assert!(answered || seen.dials.contains_key(&peer), "membership is always answered");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn any_list_of_events_leaves_every_pair_of_nodes_with_one_connection_that_both_would_choose(
        operations in proptest::collection::vec(operation(), 1..80),
    ) {
        run(&operations);
    }
}
