//! The sending node: what the durable machine and a sending task do, around the shipped calls.

use mesh_node_core::outbox::{self, Class, NewParcel, Resumed, Slot, WithdrawOutcome};
use mesh_node_core::store::{Overlay, Store, Table};
use mesh_protocol::delivery::{Ack, Chain, Content, Parcel, Resume, ToReceiver, ToSender};
use mesh_protocol::id::MessageId;
use rand::{Rng, RngExt};

use super::link::arrive;
use super::machine::Machine;
use super::mutant::Mutant;
use super::world::{RECEIVER, World};

/// The sending node's memory and disk.
#[derive(Default)]
pub(super) struct Sender {
    pub(super) machine: Machine,
    pub(super) session: Option<Session>,
    /// A restored disk that no session has been compared with yet.
    pub(super) unaware: bool,
    pub(super) session_at_backup: Option<Session>,
    next_message: u64,
}

/// A stream and how far parcels were put on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    pub(super) id: u64,
    /// `None` until the peer answered.
    cursor: Option<u64>,
}

impl World {
    pub(super) fn publish(&mut self) -> anyhow::Result<()> {
        self.sender.next_message += 1;
        let message = MessageId::mint(self.now.wall_ms, [0; 10].map(|_: u8| self.rng.random()));
        let slot = Slot([self.rng.random_range(0..3); 16]);
        let (class, supersedes) = match self.rng.random_range(0..10_u32) {
            0..5 => (Class::Request, None),
            5..8 => (Class::Status, Some(slot)),
            8 => (Class::Terminal { reserved: 64 }, Some(slot)),
            _ => (Class::Control, None),
        };
        let deadline_ms = self.rng.random_bool(0.4).then(|| self.rng.random_range(1..4_000));
        let body = vec![0; self.rng.random_range(0..40)];
        let parcel = NewParcel { message, body: body.clone(), class, deadline_ms, supersedes };
        let (crash, now, rng) = (self.crash_point(), self.now, &mut self.rng);
        let queued = self.sender.machine.commit(crash, |tx| {
            if let Class::Terminal { reserved } = class {
                outbox::reserve(tx, now, rng, RECEIVER, reserved)?;
            }
            Ok(outbox::publish(tx, now, rng, RECEIVER, parcel)?)
        })?;
        if queued.durable {
            self.truth.published.push(message);
            self.truth.not_owed.extend(queued.decided.replaced);
            if class != Class::Status {
                self.truth.ordered.insert(message);
            }
        }
        if self.mutant == Some(Mutant::SendBeforeCommit)
            && let (Some(session), Some(seq)) = (self.sender.session, queued.decided.seq)
            && queued.decided.offered
        {
            let parcel = Parcel { seq, acked: 0, message, content: Content::Body(body) };
            self.link.send_to_receiver(session.id, ToReceiver::Parcel(parcel));
        }
        self.trace.note("publish", &[queued.decided.seq.unwrap_or(0), u64::from(queued.durable)]);
        self.after_sender(queued.acts);
        Ok(())
    }

    /// Whatever is due, and now and then something else, is taken back.
    pub(super) fn withdraw(&mut self, also_random: bool) -> anyhow::Result<()> {
        let mut messages: Vec<MessageId> = outbox::due(&self.sender.machine.disk, self.now, 16)?
            .into_iter()
            .map(|due| due.message)
            .collect();
        if also_random && !self.truth.published.is_empty() {
            let at = self.rng.random_range(0..self.truth.published.len());
            messages.extend(self.truth.published.get(at));
        }
        let crash = self.crash_point();
        let outcomes = self.sender.machine.commit(crash, |tx| {
            messages
                .into_iter()
                .map(|message| Ok((message, outbox::withdraw(tx, RECEIVER, message)?)))
                .collect::<anyhow::Result<Vec<_>>>()
        })?;
        for (message, outcome) in outcomes.decided.into_iter().filter(|_| outcomes.durable) {
            self.trace.note("withdraw", &[outcome as u64]);
            let wrong = self.mutant == Some(Mutant::TimeoutMeansNotRun);
            match outcome {
                WithdrawOutcome::NeverSent => self.truth.claim(message, "never sent", self.sender.unaware),
                WithdrawOutcome::Offered if wrong => self.truth.claim(message, "timed out", false),
                WithdrawOutcome::Offered => drop(self.truth.not_owed.insert(message)),
                WithdrawOutcome::Acknowledged | WithdrawOutcome::Unknown => {}
            }
        }
        self.after_sender(outcomes.acts);
        Ok(())
    }

