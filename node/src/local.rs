//! The node's answers to those who talk to it on its own machine: the one real [`Service`].
//!
//! Reads come from a snapshot and the current view and never wait for the writer; what changes something goes through
//! it, and the answer comes after the commit. An agent sees only what it asked for itself.

mod asks;
mod jobs;
mod membership;
mod route;
mod status;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mesh_node_core::event::{Caller, Command, Event, Reply};
use mesh_node_core::machine::Machine;
use mesh_node_core::site::JobPolicy;
use mesh_node_core::view::View;
use mesh_protocol::address::Name;
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
use mesh_protocol::api::node::{Check, ExecutorView, PeerOutbox, Status};
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::root::RootKey;
use mesh_protocol::ticket::TicketKey;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::clock::NodeClock;
use crate::delivery::Delivery;
use crate::doorkeeper::Doorkeeper;
use crate::identity::{Admission, MeshRoot};
use crate::network::Network;
use crate::service::{EventCursor, FlightFilter, JobLoad, MessageFilter, Principal, Service};
use crate::storage::{Database, Snapshot};
use crate::surroundings::Jobs;
use crate::writer::{SubmitError, WriterHandle};

/// What the node's API is made of.
pub struct Local {
    /// This node.
    pub me: NodeId,
    /// Its label.
    pub name: Name,
    /// Its home, for what doctor says.
    pub home: PathBuf,
    /// Durable state.
    pub database: Arc<Database>,
    /// The way to change it.
    pub writer: WriterHandle<Machine>,
    /// What carries messages to other nodes, for how far they came.
    pub delivery: Arc<Delivery>,
    /// Time.
    pub clock: Arc<NodeClock>,
    /// The others.
    pub network: Network,
    /// The agents here.
    pub agents: Arc<Agents>,
    /// What this node sees.
    pub view: watch::Receiver<Arc<View>>,
    /// Raised when a flight or a job changed.
    pub changes: watch::Receiver<u64>,
    /// What the sandbox offers.
    pub executor: watch::Receiver<ExecutorView>,
    /// The sandbox at work, once it is there.
    pub jobs: Arc<Jobs>,
    /// What jobs may take here.
    pub job_policy: JobPolicy,
    /// How its preflight went.
    pub probes: watch::Receiver<Vec<Check>>,
    /// Who is shut out.
    pub admission: Arc<Admission>,
    /// The root's public key.
    pub root_key: RootKey,
    /// The root, on the founding node.
    pub root: Option<Arc<MeshRoot>>,
    /// From which this node's tickets come.
    pub ticket_key: TicketKey,
    /// Opens the join port while tickets are out.
    pub door: Doorkeeper,
    /// Where members reach this node.
    pub addresses: Vec<std::net::SocketAddr>,
    /// When the process started.
    pub started: Instant,
    /// Cancelled to stop the node.
    pub stopping: CancellationToken,
    /// Held while a revocation list is made: each is made from the one before.
    pub revoking: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({})", self.name)
    }
}

impl Local {
    /// Has the machine decide a command. The answer is durable.
    async fn command(&self, command: Command, bytes: usize) -> Result<Reply, ApiError> {
        decided(self.writer.submit(Event::Command(command), bytes).await)
    }

    fn snapshot(&self) -> Result<Snapshot, ApiError> {
        self.database.snapshot().map_err(|error| storage(&error))
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// Who gives a command, as the machine knows it.
    fn caller(&self, who: &Principal) -> Caller {
        match who {
            Principal::Agent { name, flight } => {
                let hops = flight.map(|flight| self.agents.hops(flight)).unwrap_or_default();
                Caller::Agent { name: name.clone(), hops }
            }
            Principal::Tenant { tenant, principal } => {
                Caller::Tenant { tenant: tenant.clone(), principal: principal.clone() }
            }
            // The API lets nobody without a credential this far.
            Principal::Operator | Principal::Anonymous => Caller::Operator,
        }
    }

    /// Whether a record of this requester is shown to the caller.
    fn shows(who: &Principal, requester: &str) -> bool {
        match who {
            Principal::Operator => true,
            Principal::Agent { name, .. } => requester.strip_prefix('@') == Some(name.as_str()),
            Principal::Tenant { tenant, .. } => requester == tenant,
            Principal::Anonymous => false,
        }
    }

    /// Looks until it has ended or the time is up. A change wakes it; a change missed is impossible, since it looks
    /// after it began to listen.
    async fn until<T>(
        &self,
        wait: Duration,
        ended: impl Fn(&T) -> bool,
        look: impl Fn() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut changes = self.changes.clone();
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            changes.mark_unchanged();
            let seen = look()?;
            if ended(&seen) || wait.is_zero() {
                return Ok(seen);
            }
            match tokio::time::timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                // The time is up, or the node is stopping: what is known now is the answer.
                Ok(Err(_)) | Err(_) => return look(),
            }
        }
    }
}

