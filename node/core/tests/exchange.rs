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
    RecordVersion, Unchecked, VerifiedRecord,
};
use mesh_protocol::root::RootKey;
use mesh_protocol::sync::{DIGEST_ROWS_MAX, Liveness, MEMBERS_MAX, ROWS_PER_FRAME_MAX, SyncFrame};
use proptest::prelude::*;

fn root() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn trusted() -> RootKey {
    RootKey::from_bytes(root().verifying_key().to_bytes())
}

fn record(node: u16, ver: u64, agents: usize) -> VerifiedRecord {
    let mut seed = [7; 32];
    seed[..2].copy_from_slice(&node.to_be_bytes());
    let key = SigningKey::from_bytes(&seed);
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
    let wanted = vec![[1; 8]; ROWS_PER_FRAME_MAX];
    let offer = SyncFrame::Offer { wanted, records: Vec::new(), last: false }.encode();
    for _ in 0..MEMBERS_MAX / ROWS_PER_FRAME_MAX {
        responder.handle(&directory, |_| Liveness::Unsaid, &offer).unwrap();
    }
    let last = responder.handle(&directory, |_| Liveness::Unsaid, &offer);
    assert_eq!(last, Err(ExchangeError::TooMuch));
}

#[test]
fn large_directories_compare_buckets_first_and_only_rows_that_may_differ() {
    let size = u16::try_from(DIGEST_ROWS_MAX).unwrap() + 200;
    let (mut one, mut other) = (Directory::new(), Directory::new());
    for node in 0..size {
        let (in_one, in_other) = (node != 5, node != 6);
        let record = record(node, 1, 0);
        if in_one {
            one.take(record.clone());
        }
        if in_other {
            other.take(record);
        }
    }
    other.take(record(7, 2, 0));
    let (initiator, first) = Exchange::initiate(&one);
    drop(initiator);
    let mut responder = Exchange::respond();
    let buckets = responder.handle(&other, |_| Liveness::Unsaid, &first).unwrap().send;
    assert!(buckets[0].len() < 4_200, "hashes, not rows: {} bytes", buckets[0].len());
    exchange(&mut one, &mut other);
    assert_eq!(one.root(), other.root());
    assert_eq!(one.len(), usize::from(size));
    assert_eq!(exchange(&mut one, &mut other), [1, 1]);
}

#[test]
fn the_hash_of_a_directory_is_that_of_its_contents_whatever_their_order_and_past() {
    let records: Vec<VerifiedRecord> = (1..60).map(|node| record(node, 1, 0)).collect();
    let (mut one, mut other) = (Directory::new(), Directory::new());
    records.iter().for_each(|record| _ = one.take(record.clone()));
    records.iter().rev().for_each(|record| _ = other.take(record.clone()));
    assert_eq!(one.root(), other.root());
    let gone = records[0].record().node;
    other.forget(&gone);
    assert_ne!(one.root(), other.root());
    other.take(records[0].clone());
    assert_eq!((one.root(), one.buckets()), (other.root(), other.buckets()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn one_exchange_makes_any_two_directories_equal(
        held in proptest::collection::vec((1_u16..20, 1_u64..4, any::<bool>()), 0..24),
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

#[test]
fn what_is_here_already_is_not_checked_again() {
    let mut directory = Directory::new();
    let (older, newer) = (record(1, 1, 0), record(1, 2, 0));
    let unchecked =
        |directory: &Directory, it: &VerifiedRecord| directory.unchecked(it.record(), it.signed());
    assert_eq!(unchecked(&directory, &older), Unchecked::Both);
    directory.take(older.clone());
    assert_eq!(unchecked(&directory, &older), Unchecked::None);
    assert_eq!(unchecked(&directory, &newer), Unchecked::Owner, "the certificate is the same");
    let mut renewed = newer.record().clone();
    renewed.certificate = Certificate::from_der(vec![0; 16]);
    assert_eq!(directory.unchecked(&renewed, newer.signed()), Unchecked::Both);
}
