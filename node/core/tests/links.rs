//! Two nodes, whatever the order of events between them, settle on one and the same connection.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken test should stop")]

#[path = "links/operations.rs"]
mod operations;

use std::collections::{BTreeMap, BTreeSet};

use mesh_node_core::links::{
    CONNECTIONS_PER_PEER_MAX, ConnectionKey, DialFailure, FailureKind, Input, Links, Output, Waiter,
};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

const SMALL: NodeId = NodeId::from_bytes([1; 32]);
const LARGE: NodeId = NodeId::from_bytes([2; 32]);

fn wanted(peer: NodeId, waiter: Option<u64>) -> Input {
    Input::Wanted { peer, waiter: waiter.map(Waiter), addresses: vec!["127.0.0.1:1".parse().unwrap()] }
}

fn established(peer: NodeId, dialler: NodeId, number: u64, boot: u64) -> Input {
    let key = ConnectionKey::direct(dialler, number);
    Input::Established { peer, key, boot: BootId(boot), address: None }
}

fn failed(peer: NodeId, number: u64) -> Input {
    let text = "no answer".to_owned();
    Input::DialFailed {
        peer,
        number,
        failure: DialFailure { kind: FailureKind::Passing, text, address: None },
    }
}

fn dial_number(outputs: &[Output]) -> u64 {
    let number = outputs.iter().find_map(|output| match output {
        Output::StartDial { number, .. } => Some(*number),
        _ => None,
    });
    number.expect("a dial")
}

/// Two links machines and what is under way between them.
struct Pair {
    ends: [Links; 2],
    queue: BTreeMap<(u64, u64), (usize, Input)>,
    open: BTreeSet<ConnectionKey>,
    now: u64,
    scheduled: u64,
    dials: usize,
    loss_percent: u32,
    rng: ChaCha8Rng,
}

