//! A member that turned hostile: what it sends is refused, counted and bounded, and the others do not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use mesh_node::identity::NodeKey;
use mesh_node::service::MessageFilter;
use mesh_node_core::machine::DEFECT;
use mesh_protocol::api::ask::AskCommand;
use mesh_protocol::codec::encode;
use mesh_protocol::id::{ConversationId, MeshId, MessageId, NodeId};
use mesh_protocol::message::{PeerMessage, Post, Requester};
use mesh_protocol::question::Question;
use mesh_protocol::record::{
    AdvertisedAgent, Advertisement, AgentState, Capabilities, Lifecycle, Load, NodeRecord, ProtocolRange,
    RECORD_BYTES_MAX, RecordVersion, SignedRecord,
};
use mesh_protocol::stream::{StopCode, StreamKind};
use mesh_tests::network::Network;
use tokio::task::JoinSet;

use crate::impostor::{Impostor, dial};
use crate::insider::{Insider, ended, framed};
use crate::node::{NO_JOBS, Node, PORT, agent};

/// Two honest nodes, of which the first has an agent, and a member of their mesh that is about to turn.
async fn mesh(network: &Network, root: &std::path::Path) -> (Node, Node, Node) {
    let echo = format!("{NO_JOBS}{}", agent("echo", "cat"));
    let sink = format!("{NO_JOBS}{}", agent("sink", "cat > /dev/null"));
    let atlas = Node::found(root, network.host(0), "atlas", &echo).await;
    let vega = atlas.join(root, network.host(1), "vega", NO_JOBS).await;
    let nova = atlas.join(root, network.host(2), "nova", &sink).await;
    vega.peer_when("nova", "linked", |peer| peer.path.is_some()).await;
    let receipt = vega.ask("@echo", "first", None).await;
    vega.ended(&receipt).await;
    (atlas, vega, nova)
}

fn record(mesh: MeshId, node: NodeId, insider: &Insider, name: &str) -> NodeRecord {
    let echo = AdvertisedAgent {
        name: "echo".parse().unwrap(),
        harness: "command".into(),
        state: AgentState::Online,
        description: String::new(),
    };
    NodeRecord {
        mesh,
        node,
        certificate: insider.certificate.clone(),
        version: RecordVersion { epoch: 1_000, ver: 1 },
        lifecycle: Lifecycle::Up,
        advertisement: Advertisement {
            name: name.parse().unwrap(),
            addresses: vec!["10.77.0.3:7370".parse().unwrap()],
            protocol: ProtocolRange { min: 1, max: 1 },
            build: String::new(),
            capabilities: Capabilities::default(),
            load: Load::default(),
            agents: vec![echo],
        },
        wall_ms: 0,
    }
}

/// The record of a node that an insider made up, with the one certificate that it has.
fn invented(insider: &Insider) -> SignedRecord {
    let key = SigningKey::from_bytes(NodeKey::generate().unwrap().node().as_bytes());
    let node = NodeId::from_bytes(key.verifying_key().to_bytes());
    record(insider.mesh, node, insider, "ghost").sign(&key).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_a_member_may_not_spread_change_nothing_and_are_counted() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, vega, nova) = mesh(&network, root.path()).await;
    let insider = Insider::replace(nova, &atlas).await;
    atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await;
    let vegas = vega.client.status().await.unwrap().node;

    // In vega's name and about vega's agents; for another mesh; of a node that it made up; too large; nonsense.
    let claims_vegas_agents = insider.sign(&record(insider.mesh, vegas, &insider, "vega"));
    let elsewhere = insider.sign(&record(MeshId::from_bytes([9; 16]), insider.id(), &insider, "nova"));
    let invented = invented(&insider);
    let oversize = SignedRecord { body: vec![2; RECORD_BYTES_MAX + 1], signature: [0; 64] };
    let malformed = SignedRecord { body: vec![2, 1, 1], signature: [0; 64] };
    insider.offer(vec![claims_vegas_agents, elsewhere, invented, oversize, malformed]).await.unwrap();

    let seen = atlas.peer_when("nova", "all five are counted", |peer| peer.dropped.total() == 5).await;
    let dropped = seen.dropped;
    assert_eq!((dropped.foreign_signature, dropped.other_mesh, dropped.not_a_member), (1, 1, 1));
    assert_eq!((dropped.oversize, dropped.malformed), (1, 1));
    let names = |status: mesh_protocol::api::node::Status| {
        status.peers.into_iter().map(|peer| peer.name).collect::<Vec<_>>()
    };
    for node in [&atlas, &vega] {
        assert!(!names(node.client.status().await.unwrap()).contains(&"ghost".to_owned()));
    }
    // Its own record it may change; what it says in it is then its own.
    let own = NodeRecord {
        version: RecordVersion { epoch: 1_001, ver: 1 },
        ..record(insider.mesh, insider.id(), &insider, "nova")
    };
    insider.offer(vec![insider.sign(&own)]).await.unwrap();
    let vegas_agent = AskCommand {
        to: "@echo.node:vega".into(),
        task: "?".into(),
        request_id: None,
        deadline_seconds: None,
    };
    assert!(atlas.client.ask(&vegas_agent).await.is_err(), "vega never said that it has one");
    let receipt = vega.ask("@echo.node:atlas", "still atlas'", None).await;
    assert_eq!(vega.ended(&receipt).await.target_node, atlas.client.status().await.unwrap().node);

    // Who speaks is what the link says, whatever name the message gives.
    let mut delivery = insider.deliver().await;
    for name in ["operator", "vega/alice", ""] {
        delivery.post(&post(name, &format!("from {name}"))).await;
    }
    delivery.acknowledged().await.unwrap();
    let messages = atlas.client.messages(&MessageFilter::default(), 100).await.unwrap();
    let claimed: Vec<_> = messages.into_iter().filter(|message| message.body.starts_with("from ")).collect();
    assert_eq!(claimed.len(), 3);
    assert!(claimed.iter().all(|message| message.from.starts_with("nova/")), "{claimed:?}");
}

