//! What can happen to the durable machine, and what it asks to be done.
//!
//! Data only. Actions are performed after the commit that decided them; whatever comes back carries the attempt or
//! the session it belongs to, so that a late arrival is recognised and ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_protocol::address::Name;
use mesh_protocol::api::ask::{AskCommand, CancelReply, Receipt, SendRequest};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::api::job::JobReceipt;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::delivery::{Ack, Gap, Open, Parcel, Resume, ToReceiver, ToSender};
use mesh_protocol::evidence::event::Event as JobEvent;
use mesh_protocol::evidence::receipt::ExecutorOutput;
use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::id::{FlightId, JobId, NodeId, TicketId};
use mesh_protocol::job::{JobResult, JobSpec, OutputFile};
use mesh_protocol::message::Hop;
use mesh_protocol::policy::{Grant, Trust};
use mesh_protocol::record::SignedRecord;
use mesh_protocol::revocation::RevocationList;

use serde::{Deserialize, Serialize};

use crate::jobs::outline::Outline;
use crate::jobs::submission::Submission;
use crate::joining::{RedeemRequest, Redemption};
use crate::policy::GrantChange;
use crate::site::AgentSetting;
use crate::time::NodeTime;
use crate::turn::Place;
use crate::view::View;

/// Who gives a command, by the credential they showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// The person who runs this node.
    Operator,
    /// An agent of this node, within a run.
    Agent {
        /// Its name.
        name: Name,
        /// The agents its work came through.
        hops: Vec<Hop>,
    },
    /// The holder of a key that this node gave out. Runs jobs and does nothing else.
    Tenant {
        /// On whose behalf: never `operator`, and nothing that begins with `@`.
        tenant: String,
        /// Who in particular.
        principal: String,
    },
}

impl Caller {
    /// The name by which records and peers know it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Operator => "operator",
            Self::Agent { name, .. } => name.as_str(),
            Self::Tenant { tenant, .. } => tenant,
        }
    }

    /// On whose behalf its jobs run: no two kinds of caller can have one tenant.
    #[must_use]
    pub fn tenant(&self) -> String {
        match self {
            Self::Operator => "operator".to_owned(),
            Self::Agent { name, .. } => format!("@{name}"),
            Self::Tenant { tenant, .. } => tenant.clone(),
        }
    }

    /// Who in particular, where a tenant is several.
    #[must_use]
    pub fn principal(&self) -> Option<String> {
        match self {
            Self::Operator | Self::Agent { .. } => None,
            Self::Tenant { principal, .. } => Some(principal.clone()),
        }
    }
}

/// Something an authorised caller wants. Who may want what was decided where the credential was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Say something to an agent.
    Send(Caller, SendRequest),
    /// Give an agent work.
    Ask(Caller, AskCommand),
    /// Stop a flight this node is the origin of.
    CancelFlight(FlightId),
    /// Run a job.
    Run(Caller, Box<Submission>),
    /// Stop a job this node is the origin of.
    CancelJob(JobId),
    /// Change what a peer may do here.
    Grant(NodeId, GrantChange),
    /// Set the preset for members without a row.
    DefaultTrust(Trust),
    /// Note a new ticket, good for this many milliseconds, and what the node that joins with it may do here.
    Invite(TicketId, u64, Trust),
    /// Decide about the holder of a ticket.
    Redeem(RedeemRequest),
    /// Have nothing more to do with a peer, by this node's operator's word: end what waits for it.
    Block(NodeId, String),
    /// Take that back.
    Unblock(NodeId),
    /// Put a checked revocation list in force and end what waits for whom it names.
    Revoke(RevocationList),
    /// Let delivery forget what it need not keep, a bounded number of rows; the answer is how many it looked at.
    Tidy,
    /// Drop what waits for a peer and end the flights and jobs that depended on it.
    Discard(NodeId),
}

