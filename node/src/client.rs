//! Talks to the node of this machine over its Unix socket: one typed method an operation.
//!
//! Connections are kept for the next request. Nothing that was sent is sent again, but for [`Client::submit`], whose
//! requests carry a key that makes repeating them safe. When there is no answer, [`ClientError`] says what was found on
//! the way (no home, no process, a socket that refuses), not just that connecting failed.

mod connections;
mod error;
mod exchange;
mod submission;
mod target;

pub use error::ClientError;
pub use submission::SubmissionError;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use mesh_protocol::api::ask::{
    AgentView, AskCommand, CancelReply, FlightView, MessageView, Receipt, ResolveRequest, SendBatch,
    SendRequest, SentBatch, Whoami,
};
use mesh_protocol::api::job::{
    EventPage, JobCapabilities, JobFilter, JobPage, JobReceipt, JobView, OutputView, RunRequest,
};
use mesh_protocol::api::mesh::{
    ExpelReply, ExpelRequest, GrantReply, GrantRequest, InviteReply, InviteRequest, PingReply, RouteView,
};
use mesh_protocol::api::node::{Check, PeerOutbox, Status};
use mesh_protocol::id::JobId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::tokens::Token;
use crate::service::{FlightFilter, MessageFilter};
use connections::Connections;
use target::Target;

/// Where a node is, and with which credential to speak to it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The node's home, looked at only to say why nobody answers.
    pub home: PathBuf,
    /// The file a running node holds locked; its first line is the node's process id. Looked at likewise.
    pub lock: PathBuf,
    /// The socket.
    pub socket: PathBuf,
    /// The operator's token, or the one an agent was given; with none only `status` answers.
    pub token: Option<Token>,
}

/// A client of one node. Any number of requests may be under way at once.
#[derive(Clone)]
pub struct Client {
    endpoint: Endpoint,
    connections: Arc<Connections>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.endpoint).finish()
    }
}

type Answer<T> = Result<T, ClientError>;

impl Client {
    /// A client. Nothing is connected yet.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, connections: Arc::default() }
    }

    /// Where it looks for the node.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// The operations. Each fails with the [`ClientError`] that says why there is no answer, or with the node's own.
#[expect(clippy::missing_errors_doc, reason = "said once, above")]
impl Client {
    /// The node and its peers.
    pub async fn status(&self) -> Answer<Status> {
        self.get(Target::new("status")).await
    }

    /// The node's checks of itself.
    pub async fn doctor(&self) -> Answer<Vec<Check>> {
        self.get(Target::new("doctor")).await
    }

    /// Who this client is to the node.
    pub async fn whoami(&self) -> Answer<Whoami> {
        self.get(Target::new("whoami")).await
    }

    /// Every agent known there.
    pub async fn agents(&self) -> Answer<Vec<AgentView>> {
        self.get(Target::new("agents")).await
    }

    /// The one agent an address means.
    pub async fn resolve(&self, request: &ResolveRequest) -> Answer<AgentView> {
        self.post(Target::new("resolve"), request).await
    }

    /// Says something to an agent; answered once the agent's node has it or `wait_seconds` (0 to 300) are over.
    pub async fn send(&self, request: &SendRequest, wait_seconds: u64) -> Answer<Receipt> {
        let target = Target::new("messages").parameter("wait_seconds", wait_seconds);
        let body = serde_json::to_vec(request).map_err(ClientError::Encode)?.into();
        decode(&self.exchange(Method::POST, target, body, Duration::from_secs(wait_seconds)).await?)
    }

    /// Says many things in one request, in this order. Each is accepted or refused for itself; answered once their nodes
    /// have those that were accepted, or `wait_seconds` (0 to 300) are over.
    pub async fn send_batch(&self, batch: &SendBatch, wait_seconds: u64) -> Answer<SentBatch> {
        let target = Target::new("messages").segment("batch").parameter("wait_seconds", wait_seconds);
        let body = serde_json::to_vec(batch).map_err(ClientError::Encode)?.into();
        decode(&self.exchange(Method::POST, target, body, Duration::from_secs(wait_seconds)).await?)
    }

