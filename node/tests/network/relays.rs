//! Members that do not reach each other and both reach a third.

use mesh_node::network::Tried;
use mesh_node::transport::{Connection, Endpoint, Receiver, Sender};
use mesh_node_core::links::{Path, plan};
use mesh_protocol::close::CloseCode;
use mesh_protocol::codec::{decode, encode};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::PeerState;
use mesh_protocol::policy::Trust;
use mesh_protocol::relay::{RELAY_FRAME_BYTES_MAX, RelayAnswer, RelayRefusal, RelayRequest};
use mesh_protocol::stream::StreamKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::member::{Member, Mesh, until};

/// A relay that reaches everybody, and two members with a wall between them.
async fn walled(mesh: &Mesh) -> (Member, Member, Member) {
    mesh.air.part(Mesh::address(2), Mesh::address(3));
    let relay = mesh.start(1, Vec::new());
    let record = relay.record().await;
    let (a, b) = (mesh.start(2, vec![record.clone()]), mesh.start(3, vec![record]));
    (relay, a, b)
}

fn through(relay: &Member) -> impl Fn(Path) -> bool {
    let via = relay.id;
    move |path| path == Path::Relayed { via }
}

async fn carrier(from: &Endpoint, to: &Member, number: u64) -> Connection {
    from.dial_carrier(to.id, number, &plan(&[to.address], None, 0)).await.unwrap()
}

