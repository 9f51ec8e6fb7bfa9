//! Connections whose packets a third member carries.
//!
//! The relay here is the byte pipe a test makes of two carriers, so that it can also be a hostile one.

use std::sync::Arc;

use mesh_node::limits::{PEER_EXCHANGES_AT_ONCE, PEER_QUESTIONS_AT_ONCE, RELAY_PAIRS_MAX};
use mesh_node::transport::{
    CloseReason, Connection, DialCause, Endpoint, Paths, PeerRefusal, Purpose, Receiver, Sender, Socket,
};
use mesh_node_core::links::{ConnectionKey, Path};
use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use mesh_protocol::stream::StreamKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::fixture::*;

/// A member with an endpoint for relayed connections beside its own.
struct Walled {
    member: Member,
    relayed: Endpoint,
    paths: Arc<Paths>,
}

impl Walled {
    fn start(mesh: &Mesh, seed: u8) -> Self {
        let member = mesh.member(seed);
        let paths = Arc::new(Paths::default());
        let socket = Socket::Paths(Arc::clone(&paths));
        let (credentials, admission) = (mesh.credentials(seed), Arc::clone(&member.admission));
        let clock = HandClock::at(START_WALL_MS);
        let relayed = Endpoint::bind(socket, credentials, admission, clock, settings(seed)).unwrap();
        Self { member, relayed, paths }
    }

    /// A stream of a carrier to the relay, and the relay's end of it.
    async fn carrier(&self, relay: &Member) -> ((Sender, Receiver), (Sender, Receiver), [Connection; 2]) {
        let plan = plan(&[relay.address]);
        let (here, there) =
            tokio::join!(self.member.endpoint.dial_carrier(relay.id, 1, &plan), relay.accept());
        let here = here.unwrap();
        assert_eq!((here.purpose(), there.purpose()), (Purpose::Carrier, Purpose::Carrier));
        let ours = here.open(StreamKind::Relay).await.unwrap();
        let (kind, sender, receiver) = soon(there.accept_stream()).await.unwrap();
        assert_eq!(kind, StreamKind::Relay);
        (ours, (sender, receiver), [here, there])
    }
}