    /// Messages recorded there, newest first.
    pub async fn messages(&self, filter: &MessageFilter, limit: usize) -> Answer<Vec<MessageView>> {
        let target = Target::new("messages").parameter("limit", limit);
        let target = target.parameter_if("conversation", filter.conversation.as_ref());
        self.get(target.parameter_if("agent", filter.agent.as_ref())).await
    }

    /// Gives an agent work.
    pub async fn ask(&self, command: &AskCommand) -> Answer<Receipt> {
        self.post(Target::new("asks"), command).await
    }

    /// Flights that began there, newest first.
    pub async fn flights(&self, filter: &FlightFilter, limit: usize) -> Answer<Vec<FlightView>> {
        let target = Target::new("flights").parameter("limit", limit);
        self.get(target.parameter_if("state", filter.state.as_ref())).await
    }

    /// One flight by id or ref, once it has ended or `wait_seconds` (0 to 300) are over.
    pub async fn flight(&self, flight: &str, wait_seconds: u64) -> Answer<FlightView> {
        let target = Target::new("flights").segment(flight).parameter("wait_seconds", wait_seconds);
        self.waiting(target, wait_seconds).await
    }

    /// Asks for a flight, by id or ref, to be stopped.
    pub async fn cancel_flight(&self, flight: &str) -> Answer<CancelReply> {
        self.act(Method::POST, Target::new("flights").segment(flight).segment("cancel")).await
    }

    /// Has a job run, in one attempt; [`Client::submit`] survives a lost answer.
    pub async fn run(&self, request: &RunRequest) -> Answer<JobReceipt> {
        self.post(Target::new("jobs"), request).await
    }

    /// Jobs asked for there, newest first, without their outputs.
    pub async fn jobs(&self, filter: &JobFilter, limit: usize) -> Answer<JobPage> {
        let target = Target::new("jobs").parameter("limit", limit);
        let target = target.parameter_if("status", filter.status).parameter_if("language", filter.language);
        let target = target.parameter_if("cursor", filter.cursor.as_ref());
        self.get(target).await
    }

    /// The events of a job behind a place; at least one, unless it has ended or `wait_seconds` (0 to 300) are over.
    pub async fn job_events(&self, job: JobId, after: u64, wait_seconds: u64) -> Answer<EventPage> {
        let target = Target::new("jobs").segment(job).segment("events").parameter("after", after);
        self.waiting(target.parameter("wait_seconds", wait_seconds), wait_seconds).await
    }

    /// The files a job left.
    pub async fn job_outputs(&self, job: JobId) -> Answer<Vec<OutputView>> {
        self.get(Target::new("jobs").segment(job).segment("outputs")).await
    }

    /// What jobs may be here.
    pub async fn job_capabilities(&self) -> Answer<JobCapabilities> {
        self.get(Target::new("capabilities")).await
    }

    /// One job as it is now.
    pub async fn job(&self, job: JobId) -> Answer<JobView> {
        self.get(Target::new("jobs").segment(job)).await
    }

    /// One job with its outputs, once it has ended or `wait_seconds` (0 to 300) are over.
    pub async fn job_result(&self, job: JobId, wait_seconds: u64) -> Answer<JobView> {
        let target = Target::new("jobs").segment(job).segment("result");
        self.waiting(target.parameter("wait_seconds", wait_seconds), wait_seconds).await
    }

    /// Asks for a job to be stopped.
    pub async fn cancel_job(&self, job: JobId) -> Answer<CancelReply> {
        self.act(Method::DELETE, Target::new("jobs").segment(job)).await
    }

    /// The job's evidence, byte for byte.
    pub async fn evidence(&self, job: JobId) -> Answer<Bytes> {
        let target = Target::new("jobs").segment(job).segment("evidence");
        self.exchange(Method::GET, target, Bytes::new(), Duration::ZERO).await
    }