    pub(super) fn open_session(&mut self) -> anyhow::Result<()> {
        let session = self.rng.next_u64();
        let (crash, rng) = (self.crash_point(), &mut self.rng);
        let open = self.sender.machine.commit(crash, |tx| Ok(outbox::open(tx, rng, RECEIVER, session)?))?;
        self.trace.note("open", &[open.decided.next, open.decided.acked]);
        if open.acts {
            self.sender.session = Some(Session { id: session, cursor: None });
            self.link.send_to_receiver(session, ToReceiver::Open(open.decided));
        }
        self.after_sender(open.acts);
        Ok(())
    }

    pub(super) fn lose_session(&mut self) -> anyhow::Result<()> {
        let Some(session) = self.sender.session.take() else { return Ok(()) };
        self.link.broken.insert(session.id);
        if self.rng.random_bool(0.5) {
            self.link.delay(session.id);
        }
        let crash = self.crash_point();
        let lost =
            self.sender.machine.commit(crash, |tx| Ok(outbox::session_lost(tx, RECEIVER, session.id)?))?;
        self.trace.note("lose session", &[]);
        self.after_sender(lost.acts);
        Ok(())
    }

    /// The sending task: some of what may be sent next.
    pub(super) fn send_parcels(&mut self) -> anyhow::Result<()> {
        let Some(Session { id, cursor: Some(cursor) }) = self.sender.session else { return Ok(()) };
        let count = self.rng.random_range(1..5);
        let disk = &self.sender.machine.disk;
        let parcels = outbox::next_parcels(disk, RECEIVER, id, cursor, count, 100)?.unwrap_or_default();
        let Some(view) = outbox::depth(disk, self.now, RECEIVER)? else { return Ok(()) };
        for parcel in parcels {
            self.trace.note("send", &[parcel.seq]);
            self.truth.sent.insert((view.epoch, parcel.seq), parcel.message);
            self.sender.session = Some(Session { id, cursor: Some(parcel.seq + 1) });
            self.link.send_to_receiver(id, ToReceiver::Parcel(parcel));
        }
        Ok(())
    }

    /// The next frame from the receiver.
    pub(super) fn sender_reads(&mut self) -> anyhow::Result<()> {
        let Some((id, frame)) = arrive(&mut self.link.to_sender, self.weather, &mut self.rng) else {
            return Ok(());
        };
        if self.sender.session.is_none_or(|session| session.id != id) {
            return Ok(());
        }
        match frame {
            ToSender::Resume(resume) => self.sender_resumes(id, resume),
            ToSender::Ack(ack) => self.sender_settles(id, ack),
            ToSender::Busy(_) => Ok(()),
        }
    }

    fn sender_settles(&mut self, session: u64, ack: Ack) -> anyhow::Result<()> {
        let (crash, now) = (self.crash_point(), self.now);
        let delivered = self
            .sender
            .machine
            .commit(crash, |tx| Ok(outbox::handle_ack(tx, now, RECEIVER, session, ack)?.delivered))?;
        self.trace.note("ack", &[ack.mark]);
        if delivered.durable {
            self.truth.delivered.extend(delivered.decided.iter().map(|delivered| delivered.message));
        }
        self.after_sender(delivered.acts);
        Ok(())
    }

