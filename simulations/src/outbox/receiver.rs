//! The receiving node: what the durable machine and a reading task do, around the shipped calls.

use std::collections::BTreeSet;

use mesh_node_core::outbox::{self, Take};
use mesh_node_core::store::{Change, Overlay, Scan, Store, Table};
use mesh_protocol::delivery::{Ack, Chain, Gap, Open, Parcel, ToReceiver, ToSender};
use mesh_protocol::id::MessageId;
use rand::RngExt;

use super::link::arrive;
use super::machine::{CrashPoint, Machine};
use super::mutant::Mutant;
use super::truth::Effect;
use super::world::{SENDER, World};

/// The receiving node's memory and disk.
#[derive(Default)]
pub(super) struct Receiver {
    pub(super) machine: Machine,
    /// Streams whose first frame was read: a second [`Open`] on one is not obeyed.
    streams: BTreeSet<u64>,
    /// The session opened last.
    current: Option<u64>,
}

impl World {
    /// The next frame from the sender.
    pub(super) fn receiver_reads(&mut self) -> anyhow::Result<()> {
        let Some((session, frame)) = arrive(&mut self.link.to_receiver, self.weather, &mut self.rng) else {
            return Ok(());
        };
        match frame {
            ToReceiver::Open(open) if self.receiver.streams.insert(session) => self.receiver_opens(open),
            ToReceiver::Open(_) => Ok(()),
            _ if !self.receiver.streams.contains(&session) => Ok(()),
            ToReceiver::Gap(gap) => self.receiver_skips(session, gap),
            ToReceiver::Parcel(parcel) => self.receiver_takes(session, parcel),
        }
    }

    fn receiver_opens(&mut self, open: Open) -> anyhow::Result<()> {
        let (crash, now) = (self.crash_point(), self.now);
        let resume =
            self.receiver.machine.commit(crash, |tx| Ok(outbox::handle_open(tx, now, SENDER, open)?))?;
        self.trace.note("opened", &[resume.decided.mark]);
        if resume.acts {
            self.receiver.current = Some(open.session);
            self.link.send_to_sender(open.session, ToSender::Resume(resume.decided));
        }
        self.after_receiver(resume.acts);
        Ok(())
    }

    fn receiver_skips(&mut self, session: u64, gap: Gap) -> anyhow::Result<()> {
        let (crash, now) = (self.crash_point(), self.now);
        let skipped = self
            .receiver
            .machine
            .commit(crash, |tx| Ok(outbox::handle_gap(tx, now, SENDER, session, gap)?))?;
        self.trace.note("gap", &[gap.from, gap.to]);
        self.answer(session, &skipped.decided, skipped.acts)
    }

    fn receiver_takes(&mut self, session: u64, parcel: Parcel) -> anyhow::Result<()> {
        let fenced = match (self.mutant, self.receiver.current) {
            (Some(Mutant::NoFence), Some(current)) => current,
            _ => session,
        };
        let (seq, now, mutant) = (parcel.seq, self.now, self.mutant);
        let epoch = outbox::ack_for(&self.receiver.machine.disk, SENDER)?.map(|ack| ack.epoch);
        if mutant == Some(Mutant::AckBeforeCommit)
            && let Some(epoch) = epoch
        {
            self.link.send_to_sender(session, ToSender::Ack(Ack { epoch, mark: seq }));
        }
        let crash = self.crash_point();
        let taken = self.receiver.machine.commit(crash, |tx| {
            let taken = take(tx, now, fenced, parcel, mutant)?;
            if let Take::Apply { message, .. } = &taken
                && mutant != Some(Mutant::MarkBeforeEffect)
            {
                apply(tx, *message);
            }
            Ok(taken)
        })?;
        self.trace.note("take", &[seq, u64::from(taken.durable)]);
        let mut acts = taken.acts;
        let escapes = mutant == Some(Mutant::EffectOutsideTransaction);
        if let Take::Apply { message, .. } = taken.decided {
            let mut durable = taken.durable;
            if mutant == Some(Mutant::MarkBeforeEffect) && acts {
                let crash = self.crash_point();
                let applied = self.receiver.machine.commit(crash, |tx| {
                    apply(tx, message);
                    Ok(())
                })?;
                (durable, acts) = (applied.durable, applied.acts);
            }
            if durable || escapes {
                self.truth.effects.push(Effect { message, epoch, seq });
            }
        }
        self.answer(session, &taken.decided, acts)
    }