    /// The envelope in it, byte for byte.
    pub async fn attestation(&self, job: JobId) -> Answer<Bytes> {
        let target = Target::new("jobs").segment(job).segment("attestation");
        self.exchange(Method::GET, target, Bytes::new(), Duration::ZERO).await
    }

    /// The result artifact in it, byte for byte.
    pub async fn result_artifact(&self, job: JobId) -> Answer<Bytes> {
        let target = Target::new("jobs").segment(job).segment("result-artifact");
        self.exchange(Method::GET, target, Bytes::new(), Duration::ZERO).await
    }

    /// What waits for each peer.
    pub async fn outboxes(&self) -> Answer<Vec<PeerOutbox>> {
        self.get(Target::new("outbox")).await
    }

    /// Throws away what waits for a peer, by name or id.
    pub async fn discard_outbox(&self, peer: &str) -> Answer<PeerOutbox> {
        self.act(Method::DELETE, Target::new("outbox").segment(peer)).await
    }

    /// Has a ticket made.
    pub async fn invite(&self, request: &InviteRequest) -> Answer<InviteReply> {
        self.post(Target::new("tickets"), request).await
    }

    /// Changes what a peer may do there.
    pub async fn grant(&self, request: &GrantRequest) -> Answer<GrantReply> {
        self.post(Target::new("grants"), request).await
    }

    /// Expels a node from the mesh.
    pub async fn revoke(&self, request: &ExpelRequest) -> Answer<ExpelReply> {
        self.post(Target::new("revocations"), request).await
    }

    /// Has the node do nothing more with a peer.
    pub async fn block(&self, request: &ExpelRequest) -> Answer<ExpelReply> {
        self.post(Target::new("blocks"), request).await
    }

    /// Takes a block back, by the peer's name or id.
    pub async fn unblock(&self, peer: &str) -> Answer<ExpelReply> {
        self.act(Method::DELETE, Target::new("blocks").segment(peer)).await
    }

    /// How a peer, by name or id, is reached from there.
    pub async fn route(&self, peer: &str) -> Answer<RouteView> {
        self.get(Target::new("peers").segment(peer).segment("route")).await
    }

    /// Has a peer, by name or id, asked whether it is there.
    pub async fn ping(&self, peer: &str) -> Answer<PingReply> {
        self.act(Method::POST, Target::new("peers").segment(peer).segment("ping")).await
    }

    /// Has the node stop. It answers before it has stopped.
    pub async fn shutdown(&self) -> Answer<()> {
        self.exchange(Method::POST, Target::new("shutdown"), Bytes::new(), Duration::ZERO).await.map(drop)
    }
}

impl Client {
    async fn get<T: DeserializeOwned>(&self, target: Target) -> Answer<T> {
        self.act(Method::GET, target).await
    }

    async fn waiting<T: DeserializeOwned>(&self, target: Target, wait_seconds: u64) -> Answer<T> {
        let answer =
            self.exchange(Method::GET, target, Bytes::new(), Duration::from_secs(wait_seconds)).await?;
        decode(&answer)
    }

    /// A request without a body.
    async fn act<T: DeserializeOwned>(&self, method: Method, target: Target) -> Answer<T> {
        decode(&self.exchange(method, target, Bytes::new(), Duration::ZERO).await?)
    }

    async fn post<T: DeserializeOwned>(&self, target: Target, body: &impl Serialize) -> Answer<T> {
        let body = serde_json::to_vec(body).map_err(ClientError::Encode)?;
        decode(&self.exchange(Method::POST, target, body.into(), Duration::ZERO).await?)
    }

    async fn exchange(&self, method: Method, target: Target, body: Bytes, wait: Duration) -> Answer<Bytes> {
        exchange::exchange(&self.endpoint, &self.connections, (method, target), body, wait).await
    }
}

fn decode<T: DeserializeOwned>(answer: &[u8]) -> Answer<T> {
    serde_json::from_slice(answer).map_err(ClientError::Decode)
}
