//! One schedule: a random walk over everything that can happen, then healing, then judgement.

use mesh_node_core::outbox;
use mesh_node_core::store::Table;
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::id::NodeId;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::link::{Link, Weather};
use super::machine::CrashPoint;
use super::mutant::Mutant;
use super::oracle::{self, Violation};
use super::receiver::Receiver;
use super::sender::Sender;
use super::truth::Truth;
use crate::Trace;

pub(super) const SENDER: NodeId = NodeId::from_bytes([1; 32]);
pub(super) const RECEIVER: NodeId = NodeId::from_bytes([2; 32]);

/// Rounds of healing after which a world that does not rest never will.
const HEALING_ROUNDS: u32 = 400;

/// Whose disk goes back to a backup, once in the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// Nobody's.
    Nobody,
    /// The sender's.
    Sender,
    /// The sender's, and its memory with it: it goes on as if nothing had happened.
    SenderWithMemory,
    /// The receiver's.
    Receiver,
}

/// What one schedule came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Over everything that happened.
    pub trace: Trace,
    /// What was broken; empty when all is well.
    pub violations: Vec<Violation>,
    /// Whose disk went back in it.
    pub restored: Restored,
    /// Messages accepted.
    pub published: u64,
    /// Effects that became durable.
    pub effects: u64,
    /// Machines that stopped.
    pub crashes: u64,
    /// Statements that a message was never sent.
    pub never_sent: u64,
    /// Statements that a message never arrived.
    pub never_arrived: u64,
    /// Gaps reported by the sender.
    pub gaps: u64,
    /// Restored disks found by the sender.
    pub rollbacks_found: u64,
}

/// Two nodes and a link.
pub(super) struct World {
    pub(super) rng: ChaCha8Rng,
    pub(super) now: Now,
    pub(super) mutant: Option<Mutant>,
    pub(super) weather: Weather,
    pub(super) crash_per_mille: u32,
    pub(super) link: Link,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) restored: Restored,
    pub(super) truth: Truth,
    pub(super) trace: Trace,
    pub(super) crashes: u64,
}

/// Runs one schedule.
///
/// # Errors
/// When a shipped call fails, which none may on these stores.
pub fn simulate(seed: u64, mutant: Option<Mutant>) -> anyhow::Result<Outcome> {
    let mut world = World::new(seed, mutant);
    let steps = world.rng.random_range(40..160_u32);
    let backup_at = world.rng.random_range(0..steps);
    let restore_at = world.rng.random_range(backup_at..steps);
    let planned = match world.rng.random_range(0..8_u32) {
        0 => Restored::Sender,
        1 => Restored::SenderWithMemory,
        2 | 3 => Restored::Receiver,
        _ => Restored::Nobody,
    };
    world.start()?;
    for step in 0..steps {
        if step == backup_at {
            world.back_up();
        }
        if step == restore_at {
            world.restore(planned)?;
        }
        world.step()?;
    }
    let rests = world.heal()?;
    oracle::judge(&world, rests)
}

