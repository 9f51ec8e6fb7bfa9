//! A mesh of whole nodes, and everything that can be done to it. Who drives it decides what happens when; nothing here
//! happens by itself but what nodes do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use mesh_node::local::Local;
use mesh_node_core::broker::conversation::Message;
use mesh_node_core::store::scan_prefix;
use mesh_node_core::view::{Contact, Member};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::MeshView;
use mesh_protocol::record::VerifiedRecord;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

use super::facts::NodeFacts;
use super::founding::{self, derive};
use super::ledger::{Book, Doubled, Ledger, SetBack};
use super::machine::{Machine, Outside};
use super::network::{Network, Weather};
use super::time::Clocks;
use crate::Trace;
use crate::disk::{Disk, Image};

/// Nodes, their network and their disks.
pub struct World {
    pub(super) outside: Outside,
    pub(super) machines: Vec<Machine>,
    pub(super) rng: ChaCha8Rng,
    /// Machines with a home of another.
    doubles: Vec<Machine>,
    exits: Vec<String>,
    start: Instant,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World({} machines)", self.machines.len())
    }
}

/// A copy of a disk, to be put back later.
#[derive(Debug, Clone)]
pub struct Backup {
    image: Image,
    at_ms: u64,
}

impl World {
    /// Homes of one mesh whose nodes have not run yet. Must be called within a paused Tokio runtime.
    ///
    /// # Errors
    /// When the homes cannot be founded.
    pub fn new(seed: u64, members: usize, weather: Weather) -> anyhow::Result<Self> {
        let start = Instant::now();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let secret: [u8; 32] = rng.random();
        let network = Network::new(rng.random(), weather);
        let homes = founding::found(secret, members)?.into_iter().enumerate();
        let machine =
            |(index, home)| Machine::new(index, home, derive(secret, "machine", index), Clocks::new(start));
        let machines = homes.map(machine).collect();
        Ok(Self {
            outside: Outside { network, ledger: Ledger::new(start) },
            machines,
            rng,
            doubles: Vec::new(),
            exits: Vec::new(),
            start,
        })
    }