async fn ask(carrier: &Connection, request: RelayRequest) -> (RelayAnswer, Sender, Receiver) {
    let (mut sender, mut receiver) = carrier.open(StreamKind::Relay).await.unwrap();
    sender.send_frame(&encode(&request), RELAY_FRAME_BYTES_MAX).await.unwrap();
    let answer = receiver.receive_frame(RELAY_FRAME_BYTES_MAX).await.unwrap().expect("an answer");
    (decode(&answer).unwrap(), sender, receiver)
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_linked_through_a_third_until_the_wall_falls() {
    let mesh = Mesh::new();
    let (relay, a, b) = walled(&mesh).await;
    a.path_when(&b, "a reaches b through the relay", through(&relay)).await;
    b.path_when(&a, "b reaches a through the relay", through(&relay)).await;
    assert_eq!(a.state(&b), Some(PeerState::Alive), "a relayed link is a link");
    let (path, _) = a.network.ping(b.id).await.expect("it answers");
    assert_eq!(path, Path::Relayed { via: relay.id });
    let [(by, Some(reach))] = a.network.reach_of(b.id).await[..] else { panic!("the relay is asked") };
    assert!(by == relay.id && reach.alive && reach.direct && reach.carries, "{reach:?}");
    let counts = relay.network.relay_counts();
    assert!(counts.pairs >= 1 && counts.packets > 10 && counts.refused.is_empty(), "{counts:?}");

    mesh.air.unite(a.address, b.address);
    a.path_when(&b, "a direct link takes over", |path| path == Path::Direct(b.address)).await;
    b.path_when(&a, "at both ends", |path| path == Path::Direct(a.address)).await;
    assert_eq!(a.state(&b), Some(PeerState::Alive));
    until("the relay carries nothing more", || (relay.network.relay_counts().pairs == 0).then_some(())).await;
    let was = |at: &Member, peer: &Member, way: Path, outcome: &str| {
        let tried = at.network.tried(peer.id);
        tried.iter().any(|tried: &Tried| tried.way == Some(way) && tried.outcome.contains(outcome))
    };
    for (at, peer) in [(&a, &b), (&b, &a)] {
        assert!(was(at, peer, Path::Relayed { via: relay.id }, "linked"), "{:?}", at.network.tried(peer.id));
        assert!(was(at, peer, Path::Direct(peer.address), "linked"), "{:?}", at.network.tried(peer.id));
    }
    let silent = |at: &Member, peer: &Member| was(at, peer, Path::Direct(peer.address), "no answer");
    assert!(silent(&a, &b) || silent(&b, &a), "whose dial went through the relay had no direct answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_say_nowhere_where_they_are_are_linked_through_a_third() {
    let mesh = Mesh::new();
    let relay = mesh.start(1, Vec::new());
    let record = relay.record().await;
    let (a, b) = (mesh.start_hidden(2, vec![record.clone()]), mesh.start_hidden(3, vec![record]));
    a.path_when(&b, "a reaches b through the relay", through(&relay)).await;
    b.path_when(&a, "b reaches a through the relay", through(&relay)).await;
    let (path, _) = a.network.ping(b.id).await.expect("it answers");
    assert_eq!(path, Path::Relayed { via: relay.id });

    relay.grants(Trust::None);
    let said = "it advertises no address, and no member linked here carries to it";
    until("who may not be carried to is told so", || {
        let tried = a.network.tried(b.id);
        (a.network.path(b.id).is_none() && tried.iter().any(|tried| tried.outcome == said)).then_some(())
    })
    .await;
    relay.grants(Trust::Mine);
    a.path_when(&b, "it is tried again", through(&relay)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_reached_through_a_member_that_does_not_let_them_and_the_history_says_so() {
    let mesh = Mesh::new();
    mesh.air.part(Mesh::address(2), Mesh::address(3));
    let relay = mesh.start(1, Vec::new());
    relay.grants(Trust::Team);
    let record = relay.record().await;
    let (a, b) = (mesh.start(2, vec![record.clone()]), mesh.start(3, vec![record]));
    let refused = until("the refusal is in the history", || {
        let tried = a.network.tried(b.id);
        tried.into_iter().find(|tried| tried.way == Some(Path::Relayed { via: relay.id }))
    });
    assert_eq!(refused.await.outcome, "it does not let this node relay");
    assert_eq!((a.network.path(b.id), a.network.ping(b.id).await), (None, None));
    assert_ne!(a.state(&b), Some(PeerState::Alive));

    relay.grants(Trust::Mine);
    a.path_when(&b, "it is tried again", through(&relay)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_taken_back_ends_what_was_carried() {
    let mesh = Mesh::new();
    let (relay, a, b) = walled(&mesh).await;
    a.path_when(&b, "a reaches b through the relay", through(&relay)).await;
    relay.grants(Trust::None);
    until("nothing is carried", || (relay.network.relay_counts().pairs == 0).then_some(())).await;
    until("the link is gone", || a.network.path(b.id).is_none().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_does_not_ask_first_is_refused_with_the_reason_and_counted() {
    let mesh = Mesh::new();
    let (relay, a, _b) = walled(&mesh).await;
    let hostile = mesh.endpoint(9);
    until("a is linked", || relay.network.path(a.id)).await;
    relay.grants(Trust::Team);
    let carrier = carrier(&hostile, &relay, 1).await;
    let me = mesh_node::identity::NodeKey::from_seed(&[9; 32]).node();
    let refusals = [
        (RelayRequest::Carry { to: a.id }, RelayRefusal::NotAllowed),
        (RelayRequest::Carry { to: relay.id }, RelayRefusal::Impossible),
        (RelayRequest::Carry { to: me }, RelayRefusal::Impossible),
        (RelayRequest::Arrive { from: relay.id }, RelayRefusal::Impossible),
    ];
    for (request, refusal) in refusals {
        assert_eq!(ask(&carrier, request).await.0, RelayAnswer::Refused(refusal), "{request:?}");
    }
    relay.grants(Trust::Mine);
    let nobody = RelayRequest::Carry { to: NodeId::from_bytes([77; 32]) };
    assert_eq!(ask(&carrier, nobody).await.0, RelayAnswer::Refused(RelayRefusal::NotLinked));
    let (mut sender, _receiver) = carrier.open(StreamKind::Relay).await.unwrap();
    sender.send_frame(&[0xff; 40], RELAY_FRAME_BYTES_MAX).await.unwrap();
    until("what is no request is counted", || (relay.network.relay_counts().malformed == 1).then_some(()))
        .await;
    let counts = relay.network.relay_counts();
    assert_eq!(counts.refused.values().sum::<u64>(), 5, "{counts:?}");
    assert_eq!(counts.refused.get(&RelayRefusal::Impossible), Some(&3));
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_and_carriers_of_one_peer_are_bounded_and_others_are_served_on() {
    let mesh = Mesh::new();
    let (relay, a, b) = walled(&mesh).await;
    let hostile = mesh.endpoint(9);
    until("a is linked", || relay.network.path(a.id)).await;
    let first = carrier(&hostile, &relay, 1).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        let (answer, sender, receiver) = ask(&first, RelayRequest::Carry { to: a.id }).await;
        assert_eq!(answer, RelayAnswer::Accepted);
        open.push((sender, receiver));
    }
    let (answer, ..) = ask(&first, RelayRequest::Carry { to: a.id }).await;
    assert_eq!(answer, RelayAnswer::Refused(RelayRefusal::Unwanted), "the target has enough of this one");
    a.path_when(&b, "others are served", |path| path == Path::Relayed { via: relay.id }).await;

    // One more than it may have. Which of them is the one too many is the order in which the relay takes them in.
    let mut closed = tokio::task::JoinSet::new();
    for number in 2..=5 {
        let more = carrier(&hostile, &relay, number).await;
        closed.spawn(async move { more.closed().await });
    }
    let reason = closed.join_next().await.expect("one of them").unwrap();
    assert!(format!("{reason:?}").contains(&format!("{:?}", CloseCode::Busy)), "{reason:?}");
    assert_eq!(relay.network.relay_counts().carriers_refused, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_sends_no_packets_ends_its_own_pair_and_is_counted() {
    let mesh = Mesh::new();
    let relay = mesh.start(1, Vec::new());
    let (asker, hostile) = (mesh.endpoint(8), mesh.endpoint(9));
    let target = mesh_node::identity::NodeKey::from_seed(&[9; 32]).node();
    let _link = hostile.dial(relay.id, 1, &plan(&[relay.address], None, 0)).await.unwrap();
    until("it is linked", || relay.network.path(target)).await;
    let carrier = carrier(&asker, &relay, 1).await;
    let taking = async {
        let carrier = hostile.accept().await.expect("the relay dials it");
        let (_, mut sender, mut receiver) = carrier.accept_stream().await.unwrap();
        let request = receiver.receive_frame(RELAY_FRAME_BYTES_MAX).await.unwrap().expect("a request");
        assert!(matches!(decode(&request).unwrap(), RelayRequest::Arrive { .. }));
        sender.send_frame(&encode(&RelayAnswer::Accepted), RELAY_FRAME_BYTES_MAX).await.unwrap();
        (carrier, sender, receiver)
    };
    let asking = ask(&carrier, RelayRequest::Carry { to: target });
    let ((answer, _sender, mut receiver), mut taken) = tokio::join!(asking, taking);
    assert_eq!(answer, RelayAnswer::Accepted);
    assert_eq!(relay.network.relay_counts().pairs, 1);

    taken.1.write_all(&[0xff, 0xff, 1, 2, 3]).await.unwrap();
    assert!(receiver.read(&mut [0; 1]).await.is_err(), "nothing of it is passed on, and the stream is reset");
    until("the pair is gone", || (relay.network.relay_counts().pairs == 0).then_some(())).await;
    let counts = relay.network.relay_counts();
    assert_eq!((counts.malformed, counts.packets), (1, 0), "{counts:?}");
}
