//! A home in a temporary folder, the API served in it, and ways to talk to it.

use std::path::PathBuf;
use std::sync::Arc;

use mesh_node::api::limits::Limits;
use mesh_node::api::listener;
use mesh_node::api::tokens::{Token, Tokens};
use mesh_node::api::{Hosts, Surface, router};
use mesh_node::client::{Client, Endpoint};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::scripted::Scripted;

pub(crate) struct World {
    pub(crate) service: Arc<Scripted>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) stopping: CancellationToken,
    operator: Token,
    home: TempDir,
    server: tokio::task::JoinHandle<()>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let home = tempfile::tempdir().unwrap();
        let operator = Token::read_or_create(&home.path().join("tokens").join("operator")).unwrap();
        let (service, tokens) = (Arc::new(Scripted::new()), Tokens::new(&operator));
        let stopping = CancellationToken::new();
        let surface =
            Surface { tokens: tokens.clone(), hosts: Hosts::unix(), limits, stopping: stopping.clone() };
        let router = router(Arc::clone(&service), surface);
        let listener = listener::bind(&home.path().join("api.sock")).unwrap();
        let server = tokio::spawn(listener::serve(listener, router, stopping.clone()));
        Self { service, tokens, stopping, operator, home, server }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn operator(&self) -> &str {
        self.operator.expose()
    }

    pub(crate) fn endpoint(&self, token: Option<Token>) -> Endpoint {
        let home = self.home.path().to_owned();
        Endpoint { lock: home.join("lock"), socket: home.join("api.sock"), home, token }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.endpoint(Some(self.operator.clone())))
    }

    /// An open connection.
    pub(crate) async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path("api.sock")).await.unwrap()
    }

    /// Sends bytes as they are and gives the one answer.
    pub(crate) async fn raw(&self, request: &str) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        Answer::read(&mut stream).await
    }

    /// A request with the operator's token. `headers` are whole lines, each with its line end.
    pub(crate) async fn request(&self, line: &str, headers: &str, body: &str) -> Answer {
        self.request_as(Some(self.operator()), line, headers, body).await
    }

    /// A request with any token or none.
    pub(crate) async fn request_as(
        &self,
        token: Option<&str>,
        line: &str,
        headers: &str,
        body: &str,
    ) -> Answer {
        let credential = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let length = body.len();
        self.raw(&format!(
            "{line} HTTP/1.1\r\nHost: mesh.local\r\nConnection: close\r\n{credential}{headers}Content-Length: \
             {length}\r\n\r\n{body}"
        ))
        .await
    }

    /// A JSON body.
    pub(crate) async fn json(&self, line: &str, body: &str) -> Answer {
        self.request(line, "Content-Type: application/json\r\n", body).await
    }

    /// Stops the server and returns when it has stopped.
    pub(crate) async fn stop(self) {
        self.stopping.cancel();
        self.server.await.unwrap();
    }
}

/// An answer taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Reads until the server closes: every request here asks it to, or makes it.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The error's code and message.
    pub(crate) fn error(&self) -> (String, String) {
        let body: mesh_node::api::ErrorBody = serde_json::from_str(&self.body).unwrap();
        (body.error.code, body.error.message)
    }

    pub(crate) fn code(&self) -> String {
        self.error().0
    }
}
