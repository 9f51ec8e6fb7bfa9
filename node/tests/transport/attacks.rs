//! Peers that cheat or do not keep to the protocol.

use std::time::Duration;

use mesh_node::identity::{NodeKey, Refusal, node_of_leaf};
use mesh_node::transport::{CloseReason, DialCause, Settings};
use mesh_protocol::close::CloseCode;
use mesh_protocol::codec;
use mesh_protocol::hello::{Hello, HelloAck};
use mesh_protocol::id::{MeshId, NodeId};
use mesh_protocol::record::ProtocolRange;
use mesh_protocol::stream::StreamKind;
use rustls::pki_types::CertificateDer;

use super::fixture::*;
use super::raw::*;

/// QUIC's code for a TLS alert (RFC 9001, section 4.8).
const fn alert(number: u64) -> (u64, bool) {
    (0x100 + number, false)
}

fn closed(code: CloseCode) -> (u64, bool) {
    (code.number().into(), true)
}

/// Whom a connection's TLS took the other end for.
fn taken_for(connection: &quinn::Connection) -> NodeId {
    let chain = connection.peer_identity().unwrap().downcast::<Vec<CertificateDer<'static>>>().unwrap();
    node_of_leaf(&chain[0]).unwrap()
}

#[tokio::test]
async fn a_stolen_certificate_with_the_thiefs_key_does_not_dial() {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let victim = mesh.credentials(2);
    let thief = Costume::stolen(&victim, &NodeKey::from_seed(&[9; 32])).endpoint();
    let connection = connect_raw(&thief, member.address).await;
    assert_eq!(closed_with(&connection).await, alert(51), "decrypt_error: the signature is not the victim's");
    assert_eq!(member.endpoint.counts().refused, 1);

    // The check bites: who only asserts it takes the same thief for its victim.
    let gullible = Costume::of(&mesh.credentials(3)).endpoint();
    let address = gullible.local_addr().unwrap();
    let (_at_thief, at_gullible) = tokio::join!(connect_raw(&thief, address), async {
        soon(gullible.accept()).await.unwrap().await.unwrap()
    });
    assert_eq!(taken_for(&at_gullible), victim.key.node());
}

#[tokio::test]
async fn a_stolen_certificate_with_the_thiefs_key_does_not_answer() {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let victim = mesh.credentials(2);
    let thief = Costume::stolen(&victim, &NodeKey::from_seed(&[9; 32])).endpoint();
    let address = thief.local_addr().unwrap();
    let serve = tokio::spawn({
        let thief = thief.clone();
        async move {
            while let Some(incoming) = thief.accept().await {
                let _ = incoming.await;
            }
        }
    });
    let error = member.dial_at(victim.key.node(), address).await.unwrap_err();
    assert_eq!(error.cause, DialCause::NotBelieved(Refusal::NotMember("its signature is not by its key")));

    let gullible = Costume::of(&mesh.credentials(3)).endpoint();
    let fooled = connect_raw(&gullible, address).await;
    assert_eq!(taken_for(&fooled), victim.key.node(), "the check bites");
    serve.abort();
}

#[tokio::test]
async fn a_peer_that_offers_only_x25519_is_refused() {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let weak = Costume::of(&mesh.credentials(2)).only_x25519().endpoint();
    let error = soon(weak.connect(member.address, "any.invalid").unwrap()).await.unwrap_err();
    assert!(
        matches!(&error, quinn::ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == 0x100 + 40),
        "handshake_failure: {error:?}"
    );

    let address = weak.local_addr().unwrap();
    let serve = async {
        let _ = soon(weak.accept()).await.unwrap().await;
    };
    let (dialled, ()) = tokio::join!(member.dial_at(mesh.credentials(2).key.node(), address), serve);
    assert_eq!(dialled.unwrap_err().cause, DialCause::Incompatible);
}

#[tokio::test]
async fn another_major_version_is_incompatible_both_ways() {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let newer = Costume::of(&mesh.credentials(2)).speaking(b"mesh/2").endpoint();
    let error = soon(newer.connect(member.address, "any.invalid").unwrap()).await.unwrap_err();
    assert!(
        matches!(&error, quinn::ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == 0x100 + 120),
        "no_application_protocol: {error:?}"
    );

    let address = newer.local_addr().unwrap();
    let serve = async {
        let _ = soon(newer.accept()).await.unwrap().await;
    };
    let (dialled, ()) = tokio::join!(member.dial_at(mesh.credentials(2).key.node(), address), serve);
    assert_eq!(dialled.unwrap_err().cause, DialCause::Incompatible);
}

#[tokio::test]
async fn no_session_is_resumed_and_no_early_data_is_taken() {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let credentials = mesh.credentials(2);
    // A client that would resume: it keeps tickets and offers early data.
    let eager = Costume::of(&credentials).endpoint();
    let first = connect_raw(&eager, member.address).await;
    say_hello(&first, &hello(credentials.key.node(), &mesh)).await.unwrap();
    first.close(0_u32.into(), b"");
    let again = eager.connect(member.address, "any.invalid").unwrap();
    assert!(again.into_0rtt().is_err(), "there is no ticket to resume with");

    member.admission.apply(&mesh.revoke(1, &[credentials.key.node()]));
    let revoked = connect_raw(&eager, member.address).await;
    assert_eq!(closed_with(&revoked).await, alert(44), "certificate_revoked: it was asked for again");
}

