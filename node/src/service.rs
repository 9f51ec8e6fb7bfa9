//! What a node does for those who talk to it on its own machine: one method an operation.
//!
//! The HTTP API is the way in to the [`Service`], and the MCP adapter a client of it; the node is its one real
//! implementation.
//! Here is no transport, no parsing and no credential: whoever calls has already decided who the [`Principal`] is and
//! that it may use the operation at all (`api::operation` has that table).
//!
//! What an implementation owes:
//! - An agent sees and stops only what it asked for or is party to. What is not its own is `not_found`, exactly as
//!   what does not exist, so that ids cannot be probed.
//! - A method returns `Ok` for something accepted only once that is durable.
//! - The future may be dropped at any await (the caller hung up, the time was up). That never undoes what was
//!   accepted, and leaves nothing locked or half written.

use std::time::Duration;

use bytes::Bytes;
use mesh_protocol::address::Name;
use mesh_protocol::api::ask::{
    AgentView, AskCommand, CancelReply, FlightView, MessageView, Receipt, ResolveRequest, SendRequest,
    SentBatch, Whoami,
};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::api::job::{
    EventPage, JobCapabilities, JobFilter, JobPage, JobReceipt, JobView, OutputView, RunRequest,
};
use mesh_protocol::api::mesh::{
    ExpelReply, ExpelRequest, GrantReply, GrantRequest, InviteReply, InviteRequest, PingReply, RouteView,
};
use mesh_protocol::api::node::{Check, PeerOutbox, Status};
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{ConversationId, FlightId, JobId};
use serde::{Deserialize, Serialize};

/// Rows a list has when the caller names no limit.
pub const LIST_ROWS_DEFAULT: usize = 50;
/// Rows a list has at most.
pub const LIST_ROWS_MAX: usize = 500;

/// Events of a job when the caller names no limit.
pub const EVENT_ROWS_DEFAULT: usize = 1_000;
/// Events of a job at most.
pub const EVENT_ROWS_MAX: usize = mesh_node_core::limits::EVENT_PAGE_MAX;

/// Who is calling, as its credential says. Never taken from the text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The person this node belongs to, or a program acting for them.
    Operator,
    /// An agent this node runs, for as long as the run lasts.
    Agent {
        /// Which agent.
        name: Name,
        /// The flight it is working on; asks it makes continue that flight's hop chain.
        flight: Option<FlightId>,
    },
    /// The holder of a key to run jobs with, and to see those of its tenant.
    Tenant {
        /// On whose behalf.
        tenant: String,
        /// Who in particular.
        principal: String,
    },
    /// No credential.
    Anonymous,
}

/// Which messages to list. Both filters must match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MessageFilter {
    /// Of this conversation only.
    #[serde(default)]
    pub conversation: Option<ConversationId>,
    /// To or from this agent of this node only.
    #[serde(default)]
    pub agent: Option<Name>,
}

/// Which flights to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlightFilter {
    /// In this state only.
    #[serde(default)]
    pub state: Option<FlightState>,
}

/// Where to go on reading a job's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventCursor {
    /// Behind this event; 0 for the beginning.
    #[serde(default)]
    pub after: u64,
    /// How many at most; [`EVENT_ROWS_DEFAULT`] when absent, never more than [`EVENT_ROWS_MAX`].
    #[serde(default)]
    pub limit: Option<usize>,
}

/// What the jobs of one tenant take on this node, and how much they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobLoad {
    /// Jobs that wait.
    pub queued: u64,
    /// Of those, how many may.
    pub queued_max: u64,
    /// Jobs that run.
    pub running: u64,
    /// Bytes kept or set aside.
    pub bytes: u64,
    /// Of those, how many may be.
    pub bytes_max: u64,
}

