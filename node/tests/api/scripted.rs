//! A service that answers with fixed views, keeps a line of what it was asked, and ends flights and jobs when told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mesh_node::service::{EventCursor, FlightFilter, JobLoad, MessageFilter, Principal, Service};
use mesh_protocol::api::ask::{
    AgentView, AskCommand, CancelReply, DeliveryPhase, FlightView, MessageView, Receipt, ResolveRequest,
    SendRequest, Sent, SentBatch, Whoami,
};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{
    AttestationCapability, AttestationView, EventPage, JobBounds, JobCapabilities, JobFilter, JobPage,
    JobReceipt, JobView, OutputView, RunRequest,
};
use mesh_protocol::api::mesh::{
    ExpelReply, ExpelRequest, GrantReply, GrantRequest, InviteReply, InviteRequest, PingReply, RouteView,
};
use mesh_protocol::api::node::{Check, ConnectionCounts, ExecutorView, OutboxView, PeerOutbox, Status};
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{ConversationId, FlightId, JobId, MessageId, NodeId, TicketId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobStatus, Language};
use mesh_protocol::policy::{PermissionProfile, Trust};
use tokio::sync::watch;

/// A flight of this ref is not there.
pub(crate) const MISSING: &str = "missing";
/// An address that nothing ever answers.
pub(crate) const SILENT: &str = "@silent";
/// A key that was used for a job.
pub(crate) const USED_KEY: &str = "used";
/// The bytes of every job's evidence: not text, so that any conversion on the way would show.
pub(crate) const EVIDENCE: &[u8] = &[0, 0xff, b'{', 0x80, b'\n'];

pub(crate) const NODE: NodeId = NodeId::from_bytes([7; 32]);

pub(crate) struct Scripted {
    calls: Mutex<Vec<String>>,
    seen: watch::Sender<usize>,
    ended: watch::Sender<bool>,
    talks: AtomicBool,
    signs: AtomicBool,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        let (seen, ended) = (watch::Sender::new(0), watch::Sender::new(false));
        let (talks, signs) = (AtomicBool::new(false), AtomicBool::new(true));
        Self { calls: Mutex::new(Vec::new()), seen, ended, talks, signs }
    }

    /// From now on jobs never stop talking.
    pub(crate) fn talk(&self) {
        self.talks.store(true, Ordering::Relaxed);
    }

    /// From now on the ends of jobs cannot be signed.
    pub(crate) fn lose_its_pen(&self) {
        self.signs.store(false, Ordering::Relaxed);
    }

    /// What it was asked, oldest first: `<operation> <caller> <arguments>`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns once it was asked `count` times.
    pub(crate) async fn asked(&self, count: usize) {
        self.seen.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
    }

    /// Ends every flight and job.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    fn note(&self, operation: &str, who: &Principal, arguments: String) {
        let caller = match who {
            Principal::Operator => "operator".to_owned(),
            Principal::Agent { name, .. } => name.to_string(),
            Principal::Tenant { tenant, .. } => tenant.clone(),
            Principal::Anonymous => "nobody".to_owned(),
        };
        self.calls.lock().unwrap().push(format!("{operation} {caller} {arguments}").trim_end().to_owned());
        self.seen.send_modify(|seen| *seen += 1);
    }

    async fn has_ended(&self, wait: Duration) -> bool {
        let mut ended = self.ended.subscribe();
        let _ = tokio::time::timeout(wait, ended.wait_for(|ended| *ended)).await;
        *self.ended.borrow()
    }
}

pub(crate) fn status() -> Status {
    Status {
        node: NODE,
        name: "atlas".into(),
        mesh: None,
        root: false,
        version: "0.1.0".into(),
        uptime_ms: 1,
        addresses: vec!["127.0.0.1:1".into()],
        executor: ExecutorView::default(),
        agents: 1,
        open_tickets: 0,
        peers: Vec::new(),
        flights_open: 0,
        jobs_open: 0,
        isolated: false,
        warnings: Vec::new(),
        connections: ConnectionCounts::default(),
    }
}

pub(crate) fn agent(to: &str) -> AgentView {
    AgentView {
        address: to.parse().unwrap(),
        full: "@reviewer.node:atlas".parse().unwrap(),
        node: NODE,
        node_name: "atlas".into(),
        harness: "command".into(),
        profile: Some(PermissionProfile::Review),
        reachability: "online".into(),
        reason: None,
        description: "reviews".into(),
        as_of_ms: None,
    }
}

