//! Streams of events: who opens one, what may be said on it, how it ends. In frames of our own (RFC 6455, section 5), so
//! that also what no library would send is sent.

use std::time::{Duration, Instant};

use mesh_node::api::v1::limits::{Limits, Share};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answers::JOB;
use crate::tenants::{Tenants, refused};
use crate::world::Answer;

const UPGRADE: &str = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \
                       dGhlIHNhbXBsZSBub25jZQ==\r\n";
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// An open stream, or the answer that said no.
async fn open(tenants: &Tenants, head: &str) -> Result<TcpStream, Answer> {
    let head = head.replace("Connection: close", "Connection: upgrade");
    let mut stream = tenants.connect().await;
    stream.write_all(format!("{head}{UPGRADE}\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    if answer.starts_with(b"HTTP/1.1 101 ") {
        return Ok(stream);
    }
    // The body is as long as it says, since the connection may stay.
    let text = String::from_utf8(answer).unwrap();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let whole = [text.into_bytes(), body].concat();
    Err(Answer::read(&mut whole.as_slice()).await)
}

fn stream_head(tenants: &Tenants, id: &str) -> String {
    tenants.head(id, &format!("GET /v1/jobs/{JOB}/stream"))
}

/// A client's frame: masked, with a mask that changes nothing.
async fn say(stream: &mut TcpStream, opcode: u8, content: &[u8]) {
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(content.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(content);
    stream.write_all(&frame).await.unwrap();
}

/// The server's next frame, if it is a short one.
async fn heard(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let first = stream.read_u8().await.unwrap();
    let length = stream.read_u8().await.unwrap();
    assert!(first & 0x80 != 0 && length < 126, "a whole, unmasked, short frame");
    let mut content = vec![0; length.into()];
    stream.read_exact(&mut content).await.unwrap();
    (first & 0x0f, content)
}

/// The code a stream is closed with.
async fn closed(stream: &mut TcpStream) -> u16 {
    closed_because(stream).await.0
}

/// The code a stream is closed with, and the reason that is given.
async fn closed_because(stream: &mut TcpStream) -> (u16, String) {
    let (opcode, content) = heard(stream).await;
    assert_eq!(opcode, CLOSE);
    let (code, reason) = content.split_at(2);
    (u16::from_be_bytes([code[0], code[1]]), String::from_utf8(reason.to_vec()).unwrap())
}

async fn ticket(tenants: &Tenants, id: &str) -> String {
    let head = tenants.head(id, &format!("POST /v1/jobs/{JOB}/stream-ticket"));
    let answer = tenants.raw(&format!("{head}Content-Length: 0\r\n\r\n")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["stream_url"], format!("/v1/jobs/{JOB}/stream"));
    answer.json()["ticket"].as_str().unwrap().to_owned()
}

fn with_ticket(tenants: &Tenants, job: &str, ticket: &str) -> String {
    let host = tenants.address;
    format!("GET /v1/jobs/{job}/stream?ticket={ticket} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n")
}

#[tokio::test]
async fn a_stream_answers_ping_and_ends_with_its_job() {
    let tenants = Tenants::new();
    let mut stream = open(&tenants, &stream_head(&tenants, "read")).await.unwrap();
    for _ in 0..3 {
        say(&mut stream, TEXT, b"ping").await;
        assert_eq!(heard(&mut stream).await, (TEXT, b"pong".to_vec()));
    }
    tenants.service.end();
    assert_eq!(closed(&mut stream).await, 1000);
}

#[tokio::test]
async fn a_stream_says_when_the_end_of_its_job_is_not_signed() {
    for (signs, reason) in [(true, "the job has ended"), (false, "the job has ended; that is not signed yet")]
    {
        let tenants = Tenants::new();
        let mut stream = open(&tenants, &stream_head(&tenants, "read")).await.unwrap();
        if !signs {
            tenants.service.lose_its_pen();
        }
        tenants.service.end();
        assert_eq!(closed_because(&mut stream).await, (1000, reason.to_owned()));
    }
}

#[tokio::test]
async fn whoever_says_anything_else_is_let_go() {
    let tenants = Tenants::new();
    let long = vec![b'x'; 1025];
    for (opcode, content) in [(TEXT, b"pong".as_slice()), (TEXT, b""), (BINARY, b"ping"), (TEXT, &long)] {
        let mut stream = open(&tenants, &stream_head(&tenants, "all")).await.unwrap();
        say(&mut stream, opcode, content).await;
        assert_eq!(closed(&mut stream).await, 1008, "{opcode} {} bytes", content.len());
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_node_stops() {
    let tenants = Tenants::new();
    let mut stream = open(&tenants, &stream_head(&tenants, "all")).await.unwrap();
    tenants.stopping.cancel();
    assert_eq!(closed(&mut stream).await, 1001);
}

#[tokio::test]
async fn a_ticket_opens_one_stream_of_its_job_and_no_other() {
    let tenants = Tenants::new();
    let good = ticket(&tenants, "read").await;
    let other = JOB.to_string().replace(|digit: char| digit.is_ascii_digit(), "1");
    let refusal = open(&tenants, &with_ticket(&tenants, &other, &good)).await.unwrap_err();
    assert_eq!(refused(&refusal), (401, "invalid_stream_ticket".to_owned()));
    let mut stream = open(&tenants, &with_ticket(&tenants, &JOB.to_string(), &good)).await.unwrap();
    say(&mut stream, TEXT, b"ping").await;
    assert_eq!(heard(&mut stream).await.1, b"pong");
    for used in [good.as_str(), "made-up", ""] {
        let refusal = open(&tenants, &with_ticket(&tenants, &JOB.to_string(), used)).await.unwrap_err();
        assert_eq!(refused(&refusal), (401, "invalid_stream_ticket".to_owned()), "{used}");
    }
    let elsewhere = with_ticket(&tenants, &JOB.to_string(), &ticket(&tenants, "read").await);
    let answer = tenants.raw(&format!("{}\r\n", elsewhere.replace("/stream?", "/result?"))).await;
    assert_eq!(refused(&answer).1, "missing_api_key", "a ticket opens nothing but a stream");
}

#[tokio::test]
async fn what_is_not_a_websocket_is_told_so_and_streams_take_room() {
    let share = Share { all: 2, each: 1 };
    let tenants = Tenants::with(Limits { streams: share, ..Limits::default() });
    let plain = tenants.get("all", &format!("/v1/jobs/{JOB}/stream")).await;
    assert_eq!(refused(&plain), (400, "websocket_required".to_owned()));
    let _first = open(&tenants, &stream_head(&tenants, "all")).await.unwrap();
    let second = open(&tenants, &stream_head(&tenants, "read")).await.unwrap_err();
    assert_eq!(refused(&second), (429, "tenant_stream_capacity".to_owned()));
    let _other = open(&tenants, &stream_head(&tenants, "other")).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_is_let_go_and_its_place_is_free_again() {
    let share = Share { all: 2, each: 1 };
    let send_within = Duration::from_millis(200);
    let requests_per_minute = u32::MAX;
    let limits = Limits { streams: share, send_within, requests_per_minute, ..Limits::default() };
    let tenants = Tenants::with(limits);
    tenants.service.talk();
    let mut deaf = open(&tenants, &stream_head(&tenants, "all")).await.unwrap();
    let refusal = open(&tenants, &stream_head(&tenants, "read")).await.unwrap_err();
    assert_eq!(refused(&refusal), (429, "tenant_stream_capacity".to_owned()));
    // Refused until the first was let go, and never with anything else.
    while let Err(refusal) = open(&tenants, &stream_head(&tenants, "read")).await {
        assert_eq!(refused(&refusal), (429, "tenant_stream_capacity".to_owned()));
    }
    // What was on its way arrives, and then nothing: the connection is closed, not kept.
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), deaf.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the stream has an end");
}

#[tokio::test]
async fn a_client_that_reads_is_kept_however_long_it_goes_on() {
    // Long enough that a busy machine is not taken for a client that does not read.
    let send_within = Duration::from_secs(2);
    let tenants = Tenants::with(Limits { send_within, ..Limits::default() });
    tenants.service.talk();
    let mut stream = open(&tenants, &stream_head(&tenants, "all")).await.unwrap();
    let (mut heard, began) = (0, Instant::now());
    let mut page = vec![0; 64 * 1024];
    while began.elapsed() < 2 * send_within {
        let more = stream.read(&mut page).await.unwrap();
        assert!(more > 0, "closed after {heard} bytes");
        heard += more;
    }
}
