//! A service that answers with fixed views, keeps a line of what it was asked, and ends flights and jobs when told.

use bytes::Bytes;
use mesh_node::service::{EventCursor, FlightFilter, JobLoad, MessageFilter, Principal, Service};
use mesh_protocol::api::ask::{
    AgentView, AskCommand, CancelReply, FlightView, MessageView, Receipt, ResolveRequest, SendRequest,
    SentBatch, Whoami,
};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{
    EventPage, JobCapabilities, JobFilter, JobPage, JobReceipt, JobView, OutputView, RunRequest,
};
use mesh_protocol::api::mesh::{
    ExpelReply, ExpelRequest, GrantReply, GrantRequest, InviteReply, InviteRequest, PingReply, RouteView,
};
use mesh_protocol::api::node::{Check, PeerOutbox, Status};
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{FlightId, JobId};
use mesh_protocol::job::JobStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;

use crate::answers::{self, JOB, NODE};

/// A flight of this ref is not there.
pub(crate) const MISSING: &str = "missing";
/// An address that nothing ever answers.
pub(crate) const SILENT: &str = "@silent";
/// A key that was used for a job.
pub(crate) const USED_KEY: &str = "used";
/// The bytes of every job's evidence: not text, so that any conversion on the way would show.
pub(crate) const EVIDENCE: &[u8] = &[0, 0xff, b'{', 0x80, b'\n'];

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

impl Service for Scripted {
    async fn status(&self, who: &Principal) -> Result<Status, ApiError> {
        self.note("status", who, String::new());
        Ok(answers::status())
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
        Ok(vec![answers::agent("@reviewer")])
    }

    async fn resolve(&self, who: &Principal, request: ResolveRequest) -> Result<AgentView, ApiError> {
        self.note("resolve", who, request.to.clone());
        if request.to == SILENT {
            std::future::pending::<()>().await;
        }
        Ok(answers::agent(&request.to))
    }

    async fn send(&self, who: &Principal, request: SendRequest, wait: Duration) -> Result<Receipt, ApiError> {
        self.note("send", who, format!("{} {} {}", request.to, request.body, wait.as_secs()));
        Ok(answers::receipt(None))
    }

    async fn send_batch(
        &self,
        who: &Principal,
        requests: Vec<SendRequest>,
        wait: Duration,
    ) -> Result<SentBatch, ApiError> {
        let bodies: Vec<String> = requests.into_iter().map(|request| request.body).collect();
        self.note("send_batch", who, format!("{} {}", bodies.join(" "), wait.as_secs()));
        Ok(answers::sent_batch())
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
        Ok(answers::receipt(Some(FlightId::from_bytes([1; 16]))))
    }

    async fn flights(
        &self,
        who: &Principal,
        filter: FlightFilter,
        limit: usize,
    ) -> Result<Vec<FlightView>, ApiError> {
        self.note("flights", who, format!("{:?} {limit}", filter.state));
        Ok(vec![answers::flight(FlightState::Running)])
    }

    async fn flight(&self, who: &Principal, id: &str, wait: Duration) -> Result<FlightView, ApiError> {
        self.note("flight", who, format!("{id} {}", wait.as_secs()));
        if id == MISSING {
            let error = ApiError::new(ErrorKind::NotFound, "no_such_flight", "there is no such flight");
            return Err(error.hint("`mesh-cli flights` lists them"));
        }
        let ended = self.has_ended(wait).await;
        Ok(answers::flight(if ended { FlightState::Completed } else { FlightState::Running }))
    }

    async fn cancel_flight(&self, who: &Principal, id: &str) -> Result<CancelReply, ApiError> {
        self.note("cancel_flight", who, id.to_owned());
        Ok(answers::cancelled())
    }

    async fn run(&self, who: &Principal, request: RunRequest) -> Result<JobReceipt, ApiError> {
        self.note("run", who, format!("{} {} bytes", request.spec.language, request.spec.code.len()));
        Ok(answers::job_receipt())
    }

    async fn jobs(&self, who: &Principal, filter: JobFilter, limit: usize) -> Result<JobPage, ApiError> {
        self.note("jobs", who, format!("{filter:?} {limit}"));
        let next_cursor = Some("12:job".to_owned());
        Ok(JobPage { jobs: vec![answers::job(JOB, JobStatus::Running)], next_cursor })
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
        Ok(answers::capabilities())
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
        Ok(answers::job(id, JobStatus::Running))
    }

    async fn job_result(&self, who: &Principal, id: JobId, wait: Duration) -> Result<JobView, ApiError> {
        self.note("job_result", who, format!("{id} {}", wait.as_secs()));
        let ended = self.has_ended(wait).await;
        Ok(answers::job(id, if ended { JobStatus::Succeeded } else { JobStatus::Running }))
    }

    async fn cancel_job(&self, who: &Principal, id: JobId) -> Result<CancelReply, ApiError> {
        self.note("cancel_job", who, id.to_string());
        Ok(answers::cancelled())
    }

    async fn evidence(&self, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
        self.note("evidence", who, id.to_string());
        Ok(Bytes::from_static(EVIDENCE))
    }

    async fn outboxes(&self, who: &Principal) -> Result<Vec<PeerOutbox>, ApiError> {
        self.note("outboxes", who, String::new());
        Ok(vec![answers::outbox("borea")])
    }

    async fn discard_outbox(&self, who: &Principal, peer: &str) -> Result<PeerOutbox, ApiError> {
        self.note("discard_outbox", who, peer.to_owned());
        Ok(answers::outbox(peer))
    }

    async fn invite(&self, who: &Principal, request: InviteRequest) -> Result<InviteReply, ApiError> {
        self.note("invite", who, request.ttl_seconds.to_string());
        Ok(answers::ticket())
    }

    async fn grant(&self, who: &Principal, request: GrantRequest) -> Result<GrantReply, ApiError> {
        self.note("grant", who, request.peer.clone());
        Ok(answers::granted(&request.peer))
    }

    async fn revoke(&self, who: &Principal, request: ExpelRequest) -> Result<ExpelReply, ApiError> {
        self.note("revoke", who, request.peer.clone());
        Ok(answers::expelled(&request.peer))
    }

    async fn block(&self, who: &Principal, request: ExpelRequest) -> Result<ExpelReply, ApiError> {
        self.note("block", who, request.peer.clone());
        Ok(answers::expelled(&request.peer))
    }

    async fn unblock(&self, who: &Principal, peer: &str) -> Result<ExpelReply, ApiError> {
        self.note("unblock", who, peer.to_owned());
        Ok(answers::expelled(peer))
    }

    async fn route(&self, who: &Principal, peer: &str) -> Result<RouteView, ApiError> {
        self.note("route", who, peer.to_owned());
        Ok(answers::route(peer))
    }

    async fn ping(&self, who: &Principal, peer: &str) -> Result<PingReply, ApiError> {
        self.note("ping", who, peer.to_owned());
        Ok(answers::pong(peer))
    }

    async fn shutdown(&self, who: &Principal) -> Result<(), ApiError> {
        self.note("shutdown", who, String::new());
        Ok(())
    }
}
