//! A few whole nodes in a mesh far too large to be simulated whole: of all others only what an idle neighbour shows.
//!
//! A mesh of ten thousand whole nodes keeps a hundred million entries about each other. What one node keeps and sends
//! there can be measured without them: every member has a key and a signed record, a few are whole machines, and the
//! others are echoes. An echo accepts a dial, answers probes, probes whoever is linked with it once in its round, and has
//! the directory of whoever compares with it. What echoes cannot show is how news cross such a mesh.

use std::fmt;

use mesh_node_core::directory::exchange::Exchange;
use mesh_protocol::certificate::Certificate;
use mesh_protocol::peer::{BootId, PeerState};
use mesh_protocol::probe::{Probe, Standing, Word};
use mesh_protocol::record::{Lifecycle, NodeRecord, RecordVersion, VerifiedRecord};
use rand::RngExt as _;

use super::queue::Event;
use super::{Cost, Mesh, advertisement, root, root_key};

/// How long an idle mesh is watched, milliseconds.
const IDLE_MS: u64 = 300_000;
/// How long a node that starts may take until it is linked with everybody it keeps, milliseconds.
const LINKED_MS: u64 = 120_000;
/// How long links stay that nobody needs, and a little more, milliseconds.
const SETTLE_MS: u64 = 90_000;
/// Within this a silent neighbour is called so, or never, milliseconds.
const NOTICED_MS: u64 = 120_000;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Members.
    pub nodes: usize,
    /// Of these, whole nodes.
    pub whole: usize,
    /// From which everything follows.
    pub seed: u64,
}

/// What came of it. Times are simulated milliseconds; `None` where it did not happen.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// A node that knew one member learns all the others by one exchange.
    pub first_sync_ms: Option<u64>,
    /// Bytes both sent for that.
    pub first_sync_bytes: u64,
    /// Whole nodes start with all records on their disks: until each is linked with everybody it keeps.
    pub linked_ms: Option<u64>,
    /// Links a whole node keeps, on average.
    pub kept_links: f64,
    /// What the whole nodes sent while idle.
    pub idle: Cost,
    /// Seconds of it.
    pub idle_s: u64,
    /// Events the simulation handled in it.
    pub idle_events: u64,
    /// A neighbour falls silent: until one that keeps a link to it says so.
    pub noticed_ms: Option<u64>,
    /// Verdicts about members that answer.
    pub false_verdicts: usize,
    whole: u64,
}

