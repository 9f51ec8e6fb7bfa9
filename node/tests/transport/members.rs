//! Members among themselves.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mesh_node::identity::{Exclusion, Refusal};
use mesh_node::transport::{CloseReason, DialCause, PeerRefusal, Settings};
use mesh_node_core::links::{ConnectionKey, FailureKind};
use mesh_protocol::close::CloseCode;
use mesh_protocol::hello::Features;
use mesh_protocol::peer::BootId;
use mesh_protocol::record::RecordVersion;
use mesh_protocol::stream::StreamKind;

use super::fixture::*;

#[tokio::test]
async fn two_members_know_each_other_and_exchange_frames_and_datagrams() {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    let (at_a, at_b) = connect(&a, &b).await;
    assert_eq!((at_a.peer(), at_b.peer()), (b.id, a.id));

    let (mut ask, mut answer) = at_a.open(StreamKind::Question).await.unwrap();
    ask.send_frame(b"who?", 100).await.unwrap();
    ask.finish().unwrap();
    let (kind, mut reply, mut asked) = soon(at_b.accept_stream()).await.unwrap();
    assert_eq!(kind, StreamKind::Question);
    assert_eq!(soon(asked.receive_frame(100)).await.unwrap().as_deref(), Some(b"who?".as_slice()));
    assert_eq!(soon(asked.receive_frame(100)).await.unwrap(), None);
    reply.send_frame(b"me", 100).await.unwrap();
    reply.finish().unwrap();
    assert_eq!(soon(answer.receive_frame(100)).await.unwrap().as_deref(), Some(b"me".as_slice()));

    at_b.send_datagram(b"ping").unwrap();
    assert_eq!(soon(at_a.receive_datagram()).await.unwrap().as_ref(), b"ping");
}

#[tokio::test]
async fn both_ends_name_a_connection_the_same_and_know_what_the_other_said_of_itself() {
    let mesh = Mesh::new(1);
    let featured = Settings { features: Features(0b11), ..settings(1) };
    let a = Member::start(mesh.credentials(1), START_WALL_MS, featured);
    let b = Member::start(
        mesh.credentials(2),
        START_WALL_MS,
        Settings { features: Features(0b10), ..settings(2) },
    );
    a.endpoint.set_record(RecordVersion { epoch: 7, ver: 3 });
    let plan = plan(&[b.address]);
    let dialled = a.endpoint.dial(b.id, 41, &plan);
    let (at_a, at_b) = tokio::join!(dialled, b.accept());
    let at_a = at_a.unwrap();
    assert_eq!(at_a.key(), ConnectionKey::direct(a.id, 41));
    assert_eq!(at_b.key(), at_a.key());
    assert_eq!((at_a.boot(), at_b.boot()), (BootId(2), BootId(1)));
    assert_eq!((at_a.features(), at_b.features()), (Features(0b10), Features(0b10)));
    assert_eq!(at_b.record(), RecordVersion { epoch: 7, ver: 3 });
    assert_eq!(at_a.observed_address(), Some(a.address));
    assert_eq!(at_b.remote_address(), a.address);
}

#[tokio::test]
async fn another_member_at_the_address_is_refused_by_the_dialler() {
    let mesh = Mesh::new(1);
    let (a, b, c) = (mesh.member(1), mesh.member(2), mesh.member(3));
    let error = a.dial_at(b.id, c.address).await.unwrap_err();
    assert_eq!(error.cause, DialCause::NotBelieved(Refusal::OtherNode(c.id)));
    assert_eq!(error.cause.kind(), FailureKind::Passing, "an old address, not a bad peer");
}

#[tokio::test]
async fn a_node_does_not_connect_to_itself() {
    let mesh = Mesh::new(1);
    let a = mesh.member(1);
    let error = a.dial_at(a.id, a.address).await.unwrap_err();
    assert!(matches!(error.cause, DialCause::Ended(CloseReason::There { code: CloseCode::FalseHello, .. })));
}

