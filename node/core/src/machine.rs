//! The durable machine: every event that may change what this node has promised.
//!
//! One event in, changes in the overlay, actions and a reply out. What it keeps beside the store is what it was told
//! of the world ([`Site`]): replaced whole by events that cannot fail, never derived from the store.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::codec::decode;
use mesh_protocol::delivery::{Ack, Busy, BusyReason, Gap, Open, Parcel, Resume, ToReceiver, ToSender};
use mesh_protocol::id::{NodeId, TicketId};
use mesh_protocol::message::PeerMessage;
use mesh_protocol::policy::Trust;
use mesh_protocol::revocation::RevocationList;
use rand::Rng;

use crate::broker::{flight, run, send};
use crate::deadline;
use crate::event::{Action, Command, Delivery, Event, Reply};
use crate::handler::{Handled, Handler};
use crate::jobs::ended::Ended;
use crate::jobs::{execution, job, signing, submit};
use crate::joining::{self, IssueError, RedeemRequest, Redemption};
use crate::limits::TIDY_BATCH;
use crate::minted::Minted;
use crate::outbox::{self, BlockReason, OpenError, Resumed, Take};
use crate::policy::{self, DefaultTrust, GrantChange, TicketTrust};
use crate::receive;
use crate::roster::{Block, MemberRecord, Revocations, Starts};
use crate::site::Site;
use crate::store::{Overlay, StoreError};
use crate::time::Now;
use crate::turn::{Place, Turn};

/// Milliseconds a peer is asked to wait when this node remembers as much of it as it may.
const INBOX_FULL_RETRY_MS: u64 = 30_000;

/// A body that makes the handler of parcels panic where debug assertions are on, and is nonsense everywhere else: tests
/// ask for a defect with it, from the outside.
pub const DEFECT: &[u8] = b"\xffa test asks for a defect";

/// The machine of one node.
#[derive(Debug)]
pub struct Machine {
    site: Site,
    stopping: bool,
    awaits_executor: bool,
    minted: Minted,
}

impl Machine {
    /// A machine that knows its own node and nobody else yet.
    #[must_use]
    pub fn new(site: Site) -> Self {
        Self { site, stopping: false, awaits_executor: false, minted: Minted::default() }
    }

    /// The same of a node whose sandbox is still being looked at: jobs wait for [`Event::Executor`], they are not
    /// refused for want of a sandbox.
    #[must_use]
    pub fn awaiting_executor(self) -> Self {
        Self { awaits_executor: true, ..self }
    }
}

impl Handler for Machine {
    type Event = Event;
    type Action = Action;
    type Reply = Reply;

    fn handle(
        &mut self,
        tx: &mut Overlay<'_>,
        now: Now,
        rng: &mut dyn Rng,
        event: &Event,
    ) -> Result<Handled<Action, Reply>, StoreError> {
        match event {
            Event::View(view) => self.site.view = view.clone(),
            Event::Agents(agents) => self.site.agents.clone_from(agents),
            Event::Executor(executor) => {
                self.site.executor.clone_from(executor);
                self.awaits_executor = false;
            }
            Event::Stopping => self.stopping = true,
            _ => {}
        }
        let Self { site, stopping, awaits_executor, minted } = self;
        let (stopping, awaits_executor) = (*stopping, *awaits_executor);
        let mut turn = Turn { tx, now, rng, minted, site, stopping, awaits_executor, actions: Vec::new() };
        let reply = decide(&mut turn, event)?;
        Ok(Handled { actions: turn.actions, reply })
    }

    /// An acknowledgement is cumulative, and what it takes out of the outbox the next session finds out anew. Not when it
    /// gave a status its place: a parcel is on the wire only when it is durable.
    fn comes_again(event: &Event, actions: &[Action]) -> bool {
        matches!(event, Event::Delivery(_, Delivery::Ack { .. }))
            && !actions.iter().any(|action| matches!(action, Action::OutboxGrew(_)))
    }

