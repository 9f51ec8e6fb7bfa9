//! A node that answers as a test says: an HTTP server on a Unix socket, and a record of what it was asked.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use mesh_node::api::SCHEMA_HEADER;
use mesh_node::home::Home;
use mesh_node::mcp::Daemon;
use mesh_protocol::api::SCHEMA_VERSION;
use mesh_protocol::api::ask::{DeliveryPhase, FlightView, Receipt};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::api::job::{AttestationView, JobReceipt, JobView};
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{ConversationId, FlightId, JobId, MessageId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobStatus, Language};
use serde::Serialize;
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::sync::watch;

/// What the node was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.target.split('?').next() == Some(path)
    }
}

/// What it does about it.
pub(crate) enum Reply {
    Json(u16, Value),
    /// Closes the connection without an answer.
    HangUp,
    /// Never answers.
    Silence,
}

pub(crate) fn ok(document: impl Serialize) -> Reply {
    Reply::Json(200, serde_json::to_value(document).unwrap())
}

pub(crate) fn refused(status: u16, error: ApiError) -> Reply {
    Reply::Json(status, serde_json::json!({ "error": error }))
}

pub(crate) struct Node {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<Asked>>>,
    count: watch::Receiver<usize>,
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

impl Node {
    /// A node that answers by `script`.
    pub(crate) fn with(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener =
            UnixListener::bind(Home::open(folder.path()).unwrap().run().join("mesh.sock")).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (counted, count) = watch::channel(0);
        let script: Arc<Script> = Arc::new(script);
        let record = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, record, counted) = (Arc::clone(&script), Arc::clone(&record), counted.clone());
                let service = service_fn(move |request| {
                    let (script, record, counted) =
                        (Arc::clone(&script), Arc::clone(&record), counted.clone());
                    async move { answer(request, &*script, &record, &counted).await }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { folder, asked, count }
    }

    pub(crate) fn daemon(&self) -> Daemon {
        daemon_in(self.folder.path().to_owned())
    }

    /// Everything asked so far, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until it was asked `count` times.
    pub(crate) async fn was_asked(&mut self, count: usize) {
        let wait = self.count.wait_for(|asked| *asked >= count);
        tokio::time::timeout(super::host::PATIENCE, wait).await.expect("the node is asked").unwrap();
    }
}

/// A home in which no node ever ran.
pub(crate) fn daemon_in(home: PathBuf) -> Daemon {
    Daemon { home, runtime_directory: None, token: None }
}

async fn answer(
    request: Request<Incoming>,
    script: &Script,
    record: &Mutex<Vec<Asked>>,
    counted: &watch::Sender<usize>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let asked = Asked { method: head.method.to_string(), target: head.uri.to_string(), body };
    let reply = script(&asked);
    let count = {
        let mut record = record.lock().unwrap();
        record.push(asked);
        record.len()
    };
    counted.send_replace(count);
    match reply {
        Reply::HangUp => Err(std::io::ErrorKind::ConnectionAborted.into()),
        Reply::Silence => match std::future::pending::<Infallible>().await {},
        Reply::Json(status, document) => Ok(Response::builder()
            .status(status)
            .header(SCHEMA_HEADER, SCHEMA_VERSION)
            .body(Full::new(document.to_string().into()))
            .unwrap()),
    }
}

pub(crate) fn node_id() -> NodeId {
    NodeId::from_bytes([7; 32])
}

pub(crate) fn job_id() -> JobId {
    JobId::from_bytes([1; 16])
}

pub(crate) fn flight_id() -> FlightId {
    FlightId::from_bytes([2; 16])
}

pub(crate) fn job_receipt() -> JobReceipt {
    JobReceipt {
        job_id: job_id(),
        status: JobStatus::Queued,
        node: node_id(),
        node_name: "atlas".into(),
        held: None,
        replayed: false,
    }
}

/// A job that has not ended.
pub(crate) fn running_job() -> JobView {
    JobView {
        job_id: job_id(),
        language: Language::Python,
        status: JobStatus::Running,
        terminal: false,
        node: node_id(),
        node_name: "atlas".into(),
        requester: "operator".into(),
        delivery: DeliveryPhase::Acknowledged,
        waiting_on: None,
        minimum_isolation: IsolationClass::default(),
        requested_limits: JobLimits::default(),
        principal: None,
        effective_limits: None,
        input_files: Vec::new(),
        outputs: Vec::new(),
        runtime: None,
        result: None,
        late: None,
        attestation: AttestationView::Pending,
        created_at_ms: 1,
        updated_at_ms: 2,
    }
}

pub(crate) fn receipt() -> Receipt {
    Receipt {
        reference: flight_id().suffix(),
        flight_id: Some(flight_id()),
        conversation_id: ConversationId::from_bytes([3; 16]),
        message_id: MessageId::from_bytes([4; 16]),
        target: "@reviewer.node:atlas".parse().unwrap(),
        target_node: node_id(),
        state: "queued".into(),
        held: None,
        replayed: false,
        next: "mesh-cli flights".into(),
    }
}

/// A flight whose agent is at work.
pub(crate) fn running_flight() -> FlightView {
    FlightView {
        flight_id: flight_id(),
        reference: flight_id().suffix(),
        conversation_id: ConversationId::from_bytes([3; 16]),
        message_id: MessageId::from_bytes([4; 16]),
        target: "@reviewer.node:atlas".parse().unwrap(),
        target_node: node_id(),
        requester: "operator".into(),
        task: "review".into(),
        state: FlightState::Running,
        terminal: false,
        waiting_on: None,
        delivery: DeliveryPhase::Acknowledged,
        outcome: None,
        late: None,
        reply_message_id: None,
        created_at_ms: 1,
        updated_at_ms: 2,
    }
}