    fn sender_resumes(&mut self, session: u64, resume: Resume) -> anyhow::Result<()> {
        let blindly = self.mistake_resume(resume)?;
        let (crash, now, rng) = (self.crash_point(), self.now, &mut self.rng);
        let resumed = self.sender.machine.commit(crash, |tx| {
            let Some((heard, later_ack)) = blindly else {
                return Ok(outbox::handle_resume(tx, now, rng, RECEIVER, session, resume)?);
            };
            let resumed = outbox::handle_resume(tx, now, rng, RECEIVER, session, heard)?;
            outbox::handle_ack(tx, now, RECEIVER, session, later_ack)?;
            Ok(resumed)
        })?;
        self.trace.note("resume", &[resume.mark, u64::from(resumed.durable)]);
        if resumed.durable {
            self.note_resumed(&resumed.decided);
        }
        if resumed.acts {
            match resumed.decided {
                Resumed::Live { gap, send_from, .. } => {
                    self.sender.session = Some(Session { id: session, cursor: Some(send_from) });
                    gap.into_iter().for_each(|gap| self.link.send_to_receiver(session, ToReceiver::Gap(gap)));
                }
                Resumed::RolledBack { .. } => {
                    self.link.broken.insert(session);
                    self.sender.session = None;
                }
                Resumed::Stale => {}
            }
        }
        self.after_sender(resumed.acts);
        Ok(())
    }

    fn note_resumed(&mut self, resumed: &Resumed) {
        match resumed {
            Resumed::Live { delivered, never_arrived, .. } => {
                self.become_aware();
                self.truth.delivered.extend(delivered.iter().map(|delivered| delivered.message));
                for message in never_arrived {
                    self.trace.note("never arrived", &[]);
                    self.truth.claim(*message, "never arrived", false);
                }
            }
            Resumed::RolledBack { .. } => {
                self.trace.note("rolled back", &[]);
                self.become_aware();
            }
            Resumed::Stale => {}
        }
    }

    fn become_aware(&mut self) {
        if std::mem::take(&mut self.sender.unaware) {
            self.truth.sender_aware();
        }
    }

    /// What a sender that does not compare properly would have heard: a mark within what it offered, with whatever
    /// proof it accepts, and an acknowledgement of the rest.
    fn mistake_resume(&mut self, resume: Resume) -> anyhow::Result<Option<(Resume, Ack)>> {
        let disk = &self.sender.machine.disk;
        let Some(view) = outbox::depth(disk, self.now, RECEIVER)? else { return Ok(None) };
        let is_blind = match self.mutant {
            Some(Mutant::CounterWithoutChain) => resume.mark < view.next,
            Some(Mutant::NoEpochCheck) => true,
            _ => false,
        };
        let Some(session) = self.sender.session.filter(|_| is_blind && view.epoch == resume.epoch) else {
            return Ok(None);
        };
        let mark = resume.mark.min(view.offered);
        let mut key = RECEIVER.as_bytes().to_vec();
        key.extend_from_slice(&mark.to_be_bytes());
        // A stored parcel begins with its version, its message and its chain.
        let row = disk.get(Table::OutboxParcels, &key)?;
        let own = row.as_deref().and_then(|row| row.get(17..33)).and_then(|chain| chain.try_into().ok());
        let chain = match own {
            Some(chain) => Chain(chain),
            None if mark == 0 => Chain::START,
            None => resume.chain,
        };
        let rest = Ack { epoch: resume.epoch, mark: resume.mark.min(view.next - 1) };
        for tombstones in 0..=mark {
            let heard = Resume { mark, chain, tombstones, before: None, ..resume };
            let mut tx = Overlay::new(disk);
            let resumed =
                outbox::handle_resume(&mut tx, self.now, &mut self.rng, RECEIVER, session.id, heard)?;
            if matches!(resumed, Resumed::Live { .. }) {
                return Ok(Some((heard, rest)));
            }
        }
        Ok(None)
    }

    /// A machine that did not come through its event has no memory.
    pub(super) fn after_sender(&mut self, acts: bool) {
        if !acts {
            self.crash_sender();
        }
    }

    /// What it sent is still under way; what was under way to it is lost.
    pub(super) fn crash_sender(&mut self) {
        self.trace.note("sender crashes", &[]);
        self.crashes += 1;
        self.sender.machine.up = false;
        if let Some(session) = self.sender.session.take() {
            self.link.broken.insert(session.id);
        }
        self.link.to_sender.clear();
    }

    pub(super) fn start_sender(&mut self) -> anyhow::Result<()> {
        self.sender.machine.up = true;
        let crash = self.crash_point();
        let started = self.sender.machine.commit(crash, |tx| Ok(outbox::forget_sessions(tx)?))?;
        self.after_sender(started.acts);
        Ok(())
    }
}
