//! What the client says when there is no answer.

use std::io::ErrorKind;
use std::path::Path;

use mesh_node::api::limits::BODY_BYTES_MAX;
use mesh_node::api::tokens::Token;
use mesh_node::client::{Client, ClientError, Endpoint};
use mesh_protocol::api::ask::SendRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use crate::world::World;

fn client(home: &Path) -> Client {
    let (lock, socket) = (home.join("lock"), home.join("api.sock"));
    Client::new(Endpoint { home: home.to_owned(), lock, socket, token: None })
}

/// A process id that was given to a process of ours, which has ended and was reaped.
fn dead_pid() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[tokio::test]
async fn without_a_home_it_says_how_to_make_one() {
    let folder = tempfile::tempdir().unwrap();
    let error = client(&folder.path().join("nowhere")).status().await.unwrap_err();
    assert!(matches!(error, ClientError::NoHome { .. }), "{error}");
    assert!(error.hints()[0].contains("mesh-cli init") && error.hints()[1].contains("mesh-cli join TICKET"));
}

#[tokio::test]
async fn without_a_process_it_says_how_to_start_one() {
    let home = tempfile::tempdir().unwrap();
    let no_lock = client(home.path()).status().await.unwrap_err();
    std::fs::write(home.path().join("lock"), format!("{}\n", dead_pid())).unwrap();
    let dead = client(home.path()).status().await.unwrap_err();
    drop(UnixListener::bind(home.path().join("api.sock")).unwrap());
    let dead_socket = client(home.path()).status().await.unwrap_err();
    for error in [no_lock, dead, dead_socket] {
        assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
        assert!(error.hints()[0].contains("mesh-cli up"));
    }
}

#[tokio::test]
async fn a_process_that_lives_but_does_not_listen_is_named() {
    let home = tempfile::tempdir().unwrap();
    let own = std::process::id();
    std::fs::write(home.path().join("lock"), format!("{own}\n")).unwrap();
    let error = client(home.path()).status().await.unwrap_err();
    let ClientError::NotAnswering { pid, ref source, .. } = error else { panic!("{error}") };
    assert_eq!((u32::try_from(pid).unwrap(), source.kind()), (own, ErrorKind::NotFound));
    assert!(error.to_string().contains(&own.to_string()));
    assert_eq!(error.into_api_error().code, "node_not_answering");
}

#[tokio::test]
async fn a_lock_file_of_nonsense_names_no_process() {
    let home = tempfile::tempdir().unwrap();
    for text in ["", "-1\n", "0\n", "99999999999999\n", "x\n"] {
        std::fs::write(home.path().join("lock"), text).unwrap();
        let error = client(home.path()).status().await.unwrap_err();
        assert!(matches!(error, ClientError::NotRunning { .. }), "{text:?}: {error}");
    }
}

#[tokio::test]
async fn a_wrong_or_missing_token_is_the_node_s_own_refusal() {
    let world = World::new();
    let wrong = Token::parse(&"a".repeat(52)).unwrap();
    for (token, code) in [(Some(wrong), "credential_unknown"), (None, "credential_missing")] {
        let error = Client::new(world.endpoint(token)).whoami().await.unwrap_err();
        let ClientError::Refused(ref refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.code, code);
        assert!(error.hints()[0].contains("token"));
    }
}

#[tokio::test]
async fn a_text_that_is_no_token_is_refused_without_being_repeated() {
    let error = Token::parse("hunter2").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_request_too_large_is_not_sent() {
    let world = World::new();
    let send = SendRequest { to: "@a".into(), body: "x".repeat(BODY_BYTES_MAX), request_id: None };
    let error = world.client().send(&send, 0).await.unwrap_err();
    assert!(matches!(error, ClientError::RequestTooLarge { .. }), "{error}");
    assert_eq!(world.service.calls(), Vec::<String>::new());
}

/// What the client says about a program that answers every request with `answer`.
async fn said_about(answer: &'static str) -> ClientError {
    let home = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(home.path().join("api.sock")).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let error = client(home.path()).status().await.unwrap_err();
    server.await.unwrap();
    error
}

#[tokio::test]
async fn a_node_of_another_version_is_told_from_a_broken_one() {
    let newer = said_about("HTTP/1.1 200 OK\r\nmesh-schema: 2\r\ncontent-length: 2\r\n\r\n{}").await;
    assert!(matches!(newer, ClientError::Schema { node: Some(2) }), "{newer}");
    assert!(newer.hints()[0].contains("update"));
    let unknown = said_about("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    assert!(matches!(unknown, ClientError::Schema { node: None }), "{unknown}");
    let odd = said_about("HTTP/1.1 200 OK\r\nmesh-schema: 1\r\ncontent-length: 2\r\n\r\n{}").await;
    assert!(matches!(odd, ClientError::Decode(_)), "{odd}");
    let bare = said_about("HTTP/1.1 500 Oh\r\nmesh-schema: 1\r\ncontent-length: 2\r\n\r\n{}").await;
    assert!(matches!(bare, ClientError::Unexplained { status: 500 }), "{bare}");
    let cut = said_about("HTTP/1.1 200 OK\r\nmesh-schema: 1\r\ncontent-length: 9\r\n\r\n{}").await;
    assert!(matches!(cut, ClientError::CutShort(_)), "{cut}");
    let none = said_about("").await;
    assert!(matches!(none, ClientError::Broken(_)), "{none}");
}

#[tokio::test]
async fn one_connection_serves_request_after_request() {
    let home = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(home.path().join("api.sock")).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let answer = b"HTTP/1.1 200 OK\r\nmesh-schema: 1\r\ncontent-length: 2\r\n\r\n[]";
            stream.write_all(answer).await.unwrap();
        }
    });
    let client = client(home.path());
    for _ in 0..3 {
        assert_eq!(client.agents().await.unwrap(), []);
    }
    server.await.unwrap();
}

#[tokio::test]
async fn a_connection_the_node_has_closed_is_replaced_and_nothing_is_sent_twice() {
    let home = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(home.path().join("api.sock")).unwrap();
    let server = tokio::spawn(async move {
        let mut requests = 0;
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            requests += 1;
            let answer = b"HTTP/1.1 200 OK\r\nmesh-schema: 1\r\ncontent-length: 2\r\n\r\n[]";
            stream.write_all(answer).await.unwrap();
        }
        requests
    });
    let client = client(home.path());
    for _ in 0..2 {
        assert_eq!(client.agents().await.unwrap(), []);
        // The node's end is closed before the next request; the client may have noticed or not.
        tokio::task::yield_now().await;
    }
    assert_eq!(server.await.unwrap(), 2);
}
