//! What really happened, written down outside of every node: what callers were told, and what agents and jobs did.
//!
//! Checkers compare it with what the nodes say. A node cannot change it after its life is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::id::{FlightId, JobId, MessageId};
use mesh_protocol::job::JobResult;
use tokio::time::Instant;

/// A piece of work or a message, by the number its text begins with. Numbers grow in the order in which callers asked.
pub type Number = u64;

/// One thing an agent or a job did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// On which machine.
    pub machine: usize,
    /// In which of its lives.
    pub life: u32,
    /// When, in virtual milliseconds.
    pub at_ms: u64,
    /// Its place among all effects.
    pub order: u64,
}

/// What is known of one piece of work or one message.
#[derive(Debug, Clone)]
pub struct Entry<Id, Outcome> {
    /// The machine it was asked for at.
    pub from: usize,
    /// The machine it is for.
    pub to: usize,
    /// When the caller asked, in virtual milliseconds.
    pub asked_ms: u64,
    /// What the caller was told, and when: that it is accepted, under this name. `None` when it was refused or when the
    /// caller was told nothing.
    pub accepted: Option<(Id, u64)>,
    /// That it was refused, and why.
    pub refused: Option<String>,
    /// The first outcome anybody read, and when.
    pub outcome: Option<(Outcome, u64)>,
    /// Each time it was begun.
    pub began: Vec<Effect>,
    /// Each time it came to its own end.
    pub ended: Vec<Effect>,
}

impl<Id, Outcome> Entry<Id, Outcome> {
    const fn new(from: usize, to: usize, asked_ms: u64) -> Self {
        let (accepted, refused, outcome) = (None, None, None);
        Self { from, to, asked_ms, accepted, refused, outcome, began: Vec::new(), ended: Vec::new() }
    }
}

/// A disk that went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetBack {
    /// Whose.
    pub machine: usize,
    /// To when, in virtual milliseconds.
    pub to_ms: u64,
    /// When, in virtual milliseconds.
    pub at_ms: u64,
}

/// A home that ran on a second machine too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubled {
    /// Whose.
    pub machine: usize,
    /// Since when, in virtual milliseconds.
    pub from_ms: u64,
    /// Until when, in virtual milliseconds; `None` while it does.
    pub until_ms: Option<u64>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Book {
    /// Asks.
    pub asks: BTreeMap<Number, Entry<FlightId, FlightOutcome>>,
    /// Messages. Nothing begins or ends there.
    pub sends: BTreeMap<Number, Entry<MessageId, ()>>,
    /// Jobs.
    pub jobs: BTreeMap<Number, Entry<JobId, JobResult>>,
    /// Disks that went back.
    pub set_back: Vec<SetBack>,
    /// Homes that ran twice.
    pub doubled: Vec<Doubled>,
    effects: u64,
}

/// The shared book. Clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    book: Arc<Mutex<Book>>,
    start: Instant,
}

impl Ledger {
    pub(super) fn new(start: Instant) -> Self {
        Self { book: Arc::default(), start }
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A caller asks for something of this kind.
    pub(super) fn ask(&self, from: usize, to: usize) -> Number {
        let (now, mut book) = (self.now_ms(), self.book());
        let number = book.next_number();
        book.asks.insert(number, Entry::new(from, to, now));
        number
    }

    pub(super) fn send(&self, from: usize, to: usize) -> Number {
        let (now, mut book) = (self.now_ms(), self.book());
        let number = book.next_number();
        book.sends.insert(number, Entry::new(from, to, now));
        number
    }

    pub(super) fn job(&self, from: usize, to: usize) -> Number {
        let (now, mut book) = (self.now_ms(), self.book());
        let number = book.next_number();
        book.jobs.insert(number, Entry::new(from, to, now));
        number
    }

    /// An agent or a job begins.
    pub(super) fn begin(&self, kind: Kind, number: Number, machine: usize, life: u32) {
        self.effect(kind, number, machine, life, true);
    }

    /// It came to its own end.
    pub(super) fn end(&self, kind: Kind, number: Number, machine: usize, life: u32) {
        self.effect(kind, number, machine, life, false);
    }

    fn effect(&self, kind: Kind, number: Number, machine: usize, life: u32, begins: bool) {
        let (at_ms, mut book) = (self.now_ms(), self.book());
        book.effects += 1;
        let effect = Effect { machine, life, at_ms, order: book.effects };
        let list = match kind {
            Kind::Ask => book.asks.get_mut(&number).map(|e| if begins { &mut e.began } else { &mut e.ended }),
            Kind::Job => book.jobs.get_mut(&number).map(|e| if begins { &mut e.began } else { &mut e.ended }),
        };
        if let Some(list) = list {
            list.push(effect);
        }
    }
}

/// What has effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ask,
    Job,
}

impl Book {
    fn next_number(&self) -> Number {
        let total = self.asks.len() + self.sends.len() + self.jobs.len();
        Number::try_from(total).unwrap_or(Number::MAX)
    }

    /// Whether something this machine knew at `known_ms` may be gone, since its disk went back to an earlier time.
    #[must_use]
    pub fn forgot(&self, machine: usize, known_ms: u64) -> bool {
        let mut went_back = self.set_back.iter().filter(|it| it.machine == machine);
        went_back.any(|it| it.to_ms <= known_ms && known_ms <= it.at_ms)
    }

    /// Whether its home ever ran twice.
    #[must_use]
    pub fn ran_twice(&self, machine: usize) -> bool {
        self.doubled.iter().any(|it| it.machine == machine)
    }

    /// Whether this machine's disk ever went back, or its identity ran twice.
    #[must_use]
    pub fn was_set_back(&self, machine: usize) -> bool {
        self.ran_twice(machine) || self.set_back.iter().any(|it| it.machine == machine)
    }
}