    /// Virtual milliseconds since the world began.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.outside.network.trace()
    }

    /// The network.
    #[must_use]
    pub const fn network(&self) -> &Network {
        &self.outside.network
    }

    /// How many machines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.machines.len()
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }

    /// Lets time pass.
    pub async fn pass(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Starts every node that does not run. A machine that stopped is switched on again: its disk is as a power cut
    /// left it.
    ///
    /// # Errors
    /// When a node does not start.
    pub async fn start_all(&mut self) -> anyhow::Result<()> {
        for index in 0..self.machines.len() {
            self.start(index).await?;
        }
        Ok(())
    }

    /// Starts one node, unless it runs.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(&mut self, index: usize) -> anyhow::Result<()> {
        let Self { machines, outside, rng, .. } = self;
        let Some(machine) = machines.get_mut(index).filter(|machine| machine.running.is_none()) else {
            return Ok(());
        };
        if machine.disk.is_dead() {
            machine.disk.reboot(rng);
            machine.clocks.boot();
        }
        outside.network.note("start", &[index as u64]);
        machine.start(outside).await
    }

    /// Lets one node tell nobody where it is, from its next start on: only it can dial.
    pub fn hide(&mut self, index: usize) {
        if let Some(machine) = self.machines.get_mut(index) {
            machine.hidden = true;
        }
    }

    /// Carries a machine to another network: from its next start on it is at an address of its own that nobody knows.
    pub fn move_away(&mut self, index: usize) {
        let place = self.machines.len() + self.doubles.len() + index;
        if let Some(machine) = self.machines.get_mut(index) {
            machine.address = founding::address(place);
        }
    }

    /// Ends one node where it stands: its process is killed, or with `power` its machine stops and forgets what was
    /// not synced.
    pub fn crash(&mut self, index: usize, power: bool) {
        let Self { machines, outside, rng, .. } = self;
        let Some(machine) = machines.get_mut(index) else { return };
        outside.network.note("crash", &[index as u64, u64::from(power)]);
        machine.kill(outside);
        if power || machine.disk.is_dead() {
            machine.disk.reboot(rng);
            machine.clocks.boot();
        } else {
            machine.disk.restart();
        }
    }

    /// Stops one node in order.
    pub async fn stop(&mut self, index: usize) {
        let Self { machines, outside, .. } = self;
        if let Some(machine) = machines.get_mut(index) {
            outside.network.note("stop", &[index as u64]);
            machine.stop(outside).await;
        }
    }

    /// Crashes every machine whose disk died, and ends every node that gave up because of its storage. Says which.
    pub fn bury_the_dead(&mut self) -> Vec<usize> {
        let mut dead = Vec::new();
        for machine in self.machines.iter_mut().filter(|machine| machine.running.is_some()) {
            if machine.disk.is_dead() {
                dead.push(machine.index);
            } else if let Some(why) = machine.gave_up() {
                self.exits.push(format!(
                    "at {} ms n{} gave up: {why}",
                    self.start.elapsed().as_millis(),
                    machine.index
                ));
                dead.push(machine.index);
            }
        }
        dead.iter().for_each(|index| self.crash(*index, false));
        dead
    }

    /// Nodes that gave up by themselves, and why.
    #[must_use]
    pub fn exits(&self) -> &[String] {
        &self.exits
    }

    /// The disk of one machine, to be tampered with.
    #[must_use]
    pub fn disk(&self, index: usize) -> Option<&Disk> {
        self.machines.get(index).map(|machine| &machine.disk)
    }

    /// How long commits of one machine take from now on.
    pub fn set_commit_ms(&self, index: usize, ms: u64) {
        if let Some(machine) = self.machines.get(index) {
            machine.commit_ms.store(ms, Ordering::Relaxed);
        }
    }

    /// Copies a disk while its node runs.
    #[must_use]
    pub fn back_up(&self, index: usize) -> Option<Backup> {
        let machine = self.machines.get(index)?;
        // What the last sync made durable is what a backup can be sure to hold whole.
        Some(Backup { image: machine.disk.durable(), at_ms: self.now_ms() })
    }

    /// Crashes a machine and puts a backup onto its disk.
    pub fn restore(&mut self, index: usize, backup: &Backup) {
        let at_ms = self.now_ms();
        self.crash(index, true);
        if let Some(machine) = self.machines.get_mut(index) {
            machine.disk.restore(backup.image.clone());
            self.outside.network.note("restore", &[index as u64, backup.at_ms]);
            let set_back = SetBack { machine: index, to_ms: backup.at_ms, at_ms };
            self.outside.ledger.book().set_back.push(set_back);
        }
    }

    /// Runs a copy of a home on a machine of its own, under the same identity.
    ///
    /// # Errors
    /// When its node does not start.
    pub async fn double(&mut self, index: usize) -> anyhow::Result<()> {
        let Self { machines, doubles, outside, start, .. } = self;
        let place = machines.len() + doubles.len();
        if let Some(machine) = machines.get(index).filter(|machine| machine.running.is_some()) {
            outside.network.note("double", &[index as u64]);
            let from_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            let doubled = Doubled { machine: index, from_ms, until_ms: None };
            outside.ledger.book().doubled.push(doubled);
            let mut double = machine.clone_to(founding::address(place), Clocks::new(*start));
            double.start(outside).await?;
            doubles.push(double);
        }
        Ok(())
    }

    /// Ends every copy of a home.
    pub fn single(&mut self, index: usize) {
        let now_ms = self.now_ms();
        let Self { doubles, outside, .. } = self;
        doubles.iter_mut().filter(|double| double.index == index).for_each(|double| double.kill(outside));
        let mut book = outside.ledger.book();
        for doubled in book.doubled.iter_mut().filter(|doubled| doubled.machine == index) {
            doubled.until_ms = doubled.until_ms.or(Some(now_ms));
        }
    }

    /// How often nodes were started.
    #[must_use]
    pub fn lives(&self) -> u64 {
        self.machines.iter().chain(&self.doubles).map(|machine| u64::from(machine.lives())).sum()
    }

    /// Sets a machine's wall clock.
    pub fn set_wall(&self, index: usize, by_ms: i64) {
        if let Some(machine) = self.machines.get(index) {
            machine.clocks.set_wall(by_ms);
        }
    }

    /// Sends a machine to sleep: it hears and says nothing, its clocks stand still and its disk takes nothing.
    pub fn sleep(&self, index: usize) {
        if let Some(machine) = self.machines.get(index) {
            machine.clocks.sleep();
            self.isolate(index, Network::cut);
        }
    }

    /// Wakes it.
    pub fn wake(&self, index: usize) {
        if let Some(machine) = self.machines.get(index).filter(|machine| machine.clocks.is_asleep()) {
            machine.clocks.wake();
            self.isolate(index, Network::mend);
        }
    }

    fn isolate(&self, index: usize, how: impl Fn(&Network, SocketAddr, SocketAddr)) {
        let all: Vec<usize> = (0..self.machines.len()).collect();
        self.between(&[index], &all, &how);
        self.between(&all, &[index], &how);
    }

    /// Cuts packets from some machines to others, one way.
    pub fn cut(&self, from: &[usize], to: &[usize]) {
        self.between(from, to, &Network::cut);
    }

    /// Takes such a cut back.
    pub fn mend(&self, from: &[usize], to: &[usize]) {
        self.between(from, to, &Network::mend);
    }

    fn between(&self, from: &[usize], to: &[usize], how: &impl Fn(&Network, SocketAddr, SocketAddr)) {
        for from in from.iter().filter_map(|from| self.machines.get(*from)) {
            for to in to.iter().filter_map(|to| self.machines.get(*to)) {
                if from.index != to.index {
                    how(&self.outside.network, from.address, to.address);
                }
            }
        }
    }

    /// Ends every fault that can be ended: the weather is fair, nobody sleeps, every disk is well and every node runs.
    ///
    /// # Errors
    /// When a node does not start.
    pub async fn heal(&mut self, weather: Weather) -> anyhow::Result<()> {
        self.outside.network.note("heal", &[]);
        for machine in &self.machines {
            machine.clocks.wake();
            if !machine.disk.is_dead() {
                machine.disk.restart();
            }
            machine.commit_ms.store(1, Ordering::Relaxed);
        }
        self.outside.network.heal(weather);
        self.bury_the_dead();
        self.start_all().await
    }

    /// What answers programs on one machine.
    #[must_use]
    pub fn local(&self, index: usize) -> Option<Arc<Local>> {
        Some(Arc::clone(&self.machines.get(index)?.running.as_ref()?.local))
    }

    /// How one node sees the others.
    #[must_use]
    pub fn view(&self, index: usize) -> Option<MeshView> {
        Some(self.machines.get(index)?.running.as_ref()?.node.network().view())
    }

    /// The records one node has of others.
    pub(super) fn records(&self, index: usize) -> impl Iterator<Item = VerifiedRecord> {
        let machine = self.machines.get(index);
        let running = machine.and_then(|machine| machine.running.as_ref());
        let records = running.map(|running| running.node.network().records()).unwrap_or_default();
        records.into_iter().filter(move |record| machine.is_some_and(|it| it.id != record.record().node))
    }

    /// How many connections one node has.
    #[must_use]
    pub fn connections(&self, index: usize) -> Option<usize> {
        Some(self.machines.get(index)?.running.as_ref()?.node.network().connections())
    }

    /// How often one node dialled since it started.
    #[must_use]
    pub fn dials(&self, index: usize) -> Option<u64> {
        Some(self.machines.get(index)?.running.as_ref()?.node.network().dials())
    }

    /// What really happened, so far.
    pub fn with_book<T>(&self, look: impl FnOnce(&Book) -> T) -> T {
        look(&self.outside.ledger.book())
    }

    /// How many messages of others one node has, whatever they say.
    ///
    /// # Errors
    /// When stored state cannot be read.
    pub fn messages(&self, index: usize) -> anyhow::Result<usize> {
        let running = self.machines.get(index).and_then(|machine| machine.running.as_ref());
        let snapshot = running.context("it runs")?.local.database.snapshot()?;
        Ok(scan_prefix::<Message>(&snapshot, &(), usize::MAX)?.len())
    }

    /// What every running node says now.
    ///
    /// # Errors
    /// When stored state cannot be read.
    pub async fn facts(&self) -> anyhow::Result<BTreeMap<usize, NodeFacts>> {
        NodeFacts::of_all(self).await
    }

    /// Whose node one is.
    #[must_use]
    pub fn id(&self, index: usize) -> Option<NodeId> {
        self.machines.get(index).map(|machine| machine.id)
    }

    /// Whether everybody sees everybody alive, and everybody's agent.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let all = self.machines.len();
        (0..all).filter_map(|index| self.local(index)).all(|local| {
            let view = Arc::clone(&local.view.borrow());
            let there = |member: &Member| matches!(member.contact, Contact::Here | Contact::Reachable);
            view.members.values().filter(|member| there(member)).count() == all && view.agents.len() == all
        })
    }

    /// Waits until the mesh is whole, for so long at most; how long it took.
    pub async fn until_whole(&self, within_ms: u64) -> Option<u64> {
        let since = self.now_ms();
        while !self.is_whole() {
            if self.now_ms() >= since + within_ms {
                return None;
            }
            self.pass(10).await;
        }
        Some(self.now_ms() - since)
    }
}
