//! Streams and datagrams of one connection.

use mesh_node::transport::{CloseReason, Connection, DatagramError, StreamError};
use mesh_protocol::close::CloseCode;
use mesh_protocol::limits::DATAGRAM_BYTES_MAX;
use mesh_protocol::stream::{StopCode, StreamKind};

use super::fixture::*;
use super::raw::*;

async fn pair() -> (Member, Member, Connection, Connection) {
    let mesh = Mesh::new(1);
    let (a, b) = (mesh.member(1), mesh.member(2));
    let (at_a, at_b) = connect(&a, &b).await;
    (a, b, at_a, at_b)
}

/// A member by hand behind a real one's listener, after its Hello.
async fn hand_made() -> (Member, quinn::Endpoint, quinn::Connection, Connection) {
    let mesh = Mesh::new(1);
    let member = mesh.member(1);
    let credentials = mesh.credentials(2);
    let endpoint = Costume::of(&credentials).endpoint();
    let raw = connect_raw(&endpoint, member.address).await;
    say_hello(&raw, &hello(credentials.key.node(), &mesh)).await.unwrap();
    let connection = member.accept().await;
    (member, endpoint, raw, connection)
}

#[tokio::test]
async fn a_frame_over_the_senders_limit_is_not_sent() {
    let (_a, _b, at_a, at_b) = pair().await;
    let (mut sender, _receiver) = at_a.open(StreamKind::Question).await.unwrap();
    assert!(matches!(sender.send_frame(&[0; 11], 10).await, Err(StreamError::TooLong(_))));
    sender.send_frame(&[1; 10], 10).await.unwrap();
    let (_, _reply, mut receiver) = soon(at_b.accept_stream()).await.unwrap();
    assert_eq!(soon(receiver.receive_frame(10)).await.unwrap(), Some(vec![1; 10]));
}

#[tokio::test]
async fn a_frame_over_what_the_peer_takes_is_not_sent() {
    let mesh = Mesh::new(1);
    let a = mesh.member(1);
    let small = mesh_node::transport::Settings { frame_bytes_max: 100, ..settings(2) };
    let b = Member::start(mesh.credentials(2), START_WALL_MS, small);
    let (at_a, _at_b) = connect(&a, &b).await;
    let (mut sender, _receiver) = at_a.open(StreamKind::Question).await.unwrap();
    assert!(matches!(sender.send_frame(&[0; 101], 1_000).await, Err(StreamError::TooLong(_))));
}

#[tokio::test]
async fn a_frame_over_the_receivers_limit_is_refused_by_its_length_alone() {
    let (_member, _endpoint, raw, connection) = hand_made().await;
    let (mut send, _receive) = raw.open_bi().await.unwrap();
    send.write_all(&[StreamKind::Sync.byte(), 0xff, 0xff, 0xff, 0xff]).await.unwrap();
    let (_, _sender, mut receiver) = soon(connection.accept_stream()).await.unwrap();
    assert!(matches!(soon(receiver.receive_frame(65_536)).await, Err(StreamError::TooLong(_))));
    let stopped = soon(send.stopped()).await.unwrap();
    assert_eq!(stopped.map(u64::from), Some(StopCode::FrameTooLong.number().into()));
    assert!(raw.close_reason().is_none(), "the connection stays");
}

#[tokio::test]
async fn a_stream_of_an_unknown_kind_is_stopped_and_the_connection_stays() {
    let (_member, _endpoint, raw, connection) = hand_made().await;
    let (mut send, mut receive) = raw.open_bi().await.unwrap();
    send.write_all(&[200]).await.unwrap();
    let unknown = u64::from(StopCode::UnknownKind.number());
    assert_eq!(soon(send.stopped()).await.unwrap().map(u64::from), Some(unknown));
    assert!(matches!(
        soon(receive.read_to_end(10)).await,
        Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) if u64::from(code) == unknown
    ));
    let (mut send, _receive) = raw.open_bi().await.unwrap();
    send.write_all(&[StreamKind::Bulk.byte()]).await.unwrap();
    assert_eq!(soon(connection.accept_stream()).await.unwrap().0, StreamKind::Bulk);
}

#[tokio::test]
async fn a_stream_without_a_kind_holds_up_no_other() {
    let (_member, _endpoint, raw, connection) = hand_made().await;
    let (_silent, _) = raw.open_bi().await.unwrap();
    // A later stream tells the peer that the earlier one is open.
    let (mut send, _receive) = raw.open_bi().await.unwrap();
    send.write_all(&[StreamKind::Sync.byte()]).await.unwrap();
    assert_eq!(soon(connection.accept_stream()).await.unwrap().0, StreamKind::Sync);
    assert_eq!(connection.streams_in_use(), 1, "the one without a kind; the other was dropped");
}