#[tokio::test]
async fn a_revoked_node_is_refused_although_it_was_connected_before() {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    let (at_a, _at_b) = connect(&a, &b).await;
    at_a.close(CloseCode::Idle, "");
    b.admission.apply(&mesh.revoke(1, &[a.id]));
    let error = a.dial(&b).await.unwrap_err();
    assert_eq!(error.cause, DialCause::Refused(PeerRefusal::Revoked));
    assert_eq!(error.cause.kind(), FailureKind::Refused);
    let error = b.dial(&a).await.unwrap_err();
    assert_eq!(error.cause, DialCause::NotBelieved(Refusal::Excluded(Exclusion::Revoked)));
}

#[tokio::test]
async fn revoking_cuts_a_live_connection_at_once() {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    let (at_a, at_b) = connect(&a, &b).await;
    let (mut sender, _receiver) = at_a.open(StreamKind::Outbox).await.unwrap();
    b.admission.apply(&mesh.revoke(1, &[a.id]));
    let there = soon(at_a.closed()).await;
    assert_eq!(there, CloseReason::There { code: CloseCode::Revoked, text: String::new() });
    assert_eq!(soon(at_b.closed()).await, CloseReason::Here(CloseCode::Revoked));
    assert!(sender.send_frame(b"late", 100).await.is_err());
}