fn decided(answer: Result<Reply, SubmitError>) -> Result<Reply, ApiError> {
    match answer {
        Ok(Reply::Refused(error)) => Err(error),
        Ok(reply) => Ok(reply),
        Err(error) => Err(unavailable(&error)),
    }
}

fn unavailable(error: &SubmitError) -> ApiError {
    let (kind, code) = match error {
        SubmitError::Full => (ErrorKind::Busy, "node_busy"),
        SubmitError::Stopped => (ErrorKind::Unavailable, "shutting_down"),
        SubmitError::StorageUnavailable => (ErrorKind::Unavailable, "storage_unavailable"),
        SubmitError::DiskFull => (ErrorKind::Unavailable, "disk_full"),
        SubmitError::Quarantined | SubmitError::Unreadable(_) | SubmitError::NoReply => {
            (ErrorKind::Internal, "internal_error")
        }
    };
    let error = ApiError::new(kind, code, error.to_string());
    if code == "disk_full" { error.hint("free some; the node goes on by itself") } else { error }
}

/// State that cannot be read: the details are for the log, which has the whole chain.
fn storage(error: &(dyn std::error::Error + 'static)) -> ApiError {
    tracing::error!(error, "stored state cannot be read");
    ApiError::new(ErrorKind::Unavailable, "storage_unavailable", "the node's stored state cannot be read now")
        .hint("`mesh-cli doctor` says more")
}

/// A reply of another kind than the command's: a fault of ours, said rather than unwrapped.
fn mismatch() -> ApiError {
    ApiError::new(ErrorKind::Internal, "internal_error", "the node answered something else")
}

impl Service for Local {
    async fn status(&self, who: &Principal) -> Result<Status, ApiError> {
        status::status(self, who).await
    }

    async fn doctor(&self, _: &Principal) -> Result<Vec<Check>, ApiError> {
        status::doctor(self)
    }

    async fn whoami(&self, who: &Principal) -> Result<Whoami, ApiError> {
        let principal = match who {
            Principal::Operator => "operator".to_owned(),
            Principal::Agent { name, .. } => format!("@{name}.node:{}", self.name),
            Principal::Tenant { tenant, principal } => format!("{tenant}/{principal}"),
            Principal::Anonymous => "nobody".to_owned(),
        };
        let may = who.may();
        Ok(Whoami { principal, node: self.me, node_name: self.name.to_string(), may })
    }

    async fn agents(&self, _: &Principal) -> Result<Vec<AgentView>, ApiError> {
        Ok(mesh_node_core::broker::list::agents(&self.view()))
    }

    async fn resolve(&self, _: &Principal, request: ResolveRequest) -> Result<AgentView, ApiError> {
        asks::resolve(self, &request)
    }

    async fn send(&self, who: &Principal, request: SendRequest, wait: Duration) -> Result<Receipt, ApiError> {
        let bytes = request.body.len();
        match self.command(Command::Send(self.caller(who), request), bytes).await? {
            Reply::Receipt(receipt) if wait.is_zero() => Ok(receipt),
            Reply::Receipt(receipt) => asks::arrived(self, receipt, wait).await,
            _ => Err(mismatch()),
        }
    }

    async fn send_batch(
        &self,
        who: &Principal,
        requests: Vec<SendRequest>,
        wait: Duration,
    ) -> Result<SentBatch, ApiError> {
        asks::send_batch(self, self.caller(who), requests, wait).await
    }

    async fn messages(
        &self,
        who: &Principal,
        filter: MessageFilter,
        limit: usize,
    ) -> Result<Vec<MessageView>, ApiError> {
        asks::messages(self, who, &filter, limit)
    }

    async fn ask(&self, who: &Principal, command: AskCommand) -> Result<Receipt, ApiError> {
        let bytes = command.task.len();
        match self.command(Command::Ask(self.caller(who), command), bytes).await? {
            Reply::Receipt(receipt) => Ok(receipt),
            _ => Err(mismatch()),
        }
    }

    async fn flights(
        &self,
        who: &Principal,
        filter: FlightFilter,
        limit: usize,
    ) -> Result<Vec<FlightView>, ApiError> {
        asks::flights(self, who, &filter, limit)
    }

    async fn flight(&self, who: &Principal, flight: &str, wait: Duration) -> Result<FlightView, ApiError> {
        self.until(wait, |view: &FlightView| view.terminal, || asks::flight(self, who, flight)).await
    }

    async fn cancel_flight(&self, who: &Principal, flight: &str) -> Result<CancelReply, ApiError> {
        let id = asks::flight(self, who, flight)?.flight_id;
        match self.command(Command::CancelFlight(id), 0).await? {
            Reply::Cancelled(cancelled) => Ok(cancelled),
            _ => Err(mismatch()),
        }
    }

    async fn run(&self, who: &Principal, request: RunRequest) -> Result<JobReceipt, ApiError> {
        jobs::run(self, who, request).await
    }

    async fn jobs(&self, who: &Principal, filter: JobFilter, limit: usize) -> Result<JobPage, ApiError> {
        jobs::list(self, who, &filter, limit)
    }

    async fn job_events(
        &self,
        who: &Principal,
        job: JobId,
        behind: EventCursor,
        wait: Duration,
    ) -> Result<EventPage, ApiError> {
        let news = |page: &EventPage| page.ended || !page.events.is_empty();
        self.until(wait, news, || jobs::events(self, who, job, behind)).await
    }

    async fn job_outputs(&self, who: &Principal, job: JobId) -> Result<Vec<OutputView>, ApiError> {
        jobs::outputs(self, who, job)
    }

    async fn job_capabilities(&self, _: &Principal) -> Result<JobCapabilities, ApiError> {
        Ok(jobs::capabilities(self))
    }

    async fn job_key_reused(&self, who: &Principal, key: Option<&str>) -> Result<Option<ApiError>, ApiError> {
        jobs::key_reused(self, who, key)
    }

    async fn job_load(&self, who: &Principal) -> Result<JobLoad, ApiError> {
        jobs::load(self, who)
    }

    async fn attestation(&self, who: &Principal, job: JobId) -> Result<Bytes, ApiError> {
        jobs::attestation(self, who, job)
    }

    async fn result_artifact(&self, who: &Principal, job: JobId) -> Result<Bytes, ApiError> {
        jobs::result_artifact(self, who, job)
    }

    async fn job(&self, who: &Principal, job: JobId) -> Result<JobView, ApiError> {
        jobs::one(self, who, job)
    }

    async fn job_result(&self, who: &Principal, job: JobId, wait: Duration) -> Result<JobView, ApiError> {
        self.until(wait, |view: &JobView| view.terminal, || jobs::one(self, who, job)).await
    }

    async fn cancel_job(&self, who: &Principal, job: JobId) -> Result<CancelReply, ApiError> {
        jobs::one(self, who, job)?;
        match self.command(Command::CancelJob(job), 0).await? {
            Reply::Cancelled(cancelled) => Ok(cancelled),
            _ => Err(mismatch()),
        }
    }

    async fn evidence(&self, who: &Principal, job: JobId) -> Result<Bytes, ApiError> {
        jobs::evidence(self, who, job)
    }

    async fn outboxes(&self, _: &Principal) -> Result<Vec<PeerOutbox>, ApiError> {
        status::outboxes(self)
    }

    async fn discard_outbox(&self, _: &Principal, peer: &str) -> Result<PeerOutbox, ApiError> {
        membership::discard(self, peer).await
    }

    async fn invite(&self, _: &Principal, request: InviteRequest) -> Result<InviteReply, ApiError> {
        membership::invite(self, &request).await
    }

    async fn grant(&self, _: &Principal, request: GrantRequest) -> Result<GrantReply, ApiError> {
        membership::grant(self, request).await
    }

    async fn revoke(&self, _: &Principal, request: ExpelRequest) -> Result<ExpelReply, ApiError> {
        membership::revoke(self, &request).await
    }

    async fn block(&self, _: &Principal, request: ExpelRequest) -> Result<ExpelReply, ApiError> {
        membership::block(self, &request).await
    }

    async fn unblock(&self, _: &Principal, peer: &str) -> Result<ExpelReply, ApiError> {
        membership::unblock(self, peer).await
    }

    async fn route(&self, _: &Principal, peer: &str) -> Result<RouteView, ApiError> {
        route::route(self, peer).await
    }

    async fn ping(&self, _: &Principal, peer: &str) -> Result<PingReply, ApiError> {
        route::ping(self, peer).await
    }

    async fn shutdown(&self, _: &Principal) -> Result<(), ApiError> {
        self.stopping.cancel();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_anothers_is_not_there_whatever_either_is_called() {
        let tenant = |name: &str| Principal::Tenant { tenant: name.to_owned(), principal: "key".to_owned() };
        let agent = Principal::Agent { name: "acme".parse().unwrap(), flight: None };
        assert!(Local::shows(&tenant("acme"), "acme"));
        assert!(Local::shows(&agent, "@acme"));
        assert!(Local::shows(&Principal::Operator, "acme"));
        for (who, whose) in [
            (&tenant("acme"), "umbrella"),
            (&tenant("acme"), "@acme"),
            (&tenant("acme"), "operator"),
            (&agent, "acme"),
            (&agent, "@umbrella"),
            (&Principal::Anonymous, "acme"),
        ] {
            assert!(!Local::shows(who, whose), "{who:?} and {whose}");
        }
    }
}
