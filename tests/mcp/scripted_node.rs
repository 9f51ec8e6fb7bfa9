//! A node that knows one agent and runs no code: it answers by the text it is given, over the real socket and with the
//! API's own types. Enough for a client to meet every shape of answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mesh_node::api::SCHEMA_HEADER;
use mesh_node::home::Home;
use mesh_protocol::api::SCHEMA_VERSION;
use mesh_protocol::api::ask::{AgentView, CancelReply, DeliveryPhase, FlightView, Receipt, Whoami};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{AttestationView, JobReceipt, JobView};
use mesh_protocol::flight::{FlightOutcome, FlightState};
use mesh_protocol::id::{ConversationId, FlightId, JobId, MessageId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobResult, JobStatus, Language};
use mesh_protocol::policy::PermissionProfile;
use serde::Serialize;
use serde_json::{Value, json};

/// The one agent.
pub(crate) const AGENT: &str = "@reviewer";

/// Longer than anything here takes; reached only when something does not happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// The jobs, by the number in their id. The condition is told of every change.
#[derive(Default)]
struct Jobs {
    statuses: Mutex<Vec<JobStatus>>,
    changed: Condvar,
}

/// The node, until the process ends.
pub(crate) struct ScriptedNode {
    jobs: Arc<Jobs>,
}

type Answer = Result<Value, ApiError>;

impl ScriptedNode {
    pub(crate) fn start(home: &std::path::Path) -> Self {
        let home = Home::open(home).unwrap();
        let listener = UnixListener::bind(home.socket(|_| None).unwrap()).unwrap();
        let jobs = Arc::new(Jobs::default());
        let shared = Arc::clone(&jobs);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let jobs = Arc::clone(&shared);
                // A client that gave up has closed its end; that is its right.
                std::thread::spawn(move || serve(&stream.unwrap(), &jobs).ok());
            }
        });
        Self { jobs }
    }

    /// Waits until there is a job.
    pub(crate) fn was_given_a_job(&self) {
        let statuses = self.jobs.statuses.lock().unwrap();
        let (statuses, _) =
            self.jobs.changed.wait_timeout_while(statuses, PATIENCE, |statuses| statuses.is_empty()).unwrap();
        assert!(!statuses.is_empty(), "nobody submitted a job");
    }

    /// How many jobs have not ended, once that is none or the patience is over.
    pub(crate) fn unfinished_jobs(&self) -> usize {
        let unfinished =
            |statuses: &[JobStatus]| statuses.iter().filter(|status| !status.is_terminal()).count();
        let statuses = self.jobs.statuses.lock().unwrap();
        let (statuses, _) = self
            .jobs
            .changed
            .wait_timeout_while(statuses, PATIENCE, |statuses| unfinished(statuses) > 0)
            .unwrap();
        unfinished(&statuses)
    }
}

fn serve(stream: &UnixStream, jobs: &Jobs) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (status, answer) = match answer(&method, &target, &body, jobs) {
        Ok(answer) => ("200 OK", answer),
        Err(error) => ("404 Not Found", json!({ "error": error })),
    };
    let answer = answer.to_string();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{SCHEMA_HEADER}: {SCHEMA_VERSION}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    )
}

fn answer(method: &str, target: &str, body: &Value, jobs: &Jobs) -> Answer {
    let path = target.split('?').next().unwrap_or_default();
    let parts: Vec<_> = path.trim_start_matches("/v1/").split('/').collect();
    match (method, parts.as_slice()) {
        ("GET", ["whoami"]) => document(Whoami {
            principal: "operator".into(),
            node: node(),
            node_name: "atlas".into(),
            may: vec!["everything".into()],
        }),
        ("POST", ["resolve"]) if body["to"] == AGENT => document(agent()),
        ("POST", ["messages"]) => {
            document(Receipt { flight_id: None, state: "accepted".into(), ..receipt() })
        }
        ("POST", ["asks"]) => document(receipt()),
        ("GET", ["flights", _]) => document(flight()),
        ("POST", ["jobs"]) => document(jobs.accept(body["spec"]["code"].as_str().unwrap_or_default())),
        ("GET", ["jobs", id, "result"]) => document(jobs.result(id, target.ends_with("wait_seconds=0"))),
        ("DELETE", ["jobs", id]) => document(jobs.cancel(id)),
        _ => Err(ApiError::new(
            ErrorKind::NotFound,
            "unknown_target",
            format!("no answer to {method} {target}"),
        )),
    }
}

fn document(document: impl Serialize) -> Answer {
    Ok(serde_json::to_value(document).unwrap())
}

fn node() -> NodeId {
    NodeId::from_bytes([7; 32])
}