impl World {
    fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let calm = rng.random_bool(0.2);
        let mut percent = |most: u32| if calm { 0 } else { rng.random_range(0..=most) };
        let weather = Weather { lose: percent(15), repeat: percent(15), reorder: percent(20) };
        let crash_per_mille = percent(60);
        let mut world = Self {
            rng,
            now: Now { node: NodeTime(1), wall_ms: 1_700_000_000_000 },
            mutant,
            weather,
            crash_per_mille,
            link: Link::default(),
            sender: Sender::default(),
            receiver: Receiver::default(),
            restored: Restored::Nobody,
            truth: Truth::default(),
            trace: Trace::default(),
            crashes: 0,
        };
        match mutant {
            Some(Mutant::RollbackUnreported) => {
                world.sender.machine.unwritten = vec![Table::DeliveryReports];
                world.receiver.machine.unwritten = vec![Table::DeliveryReports];
            }
            Some(Mutant::AcceptsHoles) => world.receiver.machine.unwritten = vec![Table::DeliveryReports],
            Some(Mutant::ForgetsMessages) => world.receiver.machine.unwritten = vec![Table::InboxSeen],
            _ => {}
        }
        world
    }

    /// Where the next event's machine stops, if it does.
    pub(super) fn crash_point(&mut self) -> CrashPoint {
        if !self.rng.random_ratio(self.crash_per_mille, 1_000) {
            CrashPoint::Never
        } else if self.rng.random_bool(0.5) {
            CrashPoint::BeforeCommit
        } else {
            CrashPoint::AfterCommit
        }
    }

    fn start(&mut self) -> anyhow::Result<()> {
        if !self.sender.machine.up {
            self.start_sender()?;
        }
        self.receiver.machine.up = true;
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<()> {
        self.advance();
        let (sender, receiver) = (self.sender.machine.up, self.receiver.machine.up);
        match self.rng.random_range(0..100_u32) {
            0..18 if sender => self.publish(),
            18..22 if sender => self.withdraw(true),
            22..26 if sender => self.withdraw(false),
            26..46 if sender && self.sender.session.is_some() => self.send_parcels(),
            26..46 if sender => self.open_session(),
            46..60 if sender => self.sender_reads(),
            60..82 if receiver => self.receiver_reads(),
            82..86 if receiver => self.acknowledge(),
            86..89 if sender => self.lose_session(),
            89..91 if sender && self.is_broken() => self.lose_session(),
            91..92 => self.collect_garbage(),
            92..96 => self.start(),
            96..100 if receiver => {
                self.link.arrive_late();
                self.receiver_reads()
            }
            _ => Ok(()),
        }
    }

    /// Mostly milliseconds, at times minutes, rarely longer than acknowledged parcels are kept.
    fn advance(&mut self) {
        let ms = match self.rng.random_range(0..100_u32) {
            0..90 => self.rng.random_range(0..200),
            90..98 => self.rng.random_range(0..120_000),
            _ => self.rng.random_range(0..8_000_000),
        };
        self.now = Now { node: self.now.node.plus_ms(ms), wall_ms: self.now.wall_ms + ms };
    }

    fn is_broken(&self) -> bool {
        self.sender.session.is_some_and(|session| self.link.broken.contains(&session.id))
    }

    fn back_up(&mut self) {
        self.sender.machine.backup = Some(self.sender.machine.disk.clone());
        self.receiver.machine.backup = Some(self.receiver.machine.disk.clone());
        self.sender.session_at_backup = self.sender.session;
        self.truth.published_at_backup = self.truth.published.len();
    }

    fn restore(&mut self, planned: Restored) -> anyhow::Result<()> {
        self.restored = planned;
        self.trace.note("restore", &[planned as u64]);
        match planned {
            Restored::Nobody => return Ok(()),
            Restored::Sender | Restored::SenderWithMemory => {
                self.crash_sender();
                self.truth.sender_restored();
                self.sender.unaware = true;
                self.sender.machine.disk = self.sender.machine.backup.take().unwrap_or_default();
                if planned == Restored::Sender {
                    self.start_sender()?;
                } else {
                    // It believes in the session it had; the connection under it is gone.
                    self.sender.machine.up = true;
                    self.sender.session = self.sender.session_at_backup;
                    self.link.broken.extend(self.sender.session.map(|session| session.id));
                }
            }
            Restored::Receiver => {
                self.crash_receiver();
                self.receiver.machine.disk = self.receiver.machine.backup.take().unwrap_or_default();
                self.receiver.machine.up = true;
            }
        }
        Ok(())
    }

    /// No more faults: everything must come to rest. Returns whether it did.
    fn heal(&mut self) -> anyhow::Result<bool> {
        self.weather = Weather::FAIR;
        self.crash_per_mille = 0;
        self.start()?;
        self.lose_session()?;
        for _ in 0..HEALING_ROUNDS {
            self.start()?;
            if self.is_broken() {
                self.lose_session()?;
            }
            if self.sender.session.is_none() {
                self.open_session()?;
            }
            self.withdraw(false)?;
            while !self.link.to_receiver.is_empty() {
                self.receiver_reads()?;
            }
            self.acknowledge()?;
            while !self.link.to_sender.is_empty() {
                self.sender_reads()?;
            }
            self.send_parcels()?;
            let idle = self.link.to_receiver.is_empty() && !self.is_broken();
            let view = outbox::depth(&self.sender.machine.disk, self.now, RECEIVER)?;
            if idle && view.is_some_and(|view| view.count == 0 && view.live) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