#[tokio::test]
async fn an_end_within_a_frame_is_no_end() {
    let (_member, _endpoint, raw, connection) = hand_made().await;
    for bytes in [[StreamKind::Sync.byte(), 0, 0].as_slice(), &[StreamKind::Sync.byte(), 0, 0, 0, 5, 1]] {
        let (mut send, _receive) = raw.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        let (_, _sender, mut receiver) = soon(connection.accept_stream()).await.unwrap();
        assert_eq!(soon(receiver.receive_frame(100)).await, Err(StreamError::Truncated));
    }
}

#[tokio::test]
async fn a_dropped_half_is_a_cancelled_one() {
    let (_a, _b, at_a, at_b) = pair().await;
    let (mut sender, receiver) = at_a.open(StreamKind::Question).await.unwrap();
    sender.send_frame(b"begun", 10).await.unwrap();
    let (_, mut reply, mut asked) = soon(at_b.accept_stream()).await.unwrap();
    assert!(soon(asked.receive_frame(10)).await.unwrap().is_some());
    drop((sender, receiver));
    assert_eq!(soon(asked.receive_frame(10)).await, Err(StreamError::GivenUp(Some(StopCode::Cancelled))));
    assert_eq!(soon(reply.finished()).await, Err(StreamError::GivenUp(Some(StopCode::Cancelled))));
}

#[tokio::test]
async fn a_connection_is_drained_when_its_last_stream_ended() {
    let (_a, _b, at_a, at_b) = pair().await;
    soon(at_a.drained()).await;
    let (sender, receiver) = at_a.open(StreamKind::Question).await.unwrap();
    assert_eq!(at_a.streams_in_use(), 1);
    let taken = soon(at_b.accept_stream()).await.unwrap();
    assert_eq!(at_b.streams_in_use(), 1);
    drop(sender);
    assert_eq!(at_a.streams_in_use(), 1, "one half is enough");
    drop((receiver, taken));
    soon(async { tokio::join!(at_a.drained(), at_b.drained()) }).await;
}

#[tokio::test]
async fn a_large_frame_arrives_whole_through_small_windows() {
    let (_a, _b, at_a, at_b) = pair().await;
    let body: Vec<u8> = (0..4_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let send = async {
        let (mut sender, _receiver) = at_a.open(StreamKind::Outbox).await.unwrap();
        sender.send_frame(&body, StreamKind::Outbox.frame_bytes_max()).await.unwrap();
        sender.finish().unwrap();
        sender.finished().await.unwrap();
    };
    let receive = async {
        let (kind, _sender, mut receiver) = at_b.accept_stream().await.unwrap();
        receiver.receive_frame(kind.frame_bytes_max()).await.unwrap().unwrap()
    };
    let ((), received) = soon(async { tokio::join!(send, receive) }).await;
    assert!(received == body);
}

#[tokio::test]
async fn a_datagram_over_its_limit_is_refused_here_and_dropped_there() {
    let (_a, _b, at_a, _at_b) = pair().await;
    let long = vec![0; DATAGRAM_BYTES_MAX + 1];
    assert_eq!(at_a.send_datagram(&long), Err(DatagramError::TooLong(long.len())));
    at_a.send_datagram(&long[..DATAGRAM_BYTES_MAX]).unwrap();

    let (_member, _endpoint, raw, connection) = hand_made().await;
    raw.send_datagram(long.into()).unwrap();
    raw.send_datagram(b"short".as_slice().into()).unwrap();
    assert_eq!(soon(connection.receive_datagram()).await.unwrap().as_ref(), b"short");
}

#[tokio::test]
async fn what_waits_on_a_closed_connection_learns_why() {
    let (_a, _b, at_a, at_b) = pair().await;
    let waiting = tokio::spawn({
        let at_b = at_b.clone();
        async move { at_b.accept_stream().await.map(|_| ()) }
    });
    at_a.close(CloseCode::Superseded, "by the newer one");
    let there = CloseReason::There { code: CloseCode::Superseded, text: "by the newer one".into() };
    assert_eq!(soon(waiting).await.unwrap(), Err(there.clone()));
    assert_eq!(soon(at_b.receive_datagram()).await, Err(there));
    assert_eq!(soon(at_a.closed()).await, CloseReason::Here(CloseCode::Superseded));
    assert!(matches!(at_a.open(StreamKind::Sync).await, Err(StreamError::Lost(_))));
}