impl Pair {
    fn new(loss_percent: u32, seed: u64) -> Self {
        Self {
            ends: [Links::new(SMALL, 1), Links::new(LARGE, 1)],
            queue: BTreeMap::new(),
            open: BTreeSet::new(),
            now: 0,
            scheduled: 0,
            dials: 0,
            loss_percent,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    fn id(end: usize) -> NodeId {
        [SMALL, LARGE][end]
    }

    fn at(&mut self, after_ms: u64, end: usize, input: Input) {
        self.scheduled += 1;
        self.queue.insert((self.now + after_ms, self.scheduled), (end, input));
    }

    /// How long something reliable takes: every loss is a retransmission.
    fn delay(&mut self) -> u64 {
        let mut ms = self.rng.random_range(1..40);
        while self.rng.random_range(0..100) < self.loss_percent {
            ms += 200;
        }
        ms
    }

    fn run(&mut self) {
        while let Some(((at, _), (end, input))) = self.queue.pop_first() {
            self.now = at;
            for output in self.ends[end].handle(input) {
                self.perform(end, output);
            }
        }
    }

    fn perform(&mut self, end: usize, output: Output) {
        let (me, peer) = (Self::id(end), Self::id(1 - end));
        match output {
            Output::StartDial { number, .. } => {
                self.dials += 1;
                let key = ConnectionKey::direct(me, number);
                self.open.insert(key);
                for (end, other) in [(end, peer), (1 - end, me)] {
                    let after = self.delay() + self.delay();
                    let boot = BootId(u64::from(other == LARGE));
                    self.at(after, end, Input::Established { peer: other, key, boot, address: None });
                }
            }
            Output::Retire { key, .. } | Output::Close { key, .. } => self.close(key),
            Output::AbandonDial { number, .. } => self.close(ConnectionKey::direct(me, number)),
            Output::Refuse { .. } => panic!("nothing here is refused"),
            Output::Ready { .. }
            | Output::Failed { .. }
            | Output::Up { .. }
            | Output::Down { .. }
            | Output::Unreached { .. } => {}
        }
    }

    /// Both ends hear of the end after everything they were still to hear of that connection.
    fn close(&mut self, key: ConnectionKey) {
        if self.open.remove(&key) {
            let concerns = |input: &Input| matches!(input, Input::Established { key: of, .. } if *of == key);
            let pending = self.queue.iter().filter(|(_, (_, input))| concerns(input));
            let last = pending.map(|((at, _), _)| *at).max().unwrap_or(self.now);
            for end in 0..2 {
                let after = last - self.now + self.delay();
                let peer = Self::id(1 - end);
                self.at(after, end, Input::Ended { peer, key, cause: "closed".to_owned() });
            }
        }
    }
}

fn settles_on_one(loss_percent: u32, seed: u64) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(loss_percent, seed);
    let apart = pair.rng.random_range(0..120);
    pair.at(0, 0, wanted(LARGE, None));
    pair.at(apart, 1, wanted(SMALL, None));
    pair.run();
    let used = [pair.ends[0].current(&LARGE), pair.ends[1].current(&SMALL)];
    prop_assert!(used[0].is_some());
    prop_assert_eq!(used[0], used[1], "both ends use the same connection");
    prop_assert_eq!(pair.open.len(), 1, "and there is no other");
    prop_assert!(pair.dials <= 2, "{} dials", pair.dials);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn simultaneous_dials_settle_on_one_connection(seed in any::<u64>()) {
        settles_on_one(0, seed)?;
    }

    #[test]
    fn simultaneous_dials_settle_on_one_connection_with_loss(seed in any::<u64>()) {
        settles_on_one(20, seed)?;
    }
}

#[test]
fn everybody_who_wants_a_peer_waits_on_one_dial() {
    let mut links = Links::new(SMALL, 1);
    let number = dial_number(&links.handle(wanted(LARGE, Some(1))));
    for waiter in 2..5 {
        assert!(links.handle(wanted(LARGE, Some(waiter))).is_empty());
    }
    links.handle(Input::GaveUp { peer: LARGE, waiter: Waiter(3) });
    let outputs = links.handle(established(LARGE, SMALL, number, 1));
    let ready = outputs.iter().filter_map(|output| match output {
        Output::Ready { waiter, .. } => Some(waiter.0),
        _ => None,
    });
    assert_eq!(ready.collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn a_failed_dial_is_told_to_every_waiter_and_the_next_one_dials_again() {
    let mut links = Links::new(SMALL, 1);
    let number = dial_number(&links.handle(wanted(LARGE, Some(1))));
    links.handle(wanted(LARGE, Some(2)));
    let outputs = links.handle(failed(LARGE, number));
    assert_eq!(outputs.iter().filter(|output| matches!(output, Output::Failed { .. })).count(), 2);
    assert!(matches!(outputs.last(), Some(Output::Unreached { .. })));
    assert!(dial_number(&links.handle(wanted(LARGE, Some(3)))) > number);
}

#[test]
fn an_inbound_connection_serves_who_waits_for_a_dial() {
    let mut links = Links::new(LARGE, 1);
    let number = dial_number(&links.handle(wanted(SMALL, Some(1))));
    let outputs = links.handle(established(SMALL, SMALL, 8, 1));
    assert!(outputs.iter().any(|output| matches!(output, Output::Ready { waiter: Waiter(1), .. })));
    assert!(outputs.contains(&Output::AbandonDial { peer: SMALL, number }), "it could only lose");
    assert!(links.handle(failed(SMALL, number)).is_empty());
}

#[test]
fn only_the_end_that_dialled_the_loser_retires_it() {
    let (theirs, ours) = (5, 6);
    let mut smaller = Links::new(SMALL, 1);
    smaller.handle(established(LARGE, LARGE, theirs, 1));
    let outputs = smaller.handle(established(LARGE, SMALL, ours, 1));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Retire { .. } | Output::Close { .. })));

    let mut larger = Links::new(LARGE, 1);
    larger.handle(established(SMALL, LARGE, theirs, 1));
    let outputs = larger.handle(established(SMALL, SMALL, ours, 1));
    let key = ConnectionKey::direct(LARGE, theirs);
    assert!(outputs.iter().any(|output| matches!(output, Output::Retire { key: lost, .. } if *lost == key)));
}

#[test]
fn a_connection_to_a_process_that_is_gone_does_not_stand_in_the_way() {
    let mut links = Links::new(SMALL, 1);
    links.handle(established(LARGE, SMALL, 9, 1));
    let outputs = links.handle(established(LARGE, LARGE, 1, 2));
    let dead = ConnectionKey::direct(SMALL, 9);
    assert!(outputs.contains(&Output::Close { peer: LARGE, key: dead }));
    assert_eq!(links.current(&LARGE), Some(ConnectionKey::direct(LARGE, 1)));
}

#[test]
fn dial_numbers_grow_over_restarts() {
    let first = dial_number(&Links::new(SMALL, 1).handle(wanted(LARGE, None)));
    let later = dial_number(&Links::new(SMALL, 2).handle(wanted(LARGE, None)));
    assert!(later > first);
}

#[test]
fn a_dropped_peer_can_be_dialled_at_once_though_its_connection_has_not_ended_yet() {
    let mut links = Links::new(SMALL, 1);
    links.handle(established(LARGE, SMALL, 9, 1));
    let outputs = links.handle(Input::Drop { peer: LARGE, cause: "it does not answer".to_owned() });
    assert!(matches!(outputs.as_slice(), [Output::Close { .. }, Output::Down { .. }]));
    dial_number(&links.handle(wanted(LARGE, None)));
    let key = ConnectionKey::direct(SMALL, 9);
    assert!(links.handle(Input::Ended { peer: LARGE, key, cause: "closed".to_owned() }).is_empty());
}