pub(crate) fn receipt(flight: Option<FlightId>) -> Receipt {
    Receipt {
        reference: "abcd1234".into(),
        flight_id: flight,
        conversation_id: ConversationId::from_bytes([2; 16]),
        message_id: MessageId::from_bytes([3; 16]),
        target: "@reviewer".parse().unwrap(),
        target_node: NODE,
        state: "queued".into(),
        held: None,
        replayed: false,
        next: "mesh-cli flights abcd1234".into(),
    }
}

pub(crate) fn flight(state: FlightState) -> FlightView {
    FlightView {
        flight_id: FlightId::from_bytes([1; 16]),
        reference: "abcd1234".into(),
        conversation_id: ConversationId::from_bytes([2; 16]),
        message_id: MessageId::from_bytes([3; 16]),
        target: "@reviewer".parse().unwrap(),
        target_node: NODE,
        requester: "operator".into(),
        task: "look".into(),
        state,
        terminal: state.is_terminal(),
        waiting_on: None,
        delivery: DeliveryPhase::Local,
        outcome: None,
        late: None,
        reply_message_id: None,
        created_at_ms: 1,
        updated_at_ms: 2,
    }
}

pub(crate) fn capabilities() -> JobCapabilities {
    JobCapabilities {
        version: "0".into(),
        languages: vec![Language::Python],
        isolation_classes: vec![IsolationClass::default()],
        unavailable: None,
        slots: 1,
        limits: JobBounds {
            wall_seconds_max: 1,
            cpu_seconds_max: 2,
            mem_mb_max: 3,
            max_pids_max: 4,
            max_file_mb_max: 5,
            code_bytes_max: 6,
            stdin_bytes_max: 7,
            files_max: 8,
            file_bytes_max: 9,
            files_bytes_max: 10,
            output_bytes_max: 11,
            result_wait_seconds_max: 12,
        },
        runtimes: Vec::new(),
        attestations: AttestationCapability { algorithm: "Ed25519".into(), key_id: "k".into(), node: NODE },
    }
}

pub(crate) fn job(job_id: JobId, status: JobStatus) -> JobView {
    JobView {
        job_id,
        language: Language::Python,
        status,
        terminal: status.is_terminal(),
        node: NODE,
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
        result: None,
        late: None,
        attestation: AttestationView::Pending,
        created_at_ms: 1,
        updated_at_ms: 2,
    }
}

pub(crate) const JOB: JobId = JobId::from_bytes([4; 16]);

pub(crate) fn job_receipt() -> JobReceipt {
    let (node, node_name) = (NODE, "atlas".to_owned());
    JobReceipt { job_id: JOB, status: JobStatus::Queued, node, node_name, held: None, replayed: false }
}

pub(crate) fn cancelled() -> CancelReply {
    CancelReply { state: "cancelled".into(), already_terminal: false, on_its_way: false }
}

pub(crate) fn outbox(name: &str) -> PeerOutbox {
    PeerOutbox { node: NODE, name: name.into(), outbox: OutboxView { count: 3, ..OutboxView::default() } }
}

pub(crate) fn ticket() -> InviteReply {
    InviteReply { ticket_id: TicketId::from_bytes([5; 16]), ticket: "mesh-ticket".into(), expires_at_ms: 9 }
}

pub(crate) fn granted(name: &str) -> GrantReply {
    GrantReply { node: NODE, name: name.into(), grant: Trust::Mine.into() }
}

pub(crate) fn expelled(name: &str) -> ExpelReply {
    ExpelReply { node: NODE, name: name.into(), already: false, links_closed: 1 }
}

pub(crate) fn route(name: &str) -> RouteView {
    RouteView {
        node: NODE,
        name: name.into(),
        state: "alive".into(),
        since_ms: Some(1),
        cause: Some("it is linked".into()),
        path: Some("relayed via nova".into()),
        rtt_us: Some(900),
        addresses: vec!["192.0.2.2:4433".into()],
        tried: Vec::new(),
        seen_by: Vec::new(),
        heard: Vec::new(),
        outbox: OutboxView::default(),
        last_error: None,
        next_try_in_ms: Some(5),
        next: "nothing".into(),
    }
}

pub(crate) fn pong(name: &str) -> PingReply {
    PingReply { node: NODE, name: name.into(), path: "relayed via nova".into(), took_us: 900 }
}

impl Service for Scripted {
    async fn status(&self, who: &Principal) -> Result<Status, ApiError> {
        self.note("status", who, String::new());
        Ok(status())
    }