#[tokio::test]
async fn a_peer_without_a_hello_is_closed_in_time_and_counted() {
    let mesh = Mesh::new(1);
    let brief = Settings { greeting: Duration::from_secs(3), ..settings(1) };
    let member = Member::start(mesh.credentials(1), START_WALL_MS, brief);
    let silent = Costume::of(&mesh.credentials(2)).endpoint();
    let connection = connect_raw(&silent, member.address).await;
    assert_eq!(closed_with(&connection).await, closed(CloseCode::NoHello));
    assert_eq!(member.endpoint.counts().silent, 1);
    assert_eq!(member.endpoint.counts().accepted, 0);
}

#[tokio::test]
async fn a_listener_without_an_answer_is_given_up_in_time() {
    let mesh = Mesh::new(1);
    let brief = Settings { greeting: Duration::from_secs(3), ..settings(1) };
    let member = Member::start(mesh.credentials(1), START_WALL_MS, brief);
    let silent = Costume::of(&mesh.credentials(2)).endpoint();
    let address = silent.local_addr().unwrap();
    let serve = async { soon(silent.accept()).await.unwrap().await.unwrap() };
    let (dialled, at_silent) = tokio::join!(member.dial_at(mesh.credentials(2).key.node(), address), serve);
    assert!(matches!(dialled.unwrap_err().cause, DialCause::Ended(_)));
    assert_eq!(closed_with(&at_silent).await, closed(CloseCode::NoHello));
}

#[tokio::test]
async fn a_hello_that_does_not_fit_is_closed_with_its_reason() {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let credentials = mesh.credentials(2);
    let peer = Costume::of(&credentials).endpoint();
    let good = hello(credentials.key.node(), &mesh);
    let mut other_node = good.clone();
    other_node.node = mesh.credentials(3).key.node();
    let mut other_mesh = good.clone();
    other_mesh.mesh = MeshId::from_bytes([0; 16]);
    let mut later = good.clone();
    later.minors = ProtocolRange { min: 900, max: 901 };
    for (hello, code) in [
        (other_node, CloseCode::FalseHello),
        (other_mesh, CloseCode::FalseHello),
        (later, CloseCode::Incompatible),
    ] {
        let connection = connect_raw(&peer, member.address).await;
        say_hello(&connection, &hello).await.unwrap_err();
        assert_eq!(closed_with(&connection).await, closed(code));
    }
    let connection = connect_raw(&peer, member.address).await;
    assert_eq!(say_hello(&connection, &good).await.unwrap().node, member.id, "the good one is taken");
}

#[tokio::test]
async fn bytes_that_are_no_hello_are_a_broken_protocol() {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let peer = Costume::of(&mesh.credentials(2)).endpoint();
    let control = StreamKind::Control.byte();
    let question = StreamKind::Question.byte();
    for bytes in [
        vec![question],
        vec![control, 0xff, 0xff, 0xff, 0xff],
        vec![control, 0, 0, 0, 2, 9, 9],
        vec![control, 0, 0],
    ] {
        let connection = connect_raw(&peer, member.address).await;
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(&bytes).await.unwrap();
        send.finish().unwrap();
        assert_eq!(closed_with(&connection).await, closed(CloseCode::Protocol), "{bytes:?}");
    }
}

/// What a dial makes of a listener by hand that has read the Hello and does this.
async fn dialled_against<F: Future<Output = ()>>(
    then: impl FnOnce(quinn::Connection, quinn::SendStream, Vec<u8>) -> F,
) -> DialCause {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let credentials = mesh.credentials(2);
    let listener = Costume::of(&credentials).endpoint();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let connection = soon(listener.accept()).await.unwrap().await.unwrap();
        let (send, mut receive) = connection.accept_bi().await.unwrap();
        let hello = receive.read_to_end(65_536).await.unwrap();
        then(connection, send, hello).await;
    };
    let (dialled, ()) = tokio::join!(member.dial_at(credentials.key.node(), address), serve);
    dialled.unwrap_err().cause
}

#[tokio::test]
async fn a_listeners_reason_is_heard_even_when_it_gives_the_stream_up_first() {
    let cause = dialled_against(|connection, mut send, _| async move {
        send.reset(1_u32.into()).unwrap();
        // Lets the reset out on its own; the claim holds in either order.
        tokio::task::yield_now().await;
        connection.close(CloseCode::Incompatible.number().into(), b"");
        connection.closed().await;
    });
    assert_eq!(cause.await, DialCause::Incompatible);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused_by_the_dialler() {
    for (edit, code) in [
        ((|ack| ack.node = NodeId::from_bytes([9; 32])) as fn(&mut HelloAck), CloseCode::FalseHello),
        (|ack| ack.minor = 900, CloseCode::Incompatible),
    ] {
        let cause = dialled_against(|connection, mut send, hello| async move {
            let hello: Hello = codec::decode(&hello[5..]).unwrap();
            let mut ack = HelloAck {
                minor: 1,
                features: hello.features,
                node: NodeKey::from_seed(&[2; 32]).node(),
                boot: hello.boot,
                record: hello.record,
                frame_bytes_max: 1_000,
                observed: connection.remote_address(),
            };
            edit(&mut ack);
            send.write_all(&codec::frame(&codec::encode(&ack), 1_000).unwrap()).await.unwrap();
            assert_eq!(closed_with(&connection).await, closed(code));
        });
        let expected = match code {
            CloseCode::Incompatible => DialCause::Incompatible,
            code => DialCause::Ended(CloseReason::Here(code)),
        };
        assert_eq!(cause.await, expected);
    }
}
