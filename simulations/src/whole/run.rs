//! One run: a safety phase in which everything may break, a liveness phase in which everything heals, then judgement.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::PeerState;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::check::{self, Broken};
use super::facts::{Bodies, Facts, NodeFacts, Sighting};
use super::operation::{self, Deed, Operation};
use super::scenario::Scenario;
use super::world::{Backup, World};
use crate::Trace;

/// Between two looks for machines whose disk died, in virtual milliseconds.
const LOOK_MS: u64 = 25;
/// Between two samples of what everybody sees, in virtual milliseconds.
const SAMPLE_MS: u64 = 1_000;
/// How long a node that did not start is left alone, in virtual milliseconds.
const AGAIN_MS: u64 = 500;
/// How long a world with nothing against it takes to meet, at most, in virtual milliseconds.
const MEET_MS: u64 = 30_000;

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Over everything that happened.
    pub trace: Trace,
    /// What was broken; empty when all is well.
    pub broken: Vec<Broken>,
    /// Nodes that gave up by themselves, and why: with a disk that fails for long they should.
    pub exits: Vec<String>,
    /// Numbers for people and for reports.
    pub tally: Tally,
}

/// Numbers of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Virtual milliseconds, both phases.
    pub virtual_ms: u64,
    /// Virtual milliseconds of the liveness phase until everything rested.
    pub rests_after_ms: u64,
    /// Packets.
    pub packets: u64,
    /// Asks accepted.
    pub asks: u64,
    /// Asks that completed.
    pub completed: u64,
    /// Asks that ended otherwise, and could not have run.
    pub not_run: u64,
    /// Messages accepted.
    pub messages: u64,
    /// Jobs accepted.
    pub jobs: u64,
    /// Effects of agents and jobs.
    pub effects: u64,
    /// Lives of nodes.
    pub lives: u64,
    /// Disks that went back.
    pub set_back: u64,
    /// Delivery reports.
    pub reports: u64,
}

/// Runs a seed.
///
/// # Errors
/// When the world itself fails, which is no verdict on the nodes.
pub fn simulate(seed: u64, scenario: &Scenario) -> anyhow::Result<Outcome> {
    play(seed, scenario, &operations(seed, scenario))
}

/// What a seed does.
#[must_use]
pub fn operations(seed: u64, scenario: &Scenario) -> Vec<Operation> {
    operation::draw(scenario, &mut ChaCha8Rng::seed_from_u64(!seed))
}

/// Runs a seed with another list of operations than its own.
///
/// # Errors
/// As [`simulate`].
pub fn play(seed: u64, scenario: &Scenario, operations: &[Operation]) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let outcome = runtime.block_on(Run::of(seed, scenario, operations));
    // Whatever is left of nodes ends with their runtime.
    runtime.shutdown_background();
    outcome
}

/// What ends by itself.
enum Ending {
    Mend { side: Vec<usize>, both: bool },
    Start(usize),
    HealDisk(usize),
    QuickDisk(usize),
    PutBack { node: usize, backup: Backup, for_ms: u64 },
    Single(usize),
    Wake(usize),
}

struct Run<'a> {
    scenario: &'a Scenario,
    world: World,
    /// Endings by time and number.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    endings: BTreeMap<u64, Ending>,
    number: u64,
    /// How long a machine stays down that dies by itself.
    down_ms: BTreeMap<usize, u64>,
    asked: Vec<u64>,
    /// Since when everybody had met, so that nobody may be called unreachable.
    met: bool,
    sightings: Vec<Sighting>,
    duplicates: BTreeSet<NodeId>,
    bodies: Bodies,
}

impl<'a> Run<'a> {
    async fn of(seed: u64, scenario: &'a Scenario, operations: &[Operation]) -> anyhow::Result<Outcome> {
        let mut run = Self {
            scenario,
            world: World::new(seed, scenario.nodes, scenario.weather())?,
            due: BinaryHeap::new(),
            endings: BTreeMap::new(),
            number: 0,
            down_ms: BTreeMap::new(),
            asked: Vec::new(),
            met: false,
            sightings: Vec::new(),
            duplicates: BTreeSet::new(),
            bodies: Bodies::new(),
        };
        run.world.start_all().await?;
        if !scenario.has_faults() {
            run.met = run.world.until_whole(MEET_MS).await.is_some();
        }
        let begin = run.world.now_ms();
        run.safety(begin, operations).await?;
        let rests_after_ms = run.liveness().await?;
        run.judge(seed, rests_after_ms).await
    }