    async fn doctor(&self, who: &Principal) -> Result<Vec<Check>, ApiError> {
        self.note("doctor", who, String::new());
        let (name, verdict, finding) = ("socket".to_owned(), "ok".to_owned(), "answers".to_owned());
        Ok(vec![Check { name, verdict, finding, fix: None }])
    }

    async fn whoami(&self, who: &Principal) -> Result<Whoami, ApiError> {
        self.note("whoami", who, String::new());
        let principal = format!("{who:?}");
        Ok(Whoami { principal, node: NODE, node_name: "atlas".into(), may: who.may() })
    }

    async fn agents(&self, who: &Principal) -> Result<Vec<AgentView>, ApiError> {
        self.note("agents", who, String::new());
        Ok(vec![agent("@reviewer")])
    }

    async fn resolve(&self, who: &Principal, request: ResolveRequest) -> Result<AgentView, ApiError> {
        self.note("resolve", who, request.to.clone());
        if request.to == SILENT {
            std::future::pending::<()>().await;
        }
        Ok(agent(&request.to))
    }

    async fn send(&self, who: &Principal, request: SendRequest, wait: Duration) -> Result<Receipt, ApiError> {
        self.note("send", who, format!("{} {} {}", request.to, request.body, wait.as_secs()));
        Ok(receipt(None))
    }

    async fn send_batch(
        &self,
        who: &Principal,
        requests: Vec<SendRequest>,
        wait: Duration,
    ) -> Result<SentBatch, ApiError> {
        let bodies: Vec<String> = requests.into_iter().map(|request| request.body).collect();
        self.note("send_batch", who, format!("{} {}", bodies.join(" "), wait.as_secs()));
        let refused = ApiError::new(ErrorKind::Refused, "not_granted", "no");
        Ok(SentBatch { messages: vec![Sent::Receipt(receipt(None)), Sent::Error(refused)] })
    }

    async fn messages(
        &self,
        who: &Principal,
        filter: MessageFilter,
        limit: usize,
    ) -> Result<Vec<MessageView>, ApiError> {
        let agent = filter.agent.map(|agent| agent.to_string());
        let conversation = filter.conversation.map(|conversation| conversation.to_string());
        self.note("messages", who, format!("{conversation:?} {agent:?} {limit}"));
        Ok(Vec::new())
    }

    async fn ask(&self, who: &Principal, command: AskCommand) -> Result<Receipt, ApiError> {
        self.note("ask", who, format!("{} {}", command.to, command.task));
        Ok(receipt(Some(FlightId::from_bytes([1; 16]))))
    }

    async fn flights(
        &self,
        who: &Principal,
        filter: FlightFilter,
        limit: usize,
    ) -> Result<Vec<FlightView>, ApiError> {
        self.note("flights", who, format!("{:?} {limit}", filter.state));
        Ok(vec![flight(FlightState::Running)])
    }

    async fn flight(&self, who: &Principal, id: &str, wait: Duration) -> Result<FlightView, ApiError> {
        self.note("flight", who, format!("{id} {}", wait.as_secs()));
        if id == MISSING {
            let error = ApiError::new(ErrorKind::NotFound, "no_such_flight", "there is no such flight");
            return Err(error.hint("`mesh-cli flights` lists them"));
        }
        let ended = self.has_ended(wait).await;
        Ok(flight(if ended { FlightState::Completed } else { FlightState::Running }))
    }

    async fn cancel_flight(&self, who: &Principal, id: &str) -> Result<CancelReply, ApiError> {
        self.note("cancel_flight", who, id.to_owned());
        Ok(cancelled())
    }

    async fn run(&self, who: &Principal, request: RunRequest) -> Result<JobReceipt, ApiError> {
        self.note("run", who, format!("{} {} bytes", request.spec.language, request.spec.code.len()));
        Ok(job_receipt())
    }

    async fn jobs(&self, who: &Principal, filter: JobFilter, limit: usize) -> Result<JobPage, ApiError> {
        self.note("jobs", who, format!("{filter:?} {limit}"));
        let next_cursor = Some("12:job".to_owned());
        Ok(JobPage { jobs: vec![job(JOB, JobStatus::Running)], next_cursor })
    }

