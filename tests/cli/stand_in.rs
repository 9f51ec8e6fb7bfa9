//! A stand-in for a node: a socket in a home, with one prepared answer for each request it knows.
//!
//! It proves what the program makes of a node's answers. That real nodes give such answers is for other tests.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;

use mesh_node::api::SCHEMA_HEADER;
use mesh_protocol::api::SCHEMA_VERSION;
use mesh_protocol::api::error::ApiError;
use serde::Serialize;

use crate::command::Place;

/// The operator's token of every stand-in.
pub(crate) const OPERATOR: &str = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst";

/// What is answered to one kind of request.
enum Answer {
    Body(u16, Vec<u8>),
    /// The connection stays open and nothing comes.
    Silence,
}

/// The answers, by method and path, and what was asked.
#[derive(Default)]
pub(crate) struct StandIn {
    answers: Vec<(&'static str, Answer)>,
}

/// The requests a stand-in has got.
pub(crate) struct Requests(Arc<Mutex<Vec<String>>>);

impl StandIn {
    /// Answers requests that begin so (`GET /v1/status`) with a value.
    pub(crate) fn gives(self, request: &'static str, answer: &impl Serialize) -> Self {
        self.with(request, Answer::Body(200, serde_json::to_vec(answer).unwrap()))
    }

    /// Answers with these bytes.
    pub(crate) fn gives_bytes(self, request: &'static str, answer: &str) -> Self {
        self.with(request, Answer::Body(200, answer.into()))
    }

    /// Answers with an error.
    pub(crate) fn refuses(self, request: &'static str, status: u16, error: &ApiError) -> Self {
        let body = serde_json::to_vec(&serde_json::json!({ "error": error })).unwrap();
        self.with(request, Answer::Body(status, body))
    }

    /// Never answers.
    pub(crate) fn ignores(self, request: &'static str) -> Self {
        self.with(request, Answer::Silence)
    }

    fn with(mut self, request: &'static str, answer: Answer) -> Self {
        self.answers.push((request, answer));
        self
    }

    /// Opens the socket in the place's home and answers from then on.
    pub(crate) fn serve(self, place: &Place) -> Requests {
        for folder in [place.home(), place.home().join("run"), place.home().join("tokens")] {
            fs::DirBuilder::new().mode(0o700).create(folder).unwrap();
        }
        let mut private = fs::File::options();
        private.write(true).create_new(true).mode(0o600);
        private.open(place.home().join("tokens/operator")).unwrap().write_all(OPERATOR.as_bytes()).unwrap();
        let listener = UnixListener::bind(place.home().join("run/mesh.sock")).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let got = Arc::clone(&requests);
        thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // A caller that hangs up early is no fault of a test.
                let _ = self.converse(&mut stream, &got);
                open.push(stream);
            }
        });
        Requests(requests)
    }

    fn converse(&self, stream: &mut UnixStream, got: &Mutex<Vec<String>>) -> io::Result<()> {
        let (head, body) = read_request(stream)?;
        got.lock().unwrap().push(format!("{head}\n{body}"));
        match self.answers.iter().find(|(request, _)| head.starts_with(request)) {
            Some((_, Answer::Body(status, answer))) => write_answer(stream, *status, answer),
            Some((_, Answer::Silence)) => Ok(()),
            None => write_answer(stream, 500, b""),
        }
    }
}

impl Requests {
    /// All of them, head and body.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The head and as much body as it announces.
fn read_request(stream: &UnixStream) -> io::Result<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; announced.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}

fn write_answer(stream: &mut UnixStream, status: u16, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} -\r\n{SCHEMA_HEADER}: {SCHEMA_VERSION}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)
}