/// The operations of a node. Lists are newest first and never longer than the `limit` given, which is 1 to
/// [`LIST_ROWS_MAX`]; a `wait` ends early with the current view when the thing has ended, and changes nothing.
pub trait Service: Send + Sync + 'static {
    /// The node and its peers. With no credential this is all there is, so it must not hold anything secret.
    fn status(&self, who: &Principal) -> impl Future<Output = Result<Status, ApiError>> + Send;

    /// Every check the node can make of itself, the most important first.
    fn doctor(&self, who: &Principal) -> impl Future<Output = Result<Vec<Check>, ApiError>> + Send;

    /// Who the caller is here.
    fn whoami(&self, who: &Principal) -> impl Future<Output = Result<Whoami, ApiError>> + Send;

    /// Every agent known from here, on this node and on others.
    fn agents(&self, who: &Principal) -> impl Future<Output = Result<Vec<AgentView>, ApiError>> + Send;

    /// The one agent an address means, by the same rules `send` and `ask` use.
    fn resolve(
        &self,
        who: &Principal,
        request: ResolveRequest,
    ) -> impl Future<Output = Result<AgentView, ApiError>> + Send;

    /// Records a message and has it delivered. No work is tracked. It has ended once the agent's node has it.
    fn send(
        &self,
        who: &Principal,
        request: SendRequest,
        wait: Duration,
    ) -> impl Future<Output = Result<Receipt, ApiError>> + Send;

    /// Records many messages in this order, each for itself. It has ended once their nodes have those that were accepted.
    fn send_batch(
        &self,
        who: &Principal,
        requests: Vec<SendRequest>,
        wait: Duration,
    ) -> impl Future<Output = Result<SentBatch, ApiError>> + Send;

    /// Messages recorded here.
    fn messages(
        &self,
        who: &Principal,
        filter: MessageFilter,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<MessageView>, ApiError>> + Send;

    /// Gives an agent work and opens a flight for it.
    fn ask(
        &self,
        who: &Principal,
        command: AskCommand,
    ) -> impl Future<Output = Result<Receipt, ApiError>> + Send;

    /// Flights that began here.
    fn flights(
        &self,
        who: &Principal,
        filter: FlightFilter,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<FlightView>, ApiError>> + Send;

    /// One flight, by its id or its ref, once it has ended or `wait` is over.
    fn flight(
        &self,
        who: &Principal,
        flight: &str,
        wait: Duration,
    ) -> impl Future<Output = Result<FlightView, ApiError>> + Send;

    /// Asks for a flight to be stopped, by its id or its ref. Repeating it is harmless.
    fn cancel_flight(
        &self,
        who: &Principal,
        flight: &str,
    ) -> impl Future<Output = Result<CancelReply, ApiError>> + Send;

    /// Accepts a job.
    fn run(
        &self,
        who: &Principal,
        request: RunRequest,
    ) -> impl Future<Output = Result<JobReceipt, ApiError>> + Send;

    /// Jobs asked for here. Their outputs are left out: `result` is absent in a list.
    fn jobs(
        &self,
        who: &Principal,
        filter: JobFilter,
        limit: usize,
    ) -> impl Future<Output = Result<JobPage, ApiError>> + Send;

    /// One job as it is now.
    fn job(&self, who: &Principal, job: JobId) -> impl Future<Output = Result<JobView, ApiError>> + Send;

    /// One job with its outputs, once it has ended or `wait` is over.
    fn job_result(
        &self,
        who: &Principal,
        job: JobId,
        wait: Duration,
    ) -> impl Future<Output = Result<JobView, ApiError>> + Send;

    /// The events of a job behind a cursor, at most `limit`; at least one, unless the job has ended or `wait` is over.
    fn job_events(
        &self,
        who: &Principal,
        job: JobId,
        behind: EventCursor,
        wait: Duration,
    ) -> impl Future<Output = Result<EventPage, ApiError>> + Send;

    /// The files a job left.
    fn job_outputs(
        &self,
        who: &Principal,
        job: JobId,
    ) -> impl Future<Output = Result<Vec<OutputView>, ApiError>> + Send;

    /// What jobs may be here.
    fn job_capabilities(
        &self,
        who: &Principal,
    ) -> impl Future<Output = Result<JobCapabilities, ApiError>> + Send;

    /// What is said of a job that is none, if the caller used its idempotency key before.
    fn job_key_reused(
        &self,
        who: &Principal,
        idempotency_key: Option<&str>,
    ) -> impl Future<Output = Result<Option<ApiError>, ApiError>> + Send;

    /// What the caller's jobs take here.
    fn job_load(&self, who: &Principal) -> impl Future<Output = Result<JobLoad, ApiError>> + Send;

    /// Asks for a job to be stopped. Repeating it is harmless.
    fn cancel_job(
        &self,
        who: &Principal,
        job: JobId,
    ) -> impl Future<Output = Result<CancelReply, ApiError>> + Send;

    /// The job's evidence, byte for byte as it was stored.
    fn evidence(&self, who: &Principal, job: JobId) -> impl Future<Output = Result<Bytes, ApiError>> + Send;

    /// The envelope in it, byte for byte as it was signed.
    fn attestation(
        &self,
        who: &Principal,
        job: JobId,
    ) -> impl Future<Output = Result<Bytes, ApiError>> + Send;

    /// The result artifact in it, byte for byte as it was digested.
    fn result_artifact(
        &self,
        who: &Principal,
        job: JobId,
    ) -> impl Future<Output = Result<Bytes, ApiError>> + Send;

    /// What waits for each peer.
    fn outboxes(&self, who: &Principal) -> impl Future<Output = Result<Vec<PeerOutbox>, ApiError>> + Send;

    /// Throws away what waits for a peer, by its name or id, and says what that was.
    fn discard_outbox(
        &self,
        who: &Principal,
        peer: &str,
    ) -> impl Future<Output = Result<PeerOutbox, ApiError>> + Send;

    /// Issues a ticket.
    fn invite(
        &self,
        who: &Principal,
        request: InviteRequest,
    ) -> impl Future<Output = Result<InviteReply, ApiError>> + Send;

    /// Changes what a peer may do here.
    fn grant(
        &self,
        who: &Principal,
        request: GrantRequest,
    ) -> impl Future<Output = Result<GrantReply, ApiError>> + Send;

    /// Expels a node from the mesh, for everyone and for good.
    fn revoke(
        &self,
        who: &Principal,
        request: ExpelRequest,
    ) -> impl Future<Output = Result<ExpelReply, ApiError>> + Send;

    /// Has nothing more to do with a peer, for this node only.
    fn block(
        &self,
        who: &Principal,
        request: ExpelRequest,
    ) -> impl Future<Output = Result<ExpelReply, ApiError>> + Send;

    /// Takes a block back, by the peer's name or id.
    fn unblock(
        &self,
        who: &Principal,
        peer: &str,
    ) -> impl Future<Output = Result<ExpelReply, ApiError>> + Send;

    /// How a peer, by its name or id, is reached, and what was tried. Asks other members, for a moment.
    fn route(&self, who: &Principal, peer: &str) -> impl Future<Output = Result<RouteView, ApiError>> + Send;

    /// Asks a peer, by its name or id, whether it is there. Fails at once when it is not linked.
    fn ping(&self, who: &Principal, peer: &str) -> impl Future<Output = Result<PingReply, ApiError>> + Send;

    /// Begins to stop the node. The answer comes before it has stopped.
    fn shutdown(&self, who: &Principal) -> impl Future<Output = Result<(), ApiError>> + Send;
}