    async fn job_events(
        &self,
        who: &Principal,
        id: JobId,
        behind: EventCursor,
        wait: Duration,
    ) -> Result<EventPage, ApiError> {
        self.note("job_events", who, format!("{id} {} {}", behind.after, wait.as_secs()));
        if self.talks.load(Ordering::Relaxed) {
            let mut chain = Chain::new(id.to_string());
            let text = Value::of(&"x".repeat(64 * 1024), &limits::EVENT).unwrap();
            chain.append(1, EventKind::Stdout, text).unwrap();
            return Ok(EventPage {
                events: chain.into_events(),
                next_cursor: behind.after + 1,
                ended: false,
                unsigned: false,
            });
        }
        let ended = self.has_ended(wait).await;
        let unsigned = ended && !self.signs.load(Ordering::Relaxed);
        Ok(EventPage { events: Vec::new(), next_cursor: behind.after, ended, unsigned })
    }

    async fn job_outputs(&self, who: &Principal, id: JobId) -> Result<Vec<OutputView>, ApiError> {
        self.note("job_outputs", who, id.to_string());
        Ok(Vec::new())
    }

    async fn job_capabilities(&self, who: &Principal) -> Result<JobCapabilities, ApiError> {
        self.note("job_capabilities", who, String::new());
        Ok(capabilities())
    }

    async fn job_key_reused(&self, _: &Principal, key: Option<&str>) -> Result<Option<ApiError>, ApiError> {
        let reused = ApiError::new(ErrorKind::Conflict, "idempotency_key_reused", "it was used");
        Ok(key.filter(|key| *key == USED_KEY).map(|_| reused))
    }

    async fn job_load(&self, who: &Principal) -> Result<JobLoad, ApiError> {
        self.note("job_load", who, String::new());
        Ok(JobLoad { queued_max: 64, ..JobLoad::default() })
    }

    async fn attestation(&self, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
        self.note("attestation", who, id.to_string());
        Ok(Bytes::from_static(b"envelope"))
    }

    async fn result_artifact(&self, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
        self.note("result_artifact", who, id.to_string());
        Ok(Bytes::from_static(b"artifact"))
    }

    async fn job(&self, who: &Principal, id: JobId) -> Result<JobView, ApiError> {
        self.note("job", who, id.to_string());
        Ok(job(id, JobStatus::Running))
    }

    async fn job_result(&self, who: &Principal, id: JobId, wait: Duration) -> Result<JobView, ApiError> {
        self.note("job_result", who, format!("{id} {}", wait.as_secs()));
        let ended = self.has_ended(wait).await;
        Ok(job(id, if ended { JobStatus::Succeeded } else { JobStatus::Running }))
    }

    async fn cancel_job(&self, who: &Principal, id: JobId) -> Result<CancelReply, ApiError> {
        self.note("cancel_job", who, id.to_string());
        Ok(cancelled())
    }

    async fn evidence(&self, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
        self.note("evidence", who, id.to_string());
        Ok(Bytes::from_static(EVIDENCE))
    }

    async fn outboxes(&self, who: &Principal) -> Result<Vec<PeerOutbox>, ApiError> {
        self.note("outboxes", who, String::new());
        Ok(vec![outbox("borea")])
    }

    async fn discard_outbox(&self, who: &Principal, peer: &str) -> Result<PeerOutbox, ApiError> {
        self.note("discard_outbox", who, peer.to_owned());
        Ok(outbox(peer))
    }

    async fn invite(&self, who: &Principal, request: InviteRequest) -> Result<InviteReply, ApiError> {
        self.note("invite", who, request.ttl_seconds.to_string());
        Ok(ticket())
    }

    async fn grant(&self, who: &Principal, request: GrantRequest) -> Result<GrantReply, ApiError> {
        self.note("grant", who, request.peer.clone());
        Ok(granted(&request.peer))
    }

    async fn revoke(&self, who: &Principal, request: ExpelRequest) -> Result<ExpelReply, ApiError> {
        self.note("revoke", who, request.peer.clone());
        Ok(expelled(&request.peer))
    }

    async fn block(&self, who: &Principal, request: ExpelRequest) -> Result<ExpelReply, ApiError> {
        self.note("block", who, request.peer.clone());
        Ok(expelled(&request.peer))
    }

    async fn unblock(&self, who: &Principal, peer: &str) -> Result<ExpelReply, ApiError> {
        self.note("unblock", who, peer.to_owned());
        Ok(expelled(peer))
    }

    async fn route(&self, who: &Principal, peer: &str) -> Result<RouteView, ApiError> {
        self.note("route", who, peer.to_owned());
        Ok(route(peer))
    }

    async fn ping(&self, who: &Principal, peer: &str) -> Result<PingReply, ApiError> {
        self.note("ping", who, peer.to_owned());
        Ok(pong(peer))
    }

    async fn shutdown(&self, who: &Principal) -> Result<(), ApiError> {
        self.note("shutdown", who, String::new());
        Ok(())
    }
}