/// What a peer's delivery streams bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// A link is up: begin a sending session with this number.
    Begin {
        /// The session.
        session: u64,
    },
    /// The peer says how far it got.
    Resume {
        /// The session.
        session: u64,
        /// Its answer.
        resume: Resume,
    },
    /// The peer acknowledges.
    Ack {
        /// The session.
        session: u64,
        /// Up to where.
        ack: Ack,
    },
    /// The sending session is over.
    Lost {
        /// The session.
        session: u64,
    },
    /// The peer begins to send.
    Open(Open),
    /// The peer lost a range.
    Gap {
        /// The session.
        session: u64,
        /// Which.
        gap: Gap,
    },
    /// The peer sends a message.
    Parcel {
        /// The session.
        session: u64,
        /// The message.
        parcel: Parcel,
    },
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// The process started: end what a crash interrupted, set the timers.
    Started,
    /// Someone wants something.
    Command(Command),
    /// A peer's delivery stream brought something. The peer is the link's, never the message's.
    Delivery(NodeId, Delivery),
    /// What this node sees of the mesh changed. Volatile.
    View(Arc<View>),
    /// Members' records to keep, and members to forget.
    Records(Vec<(NodeId, SignedRecord)>, Vec<NodeId>),
    /// This node's disk was set back: it says so by a later start.
    RaiseEpoch(u64),
    /// The agents configured here, or what is known of them, changed. Volatile.
    Agents(BTreeMap<Name, AgentSetting>),
    /// What the sandbox here offers was observed. Volatile.
    Executor(ExecutorView),
    /// An agent ended a run.
    RunEnded {
        /// Who asked.
        origin: NodeId,
        /// For which flight.
        flight: FlightId,
        /// Which attempt this reports on.
        attempt: u32,
        /// How it ended.
        outcome: FlightOutcome,
    },
    /// The sandbox began a job.
    JobStarted {
        /// Who asked.
        origin: NodeId,
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: u32,
    },
    /// The sandbox ended a job.
    JobEnded {
        /// Who asked.
        origin: NodeId,
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// How it ended.
        result: JobResult,
        /// The signed bundle.
        evidence: Vec<u8>,
        /// The files it left.
        outputs: Vec<OutputFile>,
        /// Its last events, those that no [`Event::JobEvents`] had.
        events: Vec<JobEvent>,
    },
    /// What a job did: events that follow each other and the ones before.
    JobEvents {
        /// Who asked.
        origin: NodeId,
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// At most 64.
        events: Vec<JobEvent>,
    },
    /// The end of a job that this node decided is signed.
    JobAttested {
        /// Which job.
        job: JobId,
        /// The signed bundle; empty when nothing is signed here.
        evidence: Vec<u8>,
    },
    /// The end of a job could not be signed. For one that ran here it comes before its [`Event::JobEnded`].
    JobUnsigned {
        /// Who asked.
        origin: NodeId,
        /// Which job.
        job: JobId,
        /// What was seen of its streams, where that is known: it is kept until it is signed.
        seen: Option<Box<ExecutorOutput>>,
        /// For an end that was decided before: its last events, which a signature will be about too.
        events: Vec<JobEvent>,
    },
    /// A deadline passed.
    Due,
    /// The process is about to stop: what waits begins after the next start. Volatile.
    Stopping,
}

/// Why a job is closed without having been run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloseReason {
    /// This node was restarted while it ran.
    NodeRestarted,
    /// It was stopped before it started.
    CancelledBeforeStart,
    /// Its deadline passed before it started.
    DeadlinePassed,
    /// It was taken in before the sandbox was observed, and the sandbox cannot run it.
    Unavailable,
}

/// A job for the sandbox here, or one whose end is to be attested here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTicket {
    /// Who asked.
    pub origin: NodeId,
    /// Which job.
    pub job: JobId,
    /// Which attempt.
    pub attempt: u32,
    /// The tenant, `<peer>/<name>`.
    pub tenant: String,
    /// What was asked for.
    pub asked: Outline,
    /// When it was accepted here, wall clock.
    pub created_wall_ms: u64,
    /// What is recorded of it already.
    pub events: Vec<JobEvent>,
}

/// What to do, after the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Write a frame on our sending stream of this session.
    SendFrame(NodeId, u64, ToReceiver),
    /// Stream parcels from this sequence on, in this session.
    StreamFrom(NodeId, u64, u64),
    /// There are new parcels for this peer.
    OutboxGrew(NodeId),
    /// A peer has everything up to this place on its disk: wake who waits for that.
    Acknowledged(NodeId, Place),
    /// Answer on the peer's sending stream of this session.
    Answer(NodeId, u64, ToSender),
    /// Close the peer's sending stream of this session: it sent what no sender sends.
    Reset(NodeId, u64),
    /// Give an agent its work.
    StartRun {
        /// Who asked.
        origin: NodeId,
        /// For which flight.
        flight: FlightId,
        /// Which attempt.
        attempt: u32,
        /// The agent.
        agent: Name,
        /// The task.
        task: String,
        /// Milliseconds until the answer is of no use.
        remaining_ms: u64,
        /// The agents the ask came through, this one last.
        hops: Vec<Hop>,
    },
    /// Stop an agent's run.
    StopRun {
        /// Who asked.
        origin: NodeId,
        /// For which flight.
        flight: FlightId,
    },
    /// Run a job: this, which is what was asked for as far as this node grants it.
    StartJob(JobTicket, Box<JobSpec>),
    /// Stop a job.
    StopJob {
        /// Who asked.
        origin: NodeId,
        /// Which job.
        job: JobId,
    },
    /// Attest the end of a job that is not running, and report it as ended.
    CloseJob(JobTicket, CloseReason),
    /// Attest an end that this node decided, or could not sign when it came, and report it with
    /// [`Event::JobAttested`]; with what was seen of the job's streams, where that was kept.
    AttestEnd(JobTicket, JobResult, Option<Box<ExecutorOutput>>),
    /// Post [`Event::Due`] at this time, at the latest.
    WakeAt(NodeTime),
    /// A flight changed: wake who waits for it.
    FlightChanged(FlightId),
    /// A job changed: wake who waits for it.
    JobChanged(JobId),
}

/// The answer to a command.
#[derive(Debug)]
pub enum Reply {
    /// A message or an ask was accepted.
    Receipt(Receipt),
    /// A job was accepted.
    Job(JobReceipt),
    /// A stop was taken in.
    Cancelled(CancelReply),
    /// The grant as it is now.
    Grant(Grant),
    /// A ticket is out; until when, by the wall clock.
    Invited(u64),
    /// What became of a ticket.
    Redeemed(Redemption),
    /// Done; how many flights and jobs it ended.
    Done(usize),
    /// Refused: nothing changed.
    Refused(ApiError),
}