    /// Operations and what ends them, each at its time; samples in between.
    async fn safety(&mut self, begin: u64, operations: &[Operation]) -> anyhow::Result<()> {
        let end = begin + self.scenario.seconds * 1_000;
        let mut operations = operations.iter().peekable();
        let (mut look, mut sample) = (begin, begin);
        loop {
            let now = self.world.now_ms();
            if now >= end {
                return Ok(());
            }
            while let Some(Reverse((_, number))) =
                self.due.peek().copied().filter(|Reverse((at, _))| *at <= now)
            {
                self.due.pop();
                if let Some(ending) = self.endings.remove(&number) {
                    self.end(ending).await?;
                }
            }
            while let Some(operation) = operations.next_if(|operation| begin + operation.at_ms <= now) {
                self.apply(&operation.deed).await?;
            }
            if now >= look {
                for dead in self.world.bury_the_dead() {
                    let down = self.down_ms.get(&dead).copied().unwrap_or(AGAIN_MS);
                    self.later(down, Ending::Start(dead));
                }
                look = now + LOOK_MS;
            }
            if now >= sample {
                self.sample().await;
                sample = now + SAMPLE_MS;
            }
            let next = [
                operations.peek().map(|operation| begin + operation.at_ms),
                self.due.peek().map(|Reverse((at, _))| *at),
                Some(look),
                Some(sample),
                Some(end),
            ];
            let next = next.into_iter().flatten().min().unwrap_or(end);
            let wait = next.saturating_sub(self.world.now_ms());
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }

    fn later(&mut self, after_ms: u64, ending: Ending) {
        self.number += 1;
        self.due.push(Reverse((self.world.now_ms() + after_ms, self.number)));
        self.endings.insert(self.number, ending);
    }

    async fn apply(&mut self, deed: &Deed) -> anyhow::Result<()> {
        match *deed {
            Deed::Ask { from, to, work_ms } => self.asked.push(self.world.ask(from, to, work_ms)),
            Deed::Send { from, to } => _ = self.world.send(from, to),
            Deed::Job { from, on, work_ms } => _ = self.world.run(from, on, work_ms),
            Deed::Cancel { back } => {
                let back = usize::try_from(back)?;
                if let Some(number) = self.asked.iter().rev().nth(back) {
                    self.world.cancel(*number);
                }
            }
            Deed::Split { ref side, both, for_ms } => {
                self.split(side, both, World::cut);
                self.later(for_ms, Ending::Mend { side: side.clone(), both });
            }
            Deed::Crash { node, power, for_ms } => {
                self.world.crash(node, power);
                self.later(for_ms, Ending::Start(node));
            }
            Deed::CrashAtDisk { node, after, for_ms } => {
                self.down_ms.insert(node, for_ms);
                if let Some(disk) = self.world.disk(node) {
                    disk.die_at(disk.operations() + after);
                }
            }
            Deed::FailDisk { node, after, for_ms } => {
                if let Some(disk) = self.world.disk(node) {
                    disk.fail_at(disk.operations() + after);
                }
                self.later(for_ms, Ending::HealDisk(node));
            }
            Deed::SlowDisk { node, commit_ms, for_ms } => {
                self.world.set_commit_ms(node, commit_ms);
                self.later(for_ms, Ending::QuickDisk(node));
            }
            Deed::Stop { node, for_ms } => {
                self.world.stop(node).await;
                self.later(for_ms, Ending::Start(node));
            }
            Deed::SetBack { node, after_ms, for_ms } => {
                if let Some(backup) = self.world.back_up(node) {
                    self.later(after_ms, Ending::PutBack { node, backup, for_ms });
                }
            }
            Deed::Double { node, for_ms } => {
                self.world.double(node).await?;
                self.later(for_ms, Ending::Single(node));
            }
            Deed::SetWall { node, by_ms } => self.world.set_wall(node, by_ms),
            Deed::Sleep { node, for_ms } => {
                self.world.sleep(node);
                self.later(for_ms, Ending::Wake(node));
            }
        }
        Ok(())
    }

    async fn end(&mut self, ending: Ending) -> anyhow::Result<()> {
        match ending {
            Ending::Mend { side, both } => self.split(&side, both, World::mend),
            Ending::Start(node) => {
                // A disk that dies while the database is opened: the next start is as after any power cut.
                if self.world.start(node).await.is_err() {
                    self.later(AGAIN_MS, Ending::Start(node));
                }
            }
            Ending::HealDisk(node) => {
                if let Some(disk) = self.world.disk(node) {
                    disk.heal();
                }
            }
            Ending::QuickDisk(node) => self.world.set_commit_ms(node, 1),
            Ending::PutBack { node, backup, for_ms } => {
                self.world.restore(node, &backup);
                self.later(for_ms, Ending::Start(node));
            }
            Ending::Single(node) => self.world.single(node),
            Ending::Wake(node) => self.world.wake(node),
        }
        Ok(())
    }

    fn split(&self, side: &[usize], both: bool, how: fn(&World, &[usize], &[usize])) {
        let others: Vec<usize> = (0..self.world.len()).filter(|index| !side.contains(index)).collect();
        how(&self.world, side, &others);
        if both {
            how(&self.world, &others, side);
        }
    }

    /// What everybody sees now.
    async fn sample(&mut self) {
        self.world.note_outcomes().await;
        let at_ms = self.world.now_ms();
        for observer in 0..self.world.len() {
            for seen in self.world.records(observer) {
                let (record, body) = (seen.record(), &seen.signed().body);
                let bodies = self.bodies.entry((record.node, record.version)).or_default();
                // Nearly always it was seen before.
                if !bodies.contains(body) {
                    bodies.insert(body.clone());
                }
            }
            let Some(view) = self.world.view(observer) else { continue };
            let twice = view.peers.iter().filter(|peer| peer.state == PeerState::Duplicate);
            self.duplicates.extend(twice.map(|peer| peer.node));
            if !self.met {
                continue;
            }
            let gone = view.peers.into_iter().filter(|peer| peer.state == PeerState::Unreachable);
            let sightings = gone.map(|peer| Sighting { at_ms, observer, peer: peer.node, cause: peer.cause });
            self.sightings.extend(sightings);
        }
    }

    /// Everything heals. How long it took until everybody rested; `None` when they did not.
    async fn liveness(&mut self) -> anyhow::Result<Option<u64>> {
        for node in 0..self.world.len() {
            self.world.single(node);
        }
        self.world.heal(self.scenario.fair()).await?;
        let since = self.world.now_ms();
        let others = self.world.len() - 1;
        loop {
            self.world.pass(SAMPLE_MS).await;
            self.world.bury_the_dead();
            self.world.start_all().await?;
            self.sample().await;
            let facts = NodeFacts::of_all(&self.world).await?;
            let newest: BTreeMap<_, _> =
                facts.values().map(|node| (node.id, node.records.get(&node.id).cloned())).collect();
            let same = facts
                .values()
                .all(|node| newest.iter().all(|(id, record)| node.records.get(id) == record.as_ref()));
            let took = self.world.now_ms() - since;
            if same && facts.len() == self.world.len() && facts.values().all(|node| node.rests(others)) {
                return Ok(Some(took));
            }
            if took > self.scenario.heal_seconds * 1_000 {
                return Ok(None);
            }
        }
    }

    async fn judge(mut self, seed: u64, rests_after_ms: Option<u64>) -> anyhow::Result<Outcome> {
        self.world.note_outcomes().await;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let nodes = NodeFacts::of_all(&self.world).await?;
        let book = std::mem::take(&mut *self.world.outside.ledger.book());
        let facts = Facts {
            scenario: self.scenario.clone(),
            nodes,
            book,
            sightings: std::mem::take(&mut self.sightings),
            duplicates: std::mem::take(&mut self.duplicates),
            bodies: std::mem::take(&mut self.bodies),
            rests_after_ms,
            tasks,
        };
        let broken = check::judge(&facts);
        let exits = self.world.exits().to_vec();
        Ok(Outcome { seed, trace: self.world.trace(), broken, exits, tally: self.tally(&facts) })
    }

    fn tally(&self, facts: &Facts) -> Tally {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let book = &facts.book;
        let outcomes = || book.asks.values().filter_map(|entry| Some(&entry.outcome.as_ref()?.0));
        let asks = book.asks.values().map(|entry| entry.began.len());
        let jobs = book.jobs.values().map(|entry| entry.began.len());
        let completed = |outcome: &&mesh_protocol::flight::FlightOutcome| {
            outcome.state() == mesh_protocol::flight::FlightState::Completed
        };
        Tally {
            virtual_ms: self.world.now_ms(),
            rests_after_ms: facts.rests_after_ms.unwrap_or(0),
            packets: self.world.network().counts().sent,
            asks: count(book.asks.values().filter(|entry| entry.accepted.is_some()).count()),
            completed: count(outcomes().filter(completed).count()),
            not_run: count(outcomes().filter(|outcome| !outcome.may_have_run()).count()),
            messages: count(book.sends.values().filter(|entry| entry.accepted.is_some()).count()),
            jobs: count(book.jobs.values().filter(|entry| entry.accepted.is_some()).count()),
            effects: count(asks.chain(jobs).sum()),
            lives: self.world.lives(),
            set_back: count(book.set_back.len()),
            reports: count(facts.nodes.values().map(|node| node.reports.len()).sum()),
        }
    }
}