#[tokio::test]
async fn a_blocked_member_is_cut_and_learns_that_it_is_until_it_is_unblocked() {
    let mesh = Mesh::new(1);
    let (a, b, c) = (mesh.member(1), mesh.member(2), mesh.member(3));
    let (at_a, _at_b) = connect(&a, &b).await;
    let (at_c, _of_c) = connect(&c, &b).await;
    b.admission.block(a.id);
    assert!(matches!(soon(at_a.closed()).await, CloseReason::There { code: CloseCode::Blocked, .. }));
    let error = a.dial(&b).await.unwrap_err();
    assert_eq!(error.cause, DialCause::Refused(PeerRefusal::Blocked));
    at_c.send_datagram(b"still here").unwrap();
    b.admission.unblock(a.id);
    connect(&a, &b).await;
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_from_then_on_and_connections_stay() {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    let (at_a, at_b) = connect(&a, &b).await;
    let mut renewed = mesh.credentials(2);
    renewed.leaf = mesh.root.issue(b.id, START_WALL_MS + YEAR_MS / 365).unwrap();
    b.endpoint.renew(renewed).unwrap();
    at_b.send_datagram(b"same connection").unwrap();
    assert_eq!(soon(at_a.receive_datagram()).await.unwrap().as_ref(), b"same connection");
    connect(&a, &b).await;
}

#[tokio::test]
async fn a_live_address_behind_two_dead_ones_is_reached_before_either_is_given_up() {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    // Bound and never read: packets vanish, as behind a filter.
    let holes = [loopback_socket(), loopback_socket()];
    let mut addresses: Vec<SocketAddr> = holes.iter().map(|hole| hole.local_addr().unwrap()).collect();
    addresses.push(b.address);
    let (started, given_up) = (Instant::now(), settings(1).greeting);
    let plan = plan(&addresses);
    let dialled = a.endpoint.dial(b.id, 1, &plan);
    let (at_a, _at_b) = tokio::join!(dialled, b.accept());
    assert_eq!(at_a.unwrap().remote_address(), b.address);
    let took = started.elapsed();
    eprintln!("reached after {took:?}");
    assert!(took < given_up, "{took:?}");
}

#[tokio::test]
async fn an_address_nobody_listens_at_is_no_answer_within_the_greetings_time() {
    let mesh = Mesh::new(1);
    let brief = Settings { greeting: Duration::from_millis(200), ..settings(1) };
    let a = Member::start(mesh.credentials(1), START_WALL_MS, brief);
    let hole = loopback_socket();
    let error = a.dial_at(mesh.credentials(2).key.node(), hole.local_addr().unwrap()).await.unwrap_err();
    assert_eq!((error.cause, error.address), (DialCause::NoAnswer, Some(hole.local_addr().unwrap())));
    let error = soon(a.endpoint.dial(error.peer, 2, &[])).await.unwrap_err();
    assert_eq!(error.cause, DialCause::NoAddress);
}

#[tokio::test]
async fn a_connection_over_the_limit_is_refused_by_name_and_counted() {
    let mesh = Mesh::new(1);
    let full = Settings { connections_max: 1, ..settings(2) };
    let (a, c) = (mesh.member(1), mesh.member(3));
    let b = Member::start(mesh.credentials(2), START_WALL_MS, full);
    let _first = connect(&a, &b).await;
    assert_eq!(c.dial(&b).await.unwrap_err().cause, DialCause::Busy);
    assert_eq!(b.endpoint.counts().overloaded, 1);
    assert_eq!(b.dial(&c).await.unwrap_err().cause, DialCause::Busy, "its own dials count too");
}

#[tokio::test]
async fn under_load_a_peer_proves_its_address_first_and_gets_in() {
    let mesh = Mesh::new(1);
    let a = mesh.member(1);
    let b = Member::start(mesh.credentials(2), START_WALL_MS, Settings { retry_from: 0, ..settings(2) });
    connect(&a, &b).await;
    assert_eq!(b.endpoint.counts().retried, 1);
    assert_eq!(b.endpoint.counts().accepted, 1);
}

#[tokio::test]
async fn a_connection_ends_when_nobody_holds_it() {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    let (at_a, at_b) = connect(&a, &b).await;
    let clone = at_a.clone();
    drop(at_a);
    at_b.send_datagram(b"a clone holds it").unwrap();
    assert_eq!(soon(clone.receive_datagram()).await.unwrap().as_ref(), b"a clone holds it");
    drop(clone);
    assert!(matches!(soon(at_b.closed()).await, CloseReason::There { code: CloseCode::Idle, .. }));
}

#[tokio::test]
async fn a_closed_endpoint_says_goodbye_and_takes_nothing_more() {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    let (_at_a, at_b) = connect(&a, &b).await;
    a.endpoint.close(CloseCode::Leaving).await;
    assert!(matches!(soon(at_b.closed()).await, CloseReason::There { code: CloseCode::Leaving, .. }));
    assert!(soon(a.endpoint.accept()).await.is_none());
    assert_eq!(a.dial(&b).await.unwrap_err().cause, DialCause::EndpointClosed);
}

#[test]
fn a_peer_that_crashed_and_came_back_is_noticed_at_its_first_packet() {
    let mesh = Mesh::new(1);
    let alive = tokio::runtime::Runtime::new().unwrap();
    let a = alive.block_on(async { mesh.member(1) });
    let crashing = tokio::runtime::Runtime::new().unwrap();
    let b = crashing.block_on(async { mesh.member(2) });
    let (b_id, b_address) = (b.id, b.address);
    let accepted = crashing.spawn(async move {
        let at_a = b.accept().await;
        std::future::pending::<()>().await;
        drop((b, at_a));
    });
    let at_a = alive.block_on(a.dial_at(b_id, b_address)).unwrap();
    // Dropping the runtime drops its tasks where they are: no goodbye is sent by them in order.
    drop(accepted);
    crashing.shutdown_background();

    let again = alive.block_on(async {
        let socket = rebind(b_address).await;
        Member::start_at(socket, mesh.credentials(2), START_WALL_MS, settings(9))
    });
    at_a.send_datagram(b"are you there?").ok();
    let reason = alive.block_on(soon(at_a.closed()));
    assert_eq!(reason, CloseReason::Restarted, "by a stateless reset, not by a goodbye or the idle timeout");
    let (at_a, _) = alive.block_on(connect(&a, &again));
    assert_eq!(at_a.boot(), BootId(9));
}

async fn rebind(address: SocketAddr) -> std::net::UdpSocket {
    let bind = async {
        loop {
            if let Ok(socket) = std::net::UdpSocket::bind(address) {
                return socket;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(bind).await
}