#[test]
fn membership_is_always_answered_even_when_the_peer_is_linked() {
    let mut links = Links::new(SMALL, 1);
    links.handle(established(LARGE, SMALL, 9, 1));
    assert!(matches!(links.handle(wanted(LARGE, None)).as_slice(), [Output::Up { .. }]));
}

#[test]
fn a_peer_that_opens_too_many_connections_or_invents_names_is_refused() {
    let mut links = Links::new(SMALL, 1);
    let most = u64::try_from(CONNECTIONS_PER_PEER_MAX).unwrap();
    for number in 1..=most {
        links.handle(established(LARGE, LARGE, number, 1));
    }
    for key in [(LARGE, most + 1), (NodeId::from_bytes([3; 32]), 1)] {
        let outputs = links.handle(established(LARGE, key.0, key.1, 1));
        assert!(matches!(outputs.as_slice(), [Output::Refuse { .. }]), "{outputs:?}");
    }
    let used = ConnectionKey::direct(LARGE, most);
    assert_eq!(links.current(&LARGE), Some(used));
}

#[test]
fn a_node_does_not_dial_itself() {
    let outputs = Links::new(SMALL, 1).handle(wanted(SMALL, Some(1)));
    assert!(matches!(outputs.as_slice(), [Output::Failed { .. }]));
}

fn relayed(peer: NodeId, dialler: NodeId, number: u64) -> Input {
    let key = ConnectionKey::relayed(dialler, number);
    Input::Established { peer, key, boot: BootId(1), address: None }
}

fn improve(peer: NodeId) -> Input {
    Input::Improve { peer, addresses: vec!["127.0.0.1:1".parse().unwrap()] }
}

#[test]
fn a_direct_link_beats_a_relayed_one_whoever_dialled_and_in_whatever_order_they_come() {
    let (by_larger, by_smaller) = (established(LARGE, LARGE, 1, 1), relayed(LARGE, SMALL, 900));
    for order in [[by_larger.clone(), by_smaller.clone()], [by_smaller, by_larger]] {
        let mut links = Links::new(SMALL, 1);
        let outputs: Vec<Output> = order.into_iter().flat_map(|input| links.handle(input)).collect();
        assert_eq!(links.current(&LARGE), Some(ConnectionKey::direct(LARGE, 1)));
        let lost = ConnectionKey::relayed(SMALL, 900);
        assert!(outputs.iter().any(|output| matches!(output, Output::Retire { key, .. } if *key == lost)));
    }
}

#[test]
fn of_two_relayed_links_both_ends_keep_the_same() {
    let inputs = |peer| [relayed(peer, LARGE, 900), relayed(peer, SMALL, 3)];
    for (me, peer) in [(SMALL, LARGE), (LARGE, SMALL)] {
        let mut links = Links::new(me, 1);
        inputs(peer).into_iter().for_each(|input| drop(links.handle(input)));
        assert_eq!(links.current(&peer), Some(ConnectionKey::relayed(SMALL, 3)));
    }
}

#[test]
fn a_relayed_peer_is_dialled_for_a_direct_link_and_keeps_what_it_has_when_that_fails() {
    let mut links = Links::new(SMALL, 1);
    assert!(links.handle(improve(LARGE)).is_empty(), "who is not linked is dialled because it is wanted");
    links.handle(relayed(LARGE, LARGE, 5));
    let number = dial_number(&links.handle(improve(LARGE)));
    assert!(links.handle(improve(LARGE)).is_empty(), "one dial at a time");
    assert!(links.handle(failed(LARGE, number)).is_empty());
    assert_eq!(links.current(&LARGE), Some(ConnectionKey::relayed(LARGE, 5)));

    let number = dial_number(&links.handle(improve(LARGE)));
    let outputs = links.handle(established(LARGE, SMALL, number, 1));
    assert!(matches!(outputs.as_slice(), [Output::Up { .. }]), "{outputs:?}");
    assert!(links.handle(improve(LARGE)).is_empty(), "there is nothing better than a direct link");
}

#[test]
fn a_relayed_link_does_not_end_a_dial_that_may_be_direct() {
    let mut links = Links::new(LARGE, 1);
    let number = dial_number(&links.handle(wanted(SMALL, None)));
    let outputs = links.handle(relayed(SMALL, SMALL, 8));
    assert!(!outputs.contains(&Output::AbandonDial { peer: SMALL, number }));
    links.handle(established(SMALL, LARGE, number, 1));
    assert_eq!(links.current(&SMALL), Some(ConnectionKey::direct(LARGE, number)));
}
