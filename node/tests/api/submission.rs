//! Has a job accepted at most once, whatever becomes of the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_node::client::{Client, ClientError, Endpoint, SubmissionError};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::job::{JobSpec, Language};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::answers::job_receipt;

/// What is done with one request.
enum Doing {
    /// Nothing is said.
    HangUp,
    /// This status and document are the answer.
    Answer(u16, String),
}

/// A node that does one thing after the other with the requests it gets, and gives back what they said.
struct Scripted {
    client: Client,
    _home: TempDir,
    requests: Arc<AtomicUsize>,
    serving: JoinHandle<Vec<RunRequest>>,
}

impl Scripted {
    fn node(script: Vec<Doing>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let (lock, socket) = (home.path().join("lock"), home.path().join("api.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            let mut said = Vec::new();
            for doing in script {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                seen.fetch_add(1, Ordering::Relaxed);
                let text = String::from_utf8(request[..length].to_vec()).unwrap();
                let (_, body) = text.split_once("\r\n\r\n").unwrap();
                said.push(serde_json::from_str(body).unwrap());
                if let Doing::Answer(status, document) = doing {
                    let length = document.len();
                    let head = format!("HTTP/1.1 {status} -\r\nmesh-schema: 1\r\nconnection: close\r\n");
                    let answer = format!("{head}content-length: {length}\r\n\r\n{document}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
            said
        });
        let endpoint = Endpoint { home: home.path().to_owned(), lock, socket, token: None };
        Self { client: Client::new(endpoint), _home: home, requests, serving }
    }
}

fn accepted() -> Doing {
    Doing::Answer(200, serde_json::to_string(&job_receipt()).unwrap())
}

fn refused(kind: ErrorKind, code: &str) -> Doing {
    let error = ApiError::new(kind, code, "no");
    Doing::Answer(503, serde_json::json!({ "error": error }).to_string())
}

fn job() -> RunRequest {
    RunRequest::new(JobSpec::new(Language::Python, "print(1)"))
}

#[tokio::test]
async fn each_submission_has_a_key_of_its_own_that_its_repetition_shares() {
    let node = Scripted::node(vec![accepted(), Doing::HangUp, accepted()]);
    for _ in 0..2 {
        assert_eq!(node.client.submit(job()).await.unwrap(), job_receipt());
    }
    let said = node.serving.await.unwrap();
    let keys: Vec<&str> = said.iter().map(|request| request.idempotency_key.as_deref().unwrap()).collect();
    assert!(keys[0] != keys[1] && keys[1] == keys[2], "{keys:?}");
    assert!(said.iter().all(|request| request.spec == job().spec));
}

#[tokio::test]
async fn a_key_of_the_callers_is_kept() {
    let node = Scripted::node(vec![accepted()]);
    let request = RunRequest { idempotency_key: Some("mine".into()), ..job() };
    node.client.submit(request).await.unwrap();
    assert_eq!(node.serving.await.unwrap()[0].idempotency_key.as_deref(), Some("mine"));
}

#[tokio::test]
async fn what_was_refused_or_never_sent_is_not_sent_again() {
    let node = Scripted::node(vec![refused(ErrorKind::Busy, "queue_saturated"), accepted()]);
    let error = node.client.submit(job()).await.unwrap_err();
    assert!(matches!(error, SubmissionError::NotAccepted(ClientError::Refused(_))), "{error}");
    assert_eq!(node.requests.load(Ordering::Relaxed), 1);
    node.serving.abort();
    let home = tempfile::tempdir().unwrap();
    let (lock, socket) = (home.path().join("lock"), home.path().join("api.sock"));
    let nobody = Client::new(Endpoint { home: home.path().to_owned(), lock, socket, token: None });
    let error = nobody.submit(job()).await.unwrap_err();
    assert!(matches!(error, SubmissionError::NotAccepted(ClientError::NotRunning { .. })), "{error}");
}

#[tokio::test]
async fn it_is_repeated_once_and_then_the_key_is_what_is_left() {
    for second in [Doing::HangUp, refused(ErrorKind::Internal, "internal_error")] {
        let node = Scripted::node(vec![Doing::HangUp, second]);
        let error = node.client.submit(job()).await.unwrap_err();
        let SubmissionError::Unresolved { key, .. } = error else { panic!("{error}") };
        let said = node.serving.await.unwrap();
        assert_eq!(said.len(), 2);
        assert!(said.iter().all(|request| request.idempotency_key.as_ref() == Some(&key)));
    }
}