    fn describe(event: &Event) -> &'static str {
        match event {
            Event::Started => "started",
            Event::Command(_) => "command",
            Event::Delivery(_, Delivery::Parcel { .. }) => "parcel",
            Event::Delivery(..) => "delivery",
            Event::View(_) => "view",
            Event::Records(..) => "records",
            Event::RaiseEpoch(_) => "raise-epoch",
            Event::Agents(_) => "agents",
            Event::Executor(_) => "executor",
            Event::RunEnded { .. } => "run-ended",
            Event::JobStarted { .. } => "job-started",
            Event::JobEnded { .. } => "job-ended",
            Event::JobEvents { .. } => "job-events",
            Event::JobAttested { .. } => "job-attested",
            Event::JobUnsigned { .. } => "job-unsigned",
            Event::Due => "due",
            Event::Stopping => "stopping",
        }
    }
}

fn decide(turn: &mut Turn<'_, '_>, event: &Event) -> Result<Option<Reply>, StoreError> {
    match event {
        Event::Started => {
            outbox::forget_sessions(turn.tx)?;
            run::recover(turn)?;
            execution::recover(turn)?;
            signing::recover(turn)?;
            deadline::handle_due(turn)?;
        }
        Event::Command(command) => return handle_command(turn, command).map(Some),
        Event::Delivery(peer, delivery) => handle_delivery(turn, *peer, delivery)?,
        Event::View(_) | Event::Stopping => {}
        Event::Records(put, forget) => {
            put.iter().for_each(|(node, record)| turn.tx.put(node, &MemberRecord(record.clone())));
            forget.iter().for_each(|node| turn.tx.delete::<MemberRecord>(node));
        }
        Event::RaiseEpoch(epoch) => {
            let starts = turn.tx.get_record::<Starts>(&())?.map_or(0, |starts| starts.0);
            turn.tx.put(&(), &Starts(starts.max(*epoch)));
        }
        Event::Agents(_) => run::start_all(turn)?,
        Event::Executor(_) => execution::observed(turn)?,
        Event::RunEnded { origin, flight, attempt, outcome } => {
            run::reported(turn, (*origin, *flight), *attempt, outcome.clone())?;
        }
        Event::JobStarted { origin, job, attempt } => execution::started(turn, (*origin, *job), *attempt)?,
        Event::JobEnded { origin, job, attempt, result, evidence, outputs, events } => {
            let (result, evidence, outputs) = (result.clone(), evidence.clone(), outputs.clone());
            let ended = Ended { result, evidence, outputs };
            execution::reported(turn, (*origin, *job), *attempt, ended, events)?;
        }
        Event::JobEvents { origin, job, attempt, events } => {
            execution::told(turn, (*origin, *job), *attempt, events)?;
        }
        Event::JobAttested { job, evidence } => signing::attested_here(turn, *job, evidence)?,
        Event::JobUnsigned { origin, job, seen, events } => {
            signing::failed(turn, (*origin, *job), seen.as_deref(), events)?;
        }
        Event::Due => deadline::handle_due(turn)?,
    }
    Ok(None)
}

fn handle_command(turn: &mut Turn<'_, '_>, command: &Command) -> Result<Reply, StoreError> {
    match command {
        Command::Send(caller, request) => send::send(turn, caller, request),
        Command::Ask(caller, request) => send::ask(turn, caller, request),
        Command::CancelFlight(flight) => flight::cancel(turn, *flight),
        Command::Run(caller, submission) => submit::run(turn, caller, submission),
        Command::CancelJob(job) => job::cancel(turn, *job),
        Command::Grant(peer, change) => Ok(Reply::Grant(policy::change(turn.tx, *peer, change)?)),
        Command::DefaultTrust(trust) => {
            turn.tx.put(&(), &DefaultTrust(*trust));
            Ok(Reply::Done(0))
        }
        Command::Invite(id, life_ms, trust) => invite(turn, *id, *life_ms, *trust),
        Command::Redeem(request) => redeem(turn, request),
        Command::Block(peer, reason) => {
            let block = Block { reason: reason.clone(), at_wall_ms: turn.now.wall_ms };
            turn.tx.put(peer, &block);
            outbox::set_blocked(turn.tx, turn.rng, *peer, BlockReason::Operator)?;
            origins_gone(turn, |origin| origin == *peer)?;
            peer_gone(turn, *peer).map(Reply::Done)
        }
        Command::Unblock(peer) => {
            turn.tx.delete::<Block>(peer);
            outbox::unblock(turn.tx, *peer)?;
            Ok(Reply::Done(0))
        }
        Command::Revoke(list) => revoke(turn, list),
        Command::Tidy => Ok(Reply::Done(outbox::collect_garbage(turn.tx, turn.now, TIDY_BATCH)?)),
        Command::Discard(peer) => {
            let ended = peer_gone(turn, *peer)?;
            outbox::discard(turn.tx, turn.rng, *peer)?;
            Ok(Reply::Done(ended))
        }
    }
}