/// What holds a relayed pair together: the relay's tasks, and its carriers.
struct Pipe {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _carriers: Vec<Connection>,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn pipe(mut from: Receiver, mut to: Sender) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

/// Paths of both ends through a relay that is honest and knows no packets, and A's address for B.
async fn join(a: &Walled, b: &Walled, relay: &Member) -> (std::net::SocketAddr, Pipe) {
    let (at_a, from_a, mut carriers) = {
        let (ours, theirs, carriers) = a.carrier(relay).await;
        (ours, theirs, Vec::from(carriers))
    };
    let (at_b, from_b, more) = b.carrier(relay).await;
    carriers.extend(more);
    let tasks = vec![tokio::spawn(pipe(from_a.1, from_b.0)), tokio::spawn(pipe(from_b.1, from_a.0))];
    let address = a.paths.open((relay.id, b.member.id), at_a.1, at_a.0).unwrap();
    b.paths.open((relay.id, a.member.id), at_b.1, at_b.0).unwrap();
    (address, Pipe { tasks, _carriers: carriers })
}

async fn connect_through(a: &Walled, b: &Walled, address: std::net::SocketAddr) -> (Connection, Connection) {
    let plan = plan(&[address]);
    let dial = a.relayed.dial(b.member.id, 7, &plan);
    let (here, there) = soon(async { tokio::join!(dial, b.relayed.accept()) }).await;
    (here.unwrap(), there.unwrap())
}

async fn exchange(from: &Connection, to: &Connection, frames: u32) {
    let (mut sender, _answers) = from.open(StreamKind::Outbox).await.unwrap();
    let send = async {
        for number in 0..frames {
            sender.send_frame(&number.to_be_bytes().repeat(1_000), 4_000).await.unwrap();
        }
        sender.finish().unwrap();
    };
    let receive = async {
        let (_, _sender, mut receiver) = to.accept_stream().await.unwrap();
        let mut count = 0;
        while let Some(frame) = receiver.receive_frame(4_000).await.unwrap() {
            assert_eq!(frame[..4], u32::to_be_bytes(count));
            count += 1;
        }
        count
    };
    let ((), count) = soon(async { tokio::join!(send, receive) }).await;
    assert_eq!(count, frames);
}

#[tokio::test]
async fn two_members_talk_through_a_third_and_both_know_that_they_do() {
    let mesh = Mesh::new(1);
    let (a, b, relay) = (Walled::start(&mesh, 1), Walled::start(&mesh, 2), mesh.member(3));
    let (address, _pipe) = join(&a, &b, &relay).await;
    let (at_a, at_b) = connect_through(&a, &b, address).await;
    assert_eq!((at_a.peer(), at_b.peer()), (b.member.id, a.member.id), "the ends, not the relay");
    assert_eq!(
        (at_a.path(), at_b.path()),
        (Path::Relayed { via: relay.id }, Path::Relayed { via: relay.id })
    );
    assert_eq!((at_a.key(), at_b.key()), (ConnectionKey::relayed(a.member.id, 7), at_a.key()));
    assert_eq!(at_a.observed_address(), None, "an address of a path means nothing at the other end");
    exchange(&at_a, &at_b, 500).await;
    exchange(&at_b, &at_a, 500).await;
    at_b.send_datagram(&[1; 1_100]).unwrap();
    assert_eq!(soon(at_a.receive_datagram()).await.unwrap().len(), 1_100, "the longest probe fits");
}

#[tokio::test]
async fn when_the_relay_goes_the_connection_ends_at_once_and_says_so() {
    let mesh = Mesh::new(1);
    let (a, b, relay) = (Walled::start(&mesh, 1), Walled::start(&mesh, 2), mesh.member(3));
    let (address, pipe) = join(&a, &b, &relay).await;
    let (at_a, at_b) = connect_through(&a, &b, address).await;
    drop(pipe);
    assert_eq!(soon(at_a.closed()).await, CloseReason::Here(CloseCode::PathLost));
    assert_eq!(soon(at_b.closed()).await, CloseReason::Here(CloseCode::PathLost));
}

#[tokio::test]
async fn when_the_connection_ends_its_stream_ends_and_the_other_end_hears_the_reason() {
    let mesh = Mesh::new(1);
    let (a, b, relay) = (Walled::start(&mesh, 1), Walled::start(&mesh, 2), mesh.member(3));
    let (address, pipe) = join(&a, &b, &relay).await;
    let (at_a, at_b) = connect_through(&a, &b, address).await;
    at_a.close(CloseCode::Superseded, "");
    assert!(matches!(soon(at_b.closed()).await, CloseReason::There { code: CloseCode::Superseded, .. }));
    drop((at_a, at_b));
    for carrier in &pipe._carriers {
        soon(carrier.drained()).await;
    }
}

#[tokio::test]
async fn a_relay_that_forges_packets_gets_nobody_in_and_disturbs_no_connection() {
    let mesh = Mesh::new(1);
    let (a, b, relay) = (Walled::start(&mesh, 1), Walled::start(&mesh, 2), mesh.member(3));
    let (address, _pipe) = join(&a, &b, &relay).await;
    let (at_a, at_b) = connect_through(&a, &b, address).await;
    // A second path on which the relay speaks itself: noise, and packets that look like the first connection's.
    let (at_b_stream, mut forger, _carriers) = {
        let (ours, theirs, carriers) = b.carrier(&relay).await;
        (ours, theirs.0, carriers)
    };
    b.paths.open((relay.id, relay.id), at_b_stream.1, at_b_stream.0).unwrap();
    for first in [0x40_u8, 0x45, 0xc0, 0xc3, 0xe1, 0xff] {
        let packet = [&[first][..], &[0, 0, 0, 1, 8], &[7; 1_194]].concat();
        let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
        forger.write_all(&[&length[..], &packet].concat()).await.unwrap();
    }
    exchange(&at_a, &at_b, 100).await;
    assert_eq!(b.relayed.counts().accepted, 1);
    assert_eq!(b.paths.counts().malformed, 0, "whole packets are no fault of the stream");
}

#[tokio::test]
async fn a_stream_that_brings_no_packets_is_given_up_and_counted() {
    let mesh = Mesh::new(1);
    let (b, relay) = (Walled::start(&mesh, 2), mesh.member(3));
    for garbage in [&[0, 0][..], &[0xff, 0xff, 1, 2, 3], &[0x08, 0x01]] {
        let (ours, mut theirs, _carriers) = b.carrier(&relay).await;
        b.paths.open((relay.id, relay.id), ours.1, ours.0).unwrap();
        theirs.0.write_all(garbage).await.unwrap();
        let mut nothing = [0; 1];
        assert!(soon(theirs.1.read(&mut nothing)).await.is_err(), "it is reset");
    }
    assert_eq!(b.paths.counts().malformed, 3);
}

#[tokio::test]
async fn paths_are_bounded_for_each_relay_for_each_peer_and_in_all() {
    let paths = Arc::new(Paths::default());
    let mut far_ends = Vec::new();
    let mut open = |via: u8, peer: u8| {
        let (near, far) = tokio::io::duplex(64);
        far_ends.push(far);
        let (read, write) = tokio::io::split(near);
        paths.open((NodeId::from_bytes([via; 32]), NodeId::from_bytes([peer; 32])), read, write).is_ok()
    };
    assert_eq!((0..9).filter(|_| open(0, 200)).count(), 4, "to one peer, through one relay");
    assert!(!open(1, 200), "or through another");
    assert_eq!((0..100).filter(|peer| open(0, *peer)).count(), 60, "through one relay");
    let rest = (1..7_u8).flat_map(|via| (0..64_u8).map(move |peer| (via, peer)));
    assert_eq!(rest.filter(|(via, peer)| open(*via, peer.wrapping_add(via.wrapping_mul(31)))).count(), 192);
}

#[tokio::test]
async fn a_relayed_connection_carries_no_carrier() {
    let mesh = Mesh::new(1);
    let (a, b, relay) = (Walled::start(&mesh, 1), Walled::start(&mesh, 2), mesh.member(3));
    let (address, _pipe) = join(&a, &b, &relay).await;
    let error = soon(a.relayed.dial_carrier(b.member.id, 8, &plan(&[address]))).await.unwrap_err();
    assert_eq!(error.cause, DialCause::Incompatible);
}

#[tokio::test]
async fn an_outsider_and_a_revoked_member_are_refused_through_a_relay_as_they_are_directly() {
    let (mesh, other) = (Mesh::new(1), Mesh::new(2));
    let (a, b, relay) = (Walled::start(&mesh, 1), Walled::start(&mesh, 2), mesh.member(3));
    let stranger = Walled::start(&other, 4);
    // A relay that lets a stranger in: what carries packets need not be a member at all.
    let (near, far) = tokio::io::duplex(64 * 1024);
    let ((read, write), (read_far, write_far)) = (tokio::io::split(near), tokio::io::split(far));
    b.paths.open((relay.id, stranger.member.id), read_far, write_far).unwrap();
    let hole = stranger.paths.open((relay.id, b.member.id), read, write).unwrap();
    let error = soon(stranger.relayed.dial(b.member.id, 7, &plan(&[hole]))).await.unwrap_err();
    assert!(matches!(error.cause, DialCause::NotBelieved(_)), "{error:?}");

    let (address, _pipe) = join(&a, &b, &relay).await;
    b.member.admission.apply(&mesh.revoke(1, &[a.member.id]));
    let error = soon(a.relayed.dial(b.member.id, 7, &plan(&[address]))).await.unwrap_err();
    assert_eq!(error.cause, DialCause::Refused(PeerRefusal::Revoked));
}

/// Streams that one end may have open before it waits for one to end.
async fn opened_at_once(connection: &Connection) -> usize {
    let mut open = Vec::new();
    let within = std::time::Duration::from_millis(500);
    while let Ok(stream) = tokio::time::timeout(within, connection.open(StreamKind::Relay)).await {
        open.push(stream.unwrap());
    }
    open.len()
}

#[tokio::test]
async fn a_carrier_has_room_for_every_pair_and_a_link_for_fewer_streams() {
    let mesh = Mesh::new(1);
    let (a, relay) = (Walled::start(&mesh, 1), mesh.member(2));
    let (_ours, _theirs, [carrier, _there]) = a.carrier(&relay).await;
    // Hello's and one more are open already.
    assert_eq!(opened_at_once(&carrier).await, RELAY_PAIRS_MAX - 2);
    let (link, _there) = connect(&a.member, &relay).await;
    let on_link = opened_at_once(&link).await;
    assert!((PEER_QUESTIONS_AT_ONCE + PEER_EXCHANGES_AT_ONCE..RELAY_PAIRS_MAX).contains(&on_link));
}