fn post(from: &str, body: &str) -> PeerMessage {
    let fresh = || *NodeKey::generate().unwrap().node().as_bytes().first_chunk::<16>().unwrap();
    PeerMessage::Post(Post {
        conversation: ConversationId::from_bytes(fresh()),
        message: MessageId::from_bytes(fresh()),
        from: Requester { name: from.to_owned() },
        to: "echo".parse().unwrap(),
        body: body.to_owned(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_break_the_protocol_cost_their_stream_and_a_defect_costs_its_sender() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, vega, nova) = mesh(&network, root.path()).await;
    let insider = Insider::replace(nova, &atlas).await;
    atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await;

    // A length of 4 GiB; a frame cut short; bytes that are no frame of the stream's; a stream of no kind there is.
    let too_long = Some(u64::from(StopCode::FrameTooLong.number()));
    for kind in [StreamKind::Outbox, StreamKind::Sync, StreamKind::Question] {
        let huge = insider.open(kind, &[0xff; 4]).await.unwrap();
        let code = ended(huge).await;
        assert!(code == too_long || code == Some(StopCode::Cancelled.number().into()), "{kind:?}: {code:?}");
        let mut cut = insider.open(kind, &[0, 0, 1, 0, 9, 9]).await.unwrap();
        cut.0.finish().unwrap();
        ended(cut).await;
        ended(insider.open(kind, &framed(&[0xee; 64])).await.unwrap()).await;
    }
    let (mut send, receive) = insider.link.open_bi().await.unwrap();
    send.write_all(&[0xee]).await.unwrap();
    assert_eq!(ended((send, receive)).await, Some(StopCode::UnknownKind.number().into()));
    assert!(insider.is_linked(), "only the streams ended");
    let path = atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await.path;
    let _ = insider.connect_again(&atlas).await;
    let after = atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await.path;
    assert_eq!(after, path, "a second connection of one name is refused, and the first stays");
    let mut delivery = insider.deliver().await;
    delivery.send(vec![0xee; 100]).await.unwrap();
    delivery
        .acknowledged()
        .await
        .expect("a message that is not understood is taken, and what follows is not held up");

    if cfg!(debug_assertions) {
        delivery.send(DEFECT.to_vec()).await.unwrap();
        assert!(delivery.acknowledged().await.is_none(), "its session ends");
        let paused = atlas.peer_when("nova", "nothing is taken from it", |peer| peer.paused).await;
        assert!(paused.path.is_some(), "it is there still, to be looked at");
        let warnings = atlas.client.status().await.unwrap().warnings;
        assert!(
            warnings.iter().any(|warning| warning.contains("set aside, the last a parcel")),
            "{warnings:?}"
        );
    }
    let receipt = vega.ask("@echo", "as ever", None).await;
    assert!(vega.ended(&receipt).await.terminal);
}

/// How long the slower of a peer's asks take: the 99th of a hundred.
async fn slow_ask(vega: &Node, what: &str) -> Duration {
    let mut took = Vec::new();
    for number in 0..100 {
        let began = Instant::now();
        let receipt = vega.ask("@echo", &format!("{what} {number}"), None).await;
        vega.ended(&receipt).await;
        took.push(began.elapsed());
    }
    took.sort();
    eprintln!("{what}: median {:?}, 99 of 100 within {:?}", took[49], took[98]);
    took[98]
}

/// Everything a member can send, as fast as it goes, until told to stop.
fn flood(insider: &Arc<Insider>, atlas: &Arc<Node>, stop: &Arc<AtomicBool>) -> JoinSet<()> {
    let mut floods = JoinSet::new();
    let going = |stop: &Arc<AtomicBool>| !stop.load(Ordering::Relaxed);
    let breath = || tokio::time::sleep(Duration::from_millis(5));
    let (it, halt) = (Arc::clone(insider), Arc::clone(stop));
    floods.spawn(async move {
        while going(&halt) {
            (0..50).for_each(|_| drop(it.link.send_datagram(vec![0xee; 900].into())));
            breath().await;
        }
    });
    for _ in 0..16 {
        let (it, halt) = (Arc::clone(insider), Arc::clone(stop));
        floods.spawn(async move {
            let invented = invented(&it);
            while going(&halt) && it.offer(vec![invented.clone(); 10]).await.is_ok() {}
        });
    }
    let (it, halt) = (Arc::clone(insider), Arc::clone(stop));
    floods.spawn(async move {
        let question = framed(&encode(&Question::Revocations(vec![0xee; 100_000])));
        while going(&halt) {
            let Ok(stream) = it.open(StreamKind::Question, &question).await else { return };
            // Not read: what is answered stays in the window.
            drop(stream);
            breath().await;
        }
    });
    let (it, halt) = (Arc::clone(insider), Arc::clone(stop));
    floods.spawn(async move {
        let mut delivery = it.deliver().await;
        let body = encode(&post("alice", &"x".repeat(2_000)));
        while going(&halt) && delivery.send(body.clone()).await.is_ok() {}
    });
    let (it, halt, target) = (Arc::clone(insider), Arc::clone(stop), Arc::clone(atlas));
    floods.spawn(async move {
        let stranger = Impostor::stranger();
        let endpoint = stranger.endpoint(&it.host(), 0);
        while going(&halt) {
            if let Ok(connection) = dial(&endpoint, &target).await {
                connection.closed().await;
            }
            let _ = it.connect_again(&target).await;
            breath().await;
        }
    });
    floods
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_or_a_peer_that_does_not_read_slows_nobody_else() {
    /// How long another peer's slowest asks may take. A node without quotas is stopped by the same flood; what remains
    /// is one processor and one disk under both. How much slower they are than without it is printed, since it is a
    /// figure of the machine.
    const WITHIN: Duration = Duration::from_secs(3);
    /// Mebibytes the node may grow meanwhile: its windows, queues and page cache, and not what was sent.
    const GROWTH_MIB_MAX: u64 = 200;
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, vega, nova) = mesh(&network, root.path()).await;
    let insider = Arc::new(Insider::replace(nova, &atlas).await);
    atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await;
    let atlas = Arc::new(atlas);
    let calm = slow_ask(&vega, "calm").await;
    let before = atlas.resident_mib();

    // Hundreds of handshakes at once: strangers have to prove their address before they cost a signature.
    let strangers = Impostor::stranger().endpoint(&insider.host(), 0);
    let mut handshakes = JoinSet::new();
    for _ in 0..300 {
        let connecting = strangers.connect(atlas.host.at(PORT), "any.invalid").unwrap();
        handshakes.spawn(async move { drop(connecting.await) });
    }
    handshakes.join_all().await;
    let counted = atlas.client.status().await.unwrap().connections;
    assert!(counted.retried > 0, "{counted:?}");

    let stop = Arc::new(AtomicBool::new(false));
    let floods = flood(&insider, &atlas, &stop);
    let flooded = slow_ask(&vega, "flooded").await;
    // As long as it takes until each kind of it was too much.
    let too_much = atlas.peer_when("nova", "over its quotas", |peer| {
        let over = peer.over_quota;
        over.datagrams > 0 && over.exchanges > 0 && over.questions > 0
    });
    too_much.await;
    stop.store(true, Ordering::Relaxed);
    floods.join_all().await;
    assert!(flooded <= WITHIN, "{flooded:?} under the flood, {calm:?} without");
    let status = atlas.client.status().await.unwrap();
    let seen = status.peers.iter().find(|peer| peer.name == "nova").unwrap();
    assert!(seen.dropped.not_a_member > 0 && seen.dropped.malformed > 0, "{:?}", seen.dropped);
    assert!(status.connections.refused > 0, "{:?}", status.connections);
    assert_eq!(status.peers.len(), 2, "nobody was made up");

    // Every stream it may have, open and silent; and 40 MiB for it that it does not read.
    // (Its own flood may have drowned its answers to probes, and then it lost its link.)
    let insider = insider.link_anew(&atlas).await;
    atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await;
    let mut held = Vec::new();
    // One more has to wait until one of them is given up.
    while let Ok(stream) = tokio::time::timeout(Duration::from_secs(1), insider.link.open_bi()).await {
        held.push(stream.unwrap());
    }
    assert!(held.len() > 30, "{} streams", held.len());
    let large = "x".repeat(1_000_000);
    for _ in 0..40 {
        atlas.tell("@sink", &large).await;
    }
    let unread = slow_ask(&vega, "beside a peer that does not read").await;
    assert!(unread <= WITHIN, "{unread:?} beside a slow reader, {calm:?} without");
    let grown = atlas.resident_mib().saturating_sub(before);
    eprintln!("grown by {grown} MiB; {:?}", seen.over_quota);
    assert!(grown <= GROWTH_MIB_MAX, "{grown} MiB");
}