fn invite(turn: &mut Turn<'_, '_>, id: TicketId, life_ms: u64, trust: Trust) -> Result<Reply, StoreError> {
    let refused =
        |kind, code, error: &IssueError| Ok(Reply::Refused(ApiError::new(kind, code, error.to_string())));
    match joining::issue(turn.tx, turn.now, id, life_ms) {
        Ok(expires_wall_ms) => {
            turn.tx.put(&id, &TicketTrust(trust));
            Ok(Reply::Invited(expires_wall_ms))
        }
        Err(IssueError::Store(error)) => Err(error),
        Err(error @ IssueError::Life) => refused(ErrorKind::Invalid, "invalid_ticket_life", &error),
        Err(error @ (IssueError::TooMany | IssueError::Taken)) => {
            refused(ErrorKind::Busy, "too_many_tickets", &error)
        }
    }
}

/// Lets a node in, and gives it in the same commit what its ticket was made for.
fn redeem(turn: &mut Turn<'_, '_>, request: &RedeemRequest) -> Result<Reply, StoreError> {
    let redemption = joining::redeem(turn.tx, turn.now, request.clone())?;
    if matches!(redemption, Redemption::Admitted { repeated: false, .. })
        && let Some(TicketTrust(trust)) = turn.tx.get_record(&request.ticket)?
    {
        policy::change(turn.tx, request.node, &GrantChange { trust: Some(trust), ..GrantChange::default() })?;
        turn.tx.delete::<TicketTrust>(&request.ticket);
    }
    Ok(Reply::Redeemed(redemption))
}

/// Whoever verified the list made sure that it is newer than the one they knew; two of them may have known the same.
fn revoke(turn: &mut Turn<'_, '_>, list: &RevocationList) -> Result<Reply, StoreError> {
    let kept = turn.tx.get_record::<Revocations>(&())?.and_then(|kept| RevocationList::ver_of(&kept.0));
    if let Some(ver) = kept.filter(|ver| *ver >= list.ver()) {
        let message = format!("revocation list {} is not newer than {ver}, which is in force", list.ver());
        return Ok(Reply::Refused(ApiError::new(ErrorKind::Conflict, "revocation_superseded", message)));
    }
    turn.tx.put(&(), &Revocations(list.as_bytes().to_vec()));
    let mut ended = 0_usize;
    for entry in list.entries() {
        outbox::set_blocked(turn.tx, turn.rng, entry.node, BlockReason::Revoked)?;
        ended = ended.saturating_add(peer_gone(turn, entry.node)?);
    }
    origins_gone(turn, |origin| list.names(origin))?;
    Ok(Reply::Done(ended))
}

fn peer_gone(turn: &mut Turn<'_, '_>, peer: NodeId) -> Result<usize, StoreError> {
    let flights = flight::peer_gone(turn, peer)?;
    Ok(flights.saturating_add(job::peer_gone(turn, peer)?))
}

fn origins_gone(turn: &mut Turn<'_, '_>, gone: impl Fn(NodeId) -> bool) -> Result<(), StoreError> {
    run::origins_gone(turn, &gone)?;
    execution::origins_gone(turn, &gone)
}

fn handle_delivery(turn: &mut Turn<'_, '_>, peer: NodeId, delivery: &Delivery) -> Result<(), StoreError> {
    match delivery {
        Delivery::Begin { session } => begin(turn, peer, *session),
        Delivery::Resume { session, resume } => resumed(turn, peer, *session, *resume),
        Delivery::Ack { session, ack } => acknowledged(turn, peer, *session, *ack),
        Delivery::Lost { session } => outbox::session_lost(turn.tx, peer, *session),
        Delivery::Open(open) => opened(turn, peer, *open),
        Delivery::Gap { session, gap } => lost(turn, peer, *session, *gap),
        Delivery::Parcel { session, parcel } => take(turn, peer, *session, parcel),
    }
}

fn begin(turn: &mut Turn<'_, '_>, peer: NodeId, session: u64) -> Result<(), StoreError> {
    match outbox::open(turn.tx, turn.rng, peer, session) {
        Ok(open) => turn.actions.push(Action::SendFrame(peer, session, ToReceiver::Open(open))),
        // Nothing goes to a blocked peer; the stream stays silent.
        Err(OpenError::Blocked(_)) => {}
        Err(OpenError::Store(error)) => return Err(error),
    }
    Ok(())
}