    /// Acknowledges at once or later; closes a stream that cannot go on.
    fn answer(&mut self, session: u64, taken: &Take, acts: bool) -> anyhow::Result<()> {
        match taken {
            Take::Apply { .. } | Take::Duplicate | Take::Tombstone => {
                if acts && self.rng.random_bool(0.6) {
                    self.acknowledge()?;
                }
            }
            Take::OutOfOrder { .. } | Take::Stale | Take::Full => {
                self.trace.note("close stream", &[]);
                self.link.broken.insert(session);
            }
        }
        self.after_receiver(acts);
        Ok(())
    }

    pub(super) fn acknowledge(&mut self) -> anyhow::Result<()> {
        let ack = outbox::ack_for(&self.receiver.machine.disk, SENDER)?;
        if let (Some(ack), Some(session)) = (ack, self.receiver.current) {
            self.link.send_to_sender(session, ToSender::Ack(ack));
        }
        Ok(())
    }

    fn after_receiver(&mut self, acts: bool) {
        if !acts {
            self.crash_receiver();
        }
    }

    /// Its connections are gone; what it sent is still under way.
    pub(super) fn crash_receiver(&mut self) {
        self.trace.note("receiver crashes", &[]);
        self.crashes += 1;
        let broken: Vec<u64> = self.receiver.streams.iter().copied().collect();
        self.link.broken.extend(broken);
        self.link.break_all_to_receiver();
        self.receiver.streams.clear();
        self.receiver.current = None;
        self.receiver.machine.up = false;
        if self.mutant == Some(Mutant::MarkInMemory) {
            forget(
                &mut self.receiver.machine,
                &[Table::InboxMarks, Table::InboxSeen, Table::InboxSeenByTime],
            );
        }
    }

    pub(super) fn collect_garbage(&mut self) -> anyhow::Result<()> {
        let now = self.now;
        for machine in [&mut self.sender.machine, &mut self.receiver.machine] {
            if machine.up {
                machine.commit(CrashPoint::Never, |tx| Ok(outbox::collect_garbage(tx, now, 8)?))?;
            }
        }
        Ok(())
    }
}

/// The shipped call, or what a receiver that accepts holes would do.
fn take(
    tx: &mut Overlay<'_>,
    now: mesh_node_core::time::Now,
    session: u64,
    parcel: Parcel,
    mutant: Option<Mutant>,
) -> anyhow::Result<Take> {
    let taken = outbox::take(tx, now, SENDER, session, parcel.clone())?;
    if let (Take::OutOfOrder { expected }, Some(Mutant::AcceptsHoles)) = (&taken, mutant) {
        let hole = Gap { from: *expected, to: parcel.seq - 1, chain: Chain::START };
        outbox::handle_gap(tx, now, SENDER, session, hole)?;
        return Ok(outbox::take(tx, now, SENDER, session, parcel)?);
    }
    Ok(taken)
}

/// The effect: a row of its own.
fn apply(tx: &mut Overlay<'_>, message: MessageId) {
    let key = message.as_bytes().to_vec();
    tx.write_raw(vec![Change { table: Table::Messages, key, value: Some(Vec::new()) }]);
}

/// Whether a message's effect is on this disk.
pub(super) fn is_applied(machine: &Machine, message: &MessageId) -> anyhow::Result<bool> {
    Ok(machine.disk.get(Table::Messages, message.as_bytes())?.is_some())
}

fn forget(machine: &mut Machine, tables: &[Table]) {
    for &table in tables {
        let rows = machine.disk.scan(table, &Scan::prefix(&[], usize::MAX)).unwrap_or_default();
        machine.disk.apply(rows.into_iter().map(|(key, _)| Change { table, key, value: None }).collect());
    }
}