/// Runs it. `phase` is told what begins.
pub fn measure(setting: Setting, mut phase: impl FnMut(&'static str)) -> Figures {
    let Setting { nodes, whole, seed } = setting;
    let mut figures = Figures { whole: whole as u64, ..Figures::default() };
    phase("records");
    let mut mesh = Mesh::joined_through_the_first(0, 0, seed);
    mesh.make_crowd(nodes);
    phase("first sync");
    // The last two, of which one has everything on its disk and the other one record.
    first_sync(&mut mesh, [nodes - 1, nodes - 2], &mut figures);
    phase("start");
    for index in 0..whole {
        mesh.echoes.remove(&index);
        mesh.know_everybody(index);
        mesh.start(index);
    }
    figures.linked_ms = mesh.run_until(LINKED_MS, Mesh::has_kept_links);
    mesh.run_for(SETTLE_MS);
    let kept = mesh.up().map(|(_, machine)| machine.kept().count()).sum::<usize>();
    figures.kept_links = kept as f64 / whole as f64;
    phase("idle");
    let (before, events) = (mesh.whole_cost(whole), mesh.events);
    mesh.run_for(IDLE_MS);
    (figures.idle, figures.idle_s) = (mesh.whole_cost(whole) - before, IDLE_MS / 1_000);
    figures.idle_events = mesh.events - events;
    phase("silence");
    let silent = mesh.up().find_map(|(index, machine)| {
        machine
            .kept()
            .map(|peer| mesh.place_of(&peer))
            .find(|peer| mesh.echoes.contains(peer))
            .map(|it| (index, it))
    });
    if let Some((observer, silent)) = silent {
        mesh.echoes.remove(&silent);
        figures.noticed_ms =
            mesh.run_until(NOTICED_MS, |mesh| mesh.sees(observer, silent, PeerState::Unreachable));
        figures.false_verdicts = mesh.verdicts().filter(|change| change.peer != silent).count();
    }
    phase("done");
    figures
}

fn first_sync(mesh: &mut Mesh, [learner, teacher]: [usize; 2], figures: &mut Figures) {
    for index in [learner, teacher] {
        mesh.echoes.remove(&index);
    }
    mesh.know_everybody(teacher);
    let all = mesh.hosts.len();
    let record = mesh.records.get(teacher).cloned();
    mesh.hosts[learner].disk = record.into_iter().map(|it| (it.record().node, it)).collect();
    mesh.start(teacher);
    mesh.run_for(1_000);
    let before = mesh.whole_cost(all);
    mesh.start(learner);
    let knows = |mesh: &Mesh| {
        let machine = mesh.hosts[learner].machine.as_ref();
        machine.is_some_and(|machine| machine.directory().len() == all)
    };
    figures.first_sync_ms = mesh.run_until(LINKED_MS, knows);
    figures.first_sync_bytes = (mesh.whole_cost(all) - before).exchange_bytes;
    for index in [learner, teacher] {
        mesh.crash(index);
        mesh.hosts[index].disk.clear();
        mesh.echoes.insert(index);
    }
    mesh.changes.clear();
}

impl Mesh {
    /// So many members, all echoes, and their records.
    fn make_crowd(&mut self, nodes: usize) {
        self.paths = super::Paths::all(nodes);
        for index in 0..nodes {
            self.add_host(index);
            self.echoes.insert(index);
            let host = &self.hosts[index];
            let record = NodeRecord {
                mesh: root().mesh(),
                node: host.id,
                certificate: Certificate::bare(&root_key(), host.id),
                version: RecordVersion { epoch: 0, ver: 1 },
                lifecycle: Lifecycle::Up,
                advertisement: advertisement(host.address, 0),
                wall_ms: 0,
            };
            let verified = record.sign(&host.key).ok().and_then(|signed| signed.verify(&root()).ok());
            self.records.extend(verified);
        }
    }

    fn know_everybody(&mut self, index: usize) {
        let all = self.records.iter().map(|record| (record.record().node, record.clone()));
        self.hosts[index].disk = all.collect();
    }

    fn has_kept_links(&self) -> bool {
        let linked =
            |index: usize, peer: &_| self.view(index, self.place_of(peer)).is_some_and(|it| it.linked);
        self.up().all(|(index, machine)| machine.kept().all(|peer| linked(index, &peer)))
    }

    fn whole_cost(&self, whole: usize) -> Cost {
        self.hosts.iter().take(whole).fold(Cost::default(), |sum, host| sum + host.cost)
    }

    /// What an idle node at the other end of a link says to a datagram.
    pub(super) fn echo_datagram(&mut self, from: usize, echo: usize, bytes: &[u8]) {
        let answer = match Probe::decode(bytes) {
            Ok(Probe::Ping { seq, .. }) => Probe::Ack { seq, standing: self.echo_standing(echo) },
            Ok(Probe::Inquire { seq, .. }) => Probe::Report { seq, word: Word::Unasked },
            _ => return,
        };
        let after = self.latency();
        self.plan(after, Event::Datagram { from: echo, to: from, bytes: answer.encode() });
    }

    /// A linked echo probes a whole node when its turn comes in the echo's round.
    pub(super) fn echo_probes(&mut self, echo: usize, to: usize, boot: BootId) {
        let linked = self.hosts[to].links.current(&self.hosts[echo].id).is_some();
        if !self.echoes.contains(&echo) || self.hosts[to].boot != boot || !linked {
            return;
        }
        let ping = Probe::Ping { seq: 0, standing: self.echo_standing(echo) };
        self.plan(0, Event::Datagram { from: echo, to, bytes: ping.encode() });
        // An idle node compares once in ten of its probes, with anybody.
        if self.rng.random_ratio(1, 10)
            && let Some(machine) = &self.hosts[to].machine
        {
            let (_, first) = machine.begin_sync();
            self.next_exchange += 1;
            self.send_frame(echo, to, self.next_exchange, true, first);
        }
        self.plan(self.echo_round_ms(), Event::EchoProbe { echo, to, boot });
    }

    /// As many seconds as a node has neighbours: each is probed once in that time.
    pub(super) fn echo_round_ms(&self) -> u64 {
        (8 + u64::from(self.hosts.len().max(1).ilog2())) * 1_000
    }

    fn echo_standing(&self, echo: usize) -> Standing {
        let version = self.records.get(echo).map(|record: &VerifiedRecord| record.record().version);
        Standing { version: version.unwrap_or_default(), accusations: Vec::new() }
    }

    /// An echo's directory is that of whoever asks: the comparison finds nothing.
    pub(super) fn echo_frame(&mut self, from: usize, echo: usize, exchange: u64, bytes: &[u8]) {
        let Some(machine) = &self.hosts[from].machine else { return };
        let Ok(step) = machine.continue_sync(&mut Exchange::respond(), bytes) else { return };
        for bytes in step.send {
            self.send_frame(echo, from, exchange, false, bytes);
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<u64>| value.map_or_else(|| "never".to_owned(), |ms| format!("{ms} ms"));
        let per_node = |total: u64| total as f64 / self.whole.max(1) as f64 / self.idle_s.max(1) as f64;
        let (probes, exchanges) = (per_node(self.idle.datagram_bytes), per_node(self.idle.exchange_bytes));
        writeln!(
            f,
            "first exchange      {}, {} KB both ways",
            ms(self.first_sync_ms),
            self.first_sync_bytes / 1_000
        )?;
        writeln!(f, "linked after start  {}, {:.1} links kept", ms(self.linked_ms), self.kept_links)?;
        writeln!(
            f,
            "idle, a node        {:.1} B/s ({probes:.1} probes, {exchanges:.1} exchanges), {:.2} packets/s, {} dials in all",
            probes + exchanges,
            per_node(self.idle.packets),
            self.idle.dials
        )?;
        writeln!(f, "silence noticed     {}", ms(self.noticed_ms))?;
        write!(f, "false verdicts      {}", self.false_verdicts)
    }
}
