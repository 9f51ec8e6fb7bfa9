//! Answers of a node as tests render them: one of each, the same in every test.

use mesh_protocol::api::ask::{AgentView, DeliveryPhase, FlightView, Held, Receipt};
use mesh_protocol::api::job::{AttestationView, JobView};
use mesh_protocol::api::mesh::{HearsayView, RouteView, SightingView, TriedView};
use mesh_protocol::api::node::{ConnectionCounts, ExecutorView, OutboxView, PeerStatus, Status};
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{ConversationId, FlightId, JobId, MeshId, MessageId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobResult, JobStatus, Language};
use mesh_protocol::peer::{DroppedCounts, OverQuota};
use mesh_protocol::policy::{Grant, PermissionProfile, Trust};

/// When everything here is looked at.
pub(crate) const NOW: u64 = 1_700_000_600_000;
/// Ten minutes before.
pub(crate) const THEN: u64 = 1_700_000_000_000;

pub(crate) fn node(seed: u8) -> NodeId {
    NodeId::from_bytes([seed; 32])
}

pub(crate) fn sandbox() -> ExecutorView {
    ExecutorView {
        classes: vec![IsolationClass::GvisorApplicationKernel],
        languages: vec!["python".into(), "node".into(), "bash".into()],
        slots: 2,
        running: 1,
        runtimes: None,
        unavailable: None,
    }
}

pub(crate) fn peer(name: &str, state: &str) -> PeerStatus {
    PeerStatus {
        node: node(2),
        name: name.into(),
        state: state.into(),
        since_ms: Some(THEN),
        cause: None,
        last_error: None,
        path: Some("direct 192.0.2.7:4433".into()),
        rtt_us: Some(1_370),
        executor: sandbox(),
        grant: Grant::from(Trust::Team),
        granted: Some(Grant::from(Trust::Mine)),
        outbox: OutboxView::default(),
        paused: false,
        dropped: DroppedCounts::default(),
        over_quota: OverQuota::default(),
    }
}

pub(crate) fn status() -> Status {
    let mut nova = peer("nova", "unreachable");
    nova.cause = Some("no answer to probes".into());
    nova.last_error = Some("192.0.2.9:4433: connection refused".into());
    (nova.path, nova.rtt_us, nova.granted) = (None, None, None);
    nova.outbox = OutboxView { count: 3, bytes: 1_229, oldest_age_ms: Some(60_000), ..OutboxView::default() };
    Status {
        node: node(1),
        name: "atlas".into(),
        mesh: Some(MeshId::from_bytes([7; 16])),
        root: true,
        version: "0.1.0".into(),
        uptime_ms: 7_200_000,
        addresses: vec!["192.0.2.1:4433".into()],
        executor: sandbox(),
        agents: 1,
        open_tickets: 0,
        peers: vec![peer("borealis", "alive"), nova],
        flights_open: 2,
        jobs_open: 0,
        isolated: false,
        warnings: Vec::new(),
        connections: ConnectionCounts::default(),
    }
}

pub(crate) fn route() -> RouteView {
    let tried = |way: &str, outcome: &str, times| TriedView {
        way: Some(way.into()),
        outcome: outcome.into(),
        at_ms: NOW - 5_000,
        times,
    };
    let by = |name: &str, answered, direct| SightingView {
        node: node(3),
        name: name.into(),
        answered,
        alive: direct,
        direct,
        carries: false,
        rtt_us: direct.then_some(800),
    };
    RouteView {
        node: node(2),
        name: "nova".into(),
        state: "unreachable".into(),
        since_ms: Some(THEN),
        cause: Some("nothing answered".into()),
        path: None,
        rtt_us: None,
        addresses: vec!["192.0.2.9:4433".into()],
        tried: vec![
            tried("relayed via borealis", "it does not let this node relay", 2),
            tried("direct 192.0.2.9:4433", "nothing answered", 40),
        ],
        seen_by: vec![by("borealis", true, true), by("carina", true, false), by("draco", false, false)],
        heard: vec![
            HearsayView { node: node(4), name: "elara".into(), answers: false, at_ms: NOW - 20_000 },
            HearsayView { node: node(5), name: "fornax".into(), answers: true, at_ms: NOW - 4_000 },
        ],
        outbox: OutboxView { count: 3, bytes: 1_229, oldest_age_ms: Some(60_000), ..OutboxView::default() },
        last_error: Some("nothing answered".into()),
        next_try_in_ms: Some(12_000),
        next: "on node borealis: `mesh-cli allow atlas relay` lets it carry for this node".into(),
    }
}

pub(crate) fn agent(reachability: &str) -> AgentView {
    AgentView {
        address: "@reviewer".parse().unwrap(),
        full: "@reviewer.node:nova".parse().unwrap(),
        node: node(2),
        node_name: "nova".into(),
        harness: "command".into(),
        profile: Some(PermissionProfile::Review),
        reachability: reachability.into(),
        reason: None,
        description: "reads diffs".into(),
        as_of_ms: Some(THEN),
    }
}

pub(crate) fn held() -> Held {
    Held {
        state: "unreachable".into(),
        since_ms: Some(THEN),
        cause: "no answer to probes".into(),
        queued: 3,
        queued_bytes: 1_229,
    }
}

pub(crate) fn receipt(held: Option<Held>) -> Receipt {
    let flight = FlightId::mint(THEN, [1; 10]);
    Receipt {
        reference: flight.suffix(),
        flight_id: Some(flight),
        conversation_id: ConversationId::mint(THEN, [2; 10]),
        message_id: MessageId::mint(THEN, [3; 10]),
        target: "@reviewer.node:nova".parse().unwrap(),
        target_node: node(2),
        state: "queued".into(),
        held,
        replayed: false,
        next: format!("mesh-cli flights {}", flight.suffix()),
    }
}

pub(crate) fn flight(state: FlightState) -> FlightView {
    let receipt = receipt(None);
    FlightView {
        flight_id: FlightId::mint(THEN, [1; 10]),
        reference: receipt.reference,
        conversation_id: receipt.conversation_id,
        message_id: receipt.message_id,
        target: receipt.target,
        target_node: receipt.target_node,
        requester: "operator".into(),
        task: "review the last commit".into(),
        state,
        terminal: state.is_terminal(),
        waiting_on: None,
        delivery: DeliveryPhase::Sent,
        outcome: None,
        late: None,
        reply_message_id: None,
        created_at_ms: THEN,
        updated_at_ms: THEN,
    }
}

pub(crate) fn job(status: JobStatus) -> JobView {
    let result = status.is_terminal().then(|| JobResult {
        status,
        exit_code: Some(3),
        killed_by: None,
        stdout: "out\n".into(),
        stderr: "err\n".into(),
        truncated: false,
        duration_ms: 840,
        isolation: Some(IsolationClass::GvisorApplicationKernel),
        may_have_run: true,
        violations: Vec::new(),
        artifacts: Vec::new(),
    });
    JobView {
        job_id: JobId::mint(THEN, [4; 10]),
        language: Language::Python,
        status,
        terminal: status.is_terminal(),
        node: node(2),
        node_name: "nova".into(),
        requester: "operator".into(),
        delivery: DeliveryPhase::Acknowledged,
        waiting_on: None,
        minimum_isolation: IsolationClass::GvisorApplicationKernel,
        requested_limits: JobLimits::default(),
        principal: None,
        effective_limits: None,
        input_files: Vec::new(),
        outputs: Vec::new(),
        runtime: None,
        result,
        late: None,
        attestation: AttestationView::Pending,
        created_at_ms: THEN,
        updated_at_ms: THEN,
    }
}

/// The text without its styles.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