fn resumed(turn: &mut Turn<'_, '_>, peer: NodeId, session: u64, resume: Resume) -> Result<(), StoreError> {
    match outbox::handle_resume(turn.tx, turn.now, turn.rng, peer, session, resume)? {
        Resumed::Live { gap, send_from, never_arrived, .. } => {
            let arrived = Place { epoch: resume.epoch, seq: resume.mark };
            turn.actions.push(Action::Acknowledged(peer, arrived));
            for message in never_arrived {
                if !flight::never_arrived(turn, message)? {
                    job::never_arrived(turn, message)?;
                }
            }
            if let Some(gap) = gap {
                let range = gap.from..=gap.to;
                flight::lost_in_gap(turn, peer, resume.epoch, range.clone())?;
                job::lost_in_gap(turn, peer, resume.epoch, range)?;
                turn.actions.push(Action::SendFrame(peer, session, ToReceiver::Gap(gap)));
            }
            turn.actions.push(Action::StreamFrom(peer, session, send_from));
            Ok(())
        }
        // The outbox has a new numbering, and what waits in it new places: the same stream opens it.
        Resumed::RolledBack { epoch, requeued, .. } => {
            for (message, seq) in requeued {
                let place = Place { epoch, seq };
                if !flight::moved(turn, message, place)? {
                    job::moved(turn, message, place)?;
                }
            }
            begin(turn, peer, session)
        }
        Resumed::Stale => Ok(()),
    }
}

fn acknowledged(turn: &mut Turn<'_, '_>, peer: NodeId, session: u64, ack: Ack) -> Result<(), StoreError> {
    let acknowledged = outbox::handle_ack(turn.tx, turn.now, peer, session, ack)?;
    if !acknowledged.delivered.is_empty() {
        turn.actions.push(Action::Acknowledged(peer, Place { epoch: ack.epoch, seq: ack.mark }));
    }
    if acknowledged.published {
        turn.actions.push(Action::OutboxGrew(peer));
    }
    Ok(())
}

fn opened(turn: &mut Turn<'_, '_>, peer: NodeId, open: Open) -> Result<(), StoreError> {
    let resume = outbox::handle_open(turn.tx, turn.now, peer, open)?;
    turn.actions.push(Action::Answer(peer, open.session, ToSender::Resume(resume)));
    Ok(())
}

fn lost(turn: &mut Turn<'_, '_>, peer: NodeId, session: u64, gap: Gap) -> Result<(), StoreError> {
    let take = outbox::handle_gap(turn.tx, turn.now, peer, session, gap)?;
    answer(turn, peer, session, &take)
}

fn take(turn: &mut Turn<'_, '_>, peer: NodeId, session: u64, parcel: &Parcel) -> Result<(), StoreError> {
    let take = outbox::take(turn.tx, turn.now, peer, session, parcel.clone())?;
    if let Take::Apply { body, .. } = &take {
        debug_assert_ne!(body.as_slice(), DEFECT, "a test asked for it");
        match decode::<PeerMessage>(body) {
            Ok(message) => receive::handle(turn, peer, message)?,
            // A message of a newer release, or nonsense: it is taken, so that what follows is not held up, and said.
            Err(error) => tracing::warn!(peer = %peer.short(), %error, "a message was not understood"),
        }
    }
    answer(turn, peer, session, &take)
}

/// What the sender hears, after the commit.
fn answer(turn: &mut Turn<'_, '_>, peer: NodeId, session: u64, take: &Take) -> Result<(), StoreError> {
    match take {
        Take::Apply { .. } | Take::Duplicate | Take::Tombstone => {
            if let Some(ack) = outbox::ack_for(turn.tx, peer)? {
                turn.actions.push(Action::Answer(peer, session, ToSender::Ack(ack)));
            }
        }
        Take::OutOfOrder { .. } | Take::Stale => turn.actions.push(Action::Reset(peer, session)),
        Take::Full => {
            let busy = Busy { reason: BusyReason::Quota, retry_after_ms: INBOX_FULL_RETRY_MS };
            turn.actions.push(Action::Answer(peer, session, ToSender::Busy(busy)));
        }
    }
    Ok(())
}
