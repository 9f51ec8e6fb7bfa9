//! What happens at each bound: bodies, waits, requests, time.

use std::time::Duration;

use mesh_node::api::limits::{BODY_BYTES_MAX, Limits};
use mesh_node::client::ClientError;
use mesh_protocol::api::error::ErrorKind;
use mesh_protocol::flight::FlightState;
use tokio::io::AsyncWriteExt;

use crate::scripted::SILENT;
use crate::world::{Answer, World};

const SHORT: Duration = Duration::from_millis(50);

fn head(world: &World, rest: &str) -> String {
    let token = world.operator();
    format!(
        "POST /v1/resolve HTTP/1.1\r\nHost: mesh.local\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/json\r\nConnection: close\r\n{rest}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_body_announced_too_large_is_refused_before_it_is_sent() {
    let world = World::new();
    let answer = world.raw(&head(&world, &format!("Content-Length: {}", BODY_BYTES_MAX + 1))).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_refused_when_it_has() {
    let world = World::new();
    let (mut answers, mut body) = world.connect().await.into_split();
    let head = head(&world, "Transfer-Encoding: chunked");
    let sending = tokio::spawn(async move {
        body.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        // The node hangs up in the middle; until then it is sent more than it takes.
        while body.write_all(chunk.as_bytes()).await.is_ok() {}
    });
    let mut text = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut answers, &mut text).await;
    assert!(String::from_utf8(text).unwrap().starts_with("HTTP/1.1 413 "));
    sending.await.unwrap();
}

#[tokio::test]
async fn a_body_that_stays_away_is_given_up() {
    let world = World::with(Limits { body_within: SHORT, ..Limits::default() });
    let mut stream = world.connect().await;
    stream.write_all(head(&world, "Content-Length: 20").as_bytes()).await.unwrap();
    stream.write_all(b"{\"to\":").await.unwrap();
    let answer = Answer::read(&mut stream).await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_too_slow"));
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_stranger_s_body_is_not_read_at_all() {
    let world = World::with(Limits { bodies: 0, ..Limits::default() });
    let answer = world
        .raw("POST /v1/resolve HTTP/1.1\r\nHost: mesh.local\r\nConnection: close\r\nContent-Length: 20\r\n\r\n")
        .await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn when_no_more_bodies_fit_in_memory_the_next_is_told_so() {
    let world = World::with(Limits { bodies: 0, ..Limits::default() });
    let answer = world.json("POST /v1/resolve", "{\"to\":\"@a\"}").await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "busy"));
    assert_eq!(world.request("GET /v1/status", "", "").await.status, 200);
}

#[tokio::test]
async fn a_wait_ends_when_the_flight_does() {
    let world = World::new();
    let client = world.client();
    let waiting = tokio::spawn(async move { client.flight("abcd1234", 300).await });
    world.service.asked(1).await;
    assert!(!waiting.is_finished());
    world.service.end();
    assert_eq!(waiting.await.unwrap().unwrap().state, FlightState::Completed);
    assert_eq!(world.service.calls(), ["flight operator abcd1234 300"]);
}

#[tokio::test]
async fn a_wait_that_is_over_shows_what_is() {
    let world = World::new();
    let view = world.client().flight("abcd1234", 1).await.unwrap();
    assert_eq!(view.state, FlightState::Running);
}

#[tokio::test]
async fn waits_end_when_the_node_stops() {
    let world = World::new();
    let client = world.client();
    let waiting = tokio::spawn(async move { client.flight("abcd1234", 300).await });
    world.service.asked(1).await;
    world.stop().await;
    let Err(ClientError::Refused(error)) = waiting.await.unwrap() else { panic!("no refusal") };
    assert_eq!(
        (error.code.as_str(), error.kind, error.retryable),
        ("stopping", ErrorKind::Unavailable, true)
    );
}

#[tokio::test]
async fn full_waits_leave_room_for_everything_else() {
    let world = World::with(Limits { waits: 1, ..Limits::default() });
    let client = world.client();
    let first = client.clone();
    let waiting = tokio::spawn(async move { first.flight("abcd1234", 300).await });
    world.service.asked(1).await;
    let Err(ClientError::Refused(error)) = client.flight("abcd1234", 1).await else { panic!("no refusal") };
    assert_eq!(error.kind, ErrorKind::Busy);
    client.flight("abcd1234", 0).await.unwrap();
    client.cancel_flight("abcd1234").await.unwrap();
    world.service.end();
    waiting.await.unwrap().unwrap();
    client.flight("abcd1234", 1).await.unwrap();
}

#[tokio::test]
async fn a_caller_that_hangs_up_frees_its_place() {
    let world = World::with(Limits { waits: 1, ..Limits::default() });
    let client = world.client();
    let first = client.clone();
    let waiting = tokio::spawn(async move { first.flight("abcd1234", 300).await });
    world.service.asked(1).await;
    waiting.abort();
    let freed = async {
        while matches!(client.flight("abcd1234", 1).await, Err(ClientError::Refused(_))) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), freed).await.unwrap();
}

#[tokio::test]
async fn when_too_many_requests_are_at_work_the_next_is_told_so() {
    let world = World::with(Limits { requests: 1, ..Limits::default() });
    let client = world.client();
    let first = client.clone();
    let waiting = tokio::spawn(async move { first.flight("abcd1234", 300).await });
    world.service.asked(1).await;
    let Err(ClientError::Refused(error)) = client.status().await else { panic!("no refusal") };
    assert_eq!((error.kind, error.retryable), (ErrorKind::Busy, true));
    world.service.end();
    waiting.await.unwrap().unwrap();
    client.status().await.unwrap();
}

#[tokio::test]
async fn a_service_that_never_answers_does_not_hold_its_caller() {
    let world = World::with(Limits { answer_within: SHORT, ..Limits::default() });
    let answer = world.json("POST /v1/resolve", &format!("{{\"to\":\"{SILENT}\"}}")).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "no_answer_in_time"));
}