fn agent() -> AgentView {
    AgentView {
        address: AGENT.parse().unwrap(),
        full: "@reviewer.node:atlas".parse().unwrap(),
        node: node(),
        node_name: "atlas".into(),
        harness: "command".into(),
        profile: Some(PermissionProfile::Review),
        reachability: "online".into(),
        reason: None,
        description: "reviews changes".into(),
        as_of_ms: None,
    }
}

fn receipt() -> Receipt {
    Receipt {
        reference: flight_id().suffix(),
        flight_id: Some(flight_id()),
        conversation_id: ConversationId::from_bytes([3; 16]),
        message_id: MessageId::from_bytes([4; 16]),
        target: agent().full,
        target_node: node(),
        state: "queued".into(),
        held: None,
        replayed: false,
        next: "mesh-cli flights".into(),
    }
}

fn flight_id() -> FlightId {
    FlightId::from_bytes([2; 16])
}

fn flight() -> FlightView {
    FlightView {
        flight_id: flight_id(),
        reference: flight_id().suffix(),
        conversation_id: ConversationId::from_bytes([3; 16]),
        message_id: MessageId::from_bytes([4; 16]),
        target: agent().full,
        target_node: node(),
        requester: "operator".into(),
        task: "say hello".into(),
        state: FlightState::Completed,
        terminal: true,
        waiting_on: None,
        delivery: DeliveryPhase::Local,
        outcome: Some(FlightOutcome::Completed { reply: "hello".into() }),
        late: None,
        reply_message_id: Some(MessageId::from_bytes([5; 16])),
        created_at_ms: 1,
        updated_at_ms: 2,
    }
}

impl Jobs {
    fn accept(&self, code: &str) -> JobReceipt {
        let status = match code {
            code if code.contains("sleep") => JobStatus::Running,
            code if code.contains("exit(3)") => JobStatus::Failed,
            _ => JobStatus::Succeeded,
        };
        let mut statuses = self.statuses.lock().unwrap();
        statuses.push(status);
        self.changed.notify_all();
        let job_id = job_id(statuses.len() - 1);
        JobReceipt { job_id, status, node: node(), node_name: "atlas".into(), held: None, replayed: false }
    }

    /// The job, at its end unless `now`.
    fn result(&self, id: &str, now: bool) -> JobView {
        let number = number(id);
        let statuses = self.statuses.lock().unwrap();
        let running = |statuses: &mut Vec<JobStatus>| !now && !statuses[number].is_terminal();
        let status = self.changed.wait_while(statuses, running).unwrap()[number];
        view(number, status)
    }

    fn cancel(&self, id: &str) -> CancelReply {
        let status = &mut self.statuses.lock().unwrap()[number(id)];
        let already_terminal = status.is_terminal();
        if !already_terminal {
            *status = JobStatus::Cancelled;
            self.changed.notify_all();
        }
        CancelReply { state: status.name().into(), already_terminal, on_its_way: false }
    }
}

fn job_id(number: usize) -> JobId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    JobId::from_bytes(bytes)
}

fn number(id: &str) -> usize {
    let id: JobId = id.parse().unwrap();
    usize::from_be_bytes(id.as_bytes()[8..].try_into().unwrap())
}

fn view(number: usize, status: JobStatus) -> JobView {
    let result = JobResult {
        status,
        exit_code: match status {
            JobStatus::Succeeded => Some(0),
            JobStatus::Failed => Some(3),
            _ => None,
        },
        killed_by: None,
        stdout: if status == JobStatus::Succeeded { "42\n".into() } else { String::new() },
        stderr: String::new(),
        truncated: false,
        duration_ms: 12,
        isolation: Some(IsolationClass::GvisorApplicationKernel),
        may_have_run: true,
        violations: Vec::new(),
        artifacts: Vec::new(),
    };
    let signed = AttestationView::Verified { signer: node(), key_id: "k".into(), event_chain_complete: true };
    let terminal = status.is_terminal();
    JobView {
        job_id: job_id(number),
        language: Language::Python,
        status,
        terminal,
        node: node(),
        node_name: "atlas".into(),
        requester: "operator".into(),
        delivery: DeliveryPhase::Local,
        waiting_on: None,
        minimum_isolation: IsolationClass::default(),
        requested_limits: JobLimits::default(),
        principal: None,
        effective_limits: None,
        input_files: Vec::new(),
        outputs: Vec::new(),
        runtime: None,
        result: terminal.then_some(result),
        late: None,
        attestation: if terminal { signed } else { AttestationView::Pending },
        created_at_ms: 1,
        updated_at_ms: 2,
    }
}
