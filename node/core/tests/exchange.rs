//! Two directories that exchange once hold the same, whatever either held before.

#![expect(clippy::unwrap_used, reason = "a broken test should stop")]

use ed25519_dalek::SigningKey;
use mesh_node_core::directory::exchange::{Exchange, ExchangeError};
use mesh_node_core::directory::{Directory, Taken};
use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::limits::CONTROL_FRAME_BYTES_MAX;
use mesh_protocol::record::{
    AdvertisedAgent, Advertisement, AgentState, Capabilities, Lifecycle, Load, NodeRecord, ProtocolRange,
    RecordVersion, VerifiedRecord,
};
use mesh_protocol::root::RootKey;
use mesh_protocol::sync::{Liveness, SyncFrame};
use proptest::prelude::*;

fn root() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn trusted() -> RootKey {
    RootKey::from_bytes(root().verifying_key().to_bytes())
}

fn record(node: u8, ver: u64, agents: usize) -> VerifiedRecord {
    let key = SigningKey::from_bytes(&[node; 32]);
    let id = NodeId::from_bytes(key.verifying_key().to_bytes());
    let agent = |n| AdvertisedAgent {
        name: format!("agent-{n:02}").parse().unwrap(),
        harness: "command".to_owned(),
        state: AgentState::Online,
        description: "x".repeat(200),
    };
    let record = NodeRecord {
        mesh: trusted().mesh(),
        node: id,
        certificate: Certificate::bare(&root(), id),
        version: RecordVersion { epoch: 1, ver },
        lifecycle: Lifecycle::Up,
        advertisement: Advertisement {
            name: format!("host-{node}").parse().unwrap(),
            addresses: Vec::new(),
            protocol: ProtocolRange { min: 1, max: 1 },
            build: "0.1.0".to_owned(),
            capabilities: Capabilities::default(),
            load: Load::default(),
            agents: (0..agents).map(agent).collect(),
        },
        wall_ms: u64::try_from(agents).unwrap(),
    };
    record.sign(&key).unwrap().verify(&trusted()).unwrap()
}

/// Runs one exchange to its end; how many frames each side sent.
fn exchange(one: &mut Directory, other: &mut Directory) -> [usize; 2] {
    let (mut initiator, first) = Exchange::initiate(one);
    let mut responder = Exchange::respond();
    let mut to_responder = vec![first];
    let mut to_initiator = Vec::new();
    let mut sent = [1, 0];
    while !(to_responder.is_empty() && to_initiator.is_empty()) {
        for body in std::mem::take(&mut to_responder) {
            assert!(body.len() <= CONTROL_FRAME_BYTES_MAX);
            let step = responder.handle(other, |_| Liveness::Unsaid, &body).unwrap();
            step.heard.records.into_iter().for_each(|signed| {
                other.take(signed.verify(&trusted()).unwrap());
            });
            sent[1] += step.send.len();
            to_initiator.extend(step.send);
        }
        for body in std::mem::take(&mut to_initiator) {
            assert!(body.len() <= CONTROL_FRAME_BYTES_MAX);
            let step = initiator.handle(one, |_| Liveness::Unsaid, &body).unwrap();
            step.heard.records.into_iter().for_each(|signed| {
                one.take(signed.verify(&trusted()).unwrap());
            });
            sent[0] += step.send.len();
            to_responder.extend(step.send);
        }
    }
    sent
}

#[test]
fn equal_directories_exchange_two_small_frames() {
    let mut one = Directory::new();
    one.take(record(1, 1, 0));
    let mut other = one.clone();
    assert_eq!(exchange(&mut one, &mut other), [1, 1]);
    let (_, first) = Exchange::initiate(&one);
    assert!(first.len() <= 20);
}

#[test]
fn many_large_records_cross_in_pages_both_ways() {
    let (mut one, mut other) = (Directory::new(), Directory::new());
    for node in 1..=10 {
        one.take(record(node, 1, 60));
        other.take(record(node + 100, 1, 60));
    }
    let sent = exchange(&mut one, &mut other);
    assert_eq!(one.root(), other.root());
    assert_eq!(one.iter().count(), 20);
    assert!(sent[0] > 2 && sent[1] > 2, "{sent:?}");
}

#[test]
fn two_records_of_one_version_end_as_the_same_one_everywhere() {
    let (mut one, mut other) = (Directory::new(), Directory::new());
    one.take(record(1, 1, 1));
    other.take(record(1, 1, 2));
    exchange(&mut one, &mut other);
    assert_eq!(one.root(), other.root());
    assert_eq!(one.take(record(1, 1, 1)), Taken::Stale);
}

#[test]
fn a_peer_that_never_stops_is_stopped() {
    let directory = Directory::new();
    let mut responder = Exchange::respond();
    let root = SyncFrame::Root([9; 16]).encode();
    responder.handle(&directory, |_| Liveness::Unsaid, &root).unwrap();
    let offer = SyncFrame::Offer { wanted: vec![[1; 8]; 600], records: Vec::new(), last: false }.encode();
    responder.handle(&directory, |_| Liveness::Unsaid, &offer).unwrap();
    let second = responder.handle(&directory, |_| Liveness::Unsaid, &offer);
    assert_eq!(second, Err(ExchangeError::TooMuch));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn one_exchange_makes_any_two_directories_equal(
        held in proptest::collection::vec((1_u8..20, 1_u64..4, any::<bool>()), 0..24),
    ) {
        let (mut one, mut other) = (Directory::new(), Directory::new());
        for (node, ver, in_one) in held {
            let directory = if in_one { &mut one } else { &mut other };
            directory.take(record(node, ver, usize::from(node) % 3));
        }
        exchange(&mut one, &mut other);
        prop_assert_eq!(one.root(), other.root());
        prop_assert_eq!(exchange(&mut one, &mut other), [1, 1]);
    }
}
