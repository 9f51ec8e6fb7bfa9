//! The fixed views that the scripted service answers with, for tests to compare.

use mesh_protocol::api::ask::{AgentView, CancelReply, DeliveryPhase, FlightView, Receipt, Sent, SentBatch};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{
    AttestationCapability, AttestationView, JobBounds, JobCapabilities, JobReceipt, JobView,
};
use mesh_protocol::api::mesh::{ExpelReply, GrantReply, InviteReply, PingReply, RouteView};
use mesh_protocol::api::node::{ConnectionCounts, ExecutorView, OutboxView, PeerOutbox, Status};
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{ConversationId, FlightId, JobId, MessageId, NodeId, TicketId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobStatus, Language};
use mesh_protocol::policy::{PermissionProfile, Trust};

pub(crate) const NODE: NodeId = NodeId::from_bytes([7; 32]);

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

/// The first was taken, the second was not.
pub(crate) fn sent_batch() -> SentBatch {
    let refused = ApiError::new(ErrorKind::Refused, "not_granted", "no");
    SentBatch { messages: vec![Sent::Receipt(receipt(None)), Sent::Error(refused)] }
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
