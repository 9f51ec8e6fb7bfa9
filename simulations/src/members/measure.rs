//! What a mesh of some size takes: one run through joining, rest, a crash and a split, with its figures.

use std::fmt;

use super::{Cost, Mesh};
use mesh_protocol::peer::PeerState;

/// How long anything is waited for, milliseconds.
const AT_MOST_MS: u64 = 120_000;
/// Time for a mesh that has just joined to give up the links it does not keep, milliseconds.
const SETTLE_MS: u64 = 90_000;
/// How often it is looked who noticed something, milliseconds.
const LOOK_EVERY_MS: u64 = 100;
/// How long an idle mesh is watched, milliseconds.
const IDLE_MS: u64 = 60_000;
/// Bytes UDP, IP and QUIC add to a packet: 28 of headers, a short QUIC header of 11, 16 of its tag, 3 of the frame.
const PACKET_OVERHEAD_BYTES: u64 = 58;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Nodes.
    pub nodes: usize,
    /// Datagrams lost, in percent.
    pub loss_percent: u32,
    /// How long the halves are apart, seconds.
    pub split_s: u64,
    /// From which everything follows.
    pub seed: u64,
}

/// What came of it. Times are milliseconds; `None` where it did not happen within two minutes.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// All start, knowing one: until every record is everywhere and every kept link is up.
    pub join_ms: Option<u64>,
    /// Links a node keeps, on average.
    pub kept_links: f64,
    /// What all nodes sent in an idle minute.
    pub idle: Cost,
    /// Seconds of it.
    pub idle_s: u64,
    /// A node crashes: until the first other says so.
    pub crash_first_ms: Option<u64>,
    /// Until the last one does.
    pub crash_last_ms: Option<u64>,
    /// The halves are apart: until every node has a verdict about every neighbour in the other half.
    pub split_ms: Option<u64>,
    /// They meet: until every record, changed meanwhile on both sides, is everywhere.
    pub heal_records_ms: Option<u64>,
    /// Until every kept link is up again, too.
    pub heal_ms: Option<u64>,
    /// Verdicts about nodes that ran and could be reached.
    pub false_verdicts: usize,
    /// Bytes a node sent from the end of the split until all was well again, on average.
    pub heal_bytes: u64,
    nodes: u64,
}

/// Runs it. `phase` is told what begins.
pub fn measure(setting: Setting, mut phase: impl FnMut(&'static str)) -> Figures {
    let Setting { nodes, loss_percent, split_s, seed } = setting;
    let mut figures = Figures { nodes: nodes as u64, ..Figures::default() };
    phase("join");
    let mut mesh = Mesh::joined_through_the_first(nodes, loss_percent, seed);
    figures.join_ms = mesh.run_until(AT_MOST_MS, Mesh::is_complete);
    phase("settle");
    mesh.run_for(SETTLE_MS);
    figures.kept_links =
        mesh.up().map(|(_, machine)| machine.kept().count()).sum::<usize>() as f64 / nodes as f64;
    phase("idle");
    let before = mesh.cost();
    mesh.run_for(IDLE_MS);
    (figures.idle, figures.idle_s) = (mesh.cost() - before, IDLE_MS / 1_000);
    figures.false_verdicts = mesh.verdicts().count();
    phase("crash");
    crash(&mut mesh, &mut figures);
    phase("split");
    split(&mut mesh, split_s, &mut figures);
    phase("done");
    figures
}

fn crash(mesh: &mut Mesh, figures: &mut Figures) {
    let (victim, seen, began) = (mesh.hosts.len() / 3, mesh.changes.len(), mesh.now);
    mesh.crash(victim);
    let mut unaware: Vec<usize> = mesh.up().map(|(index, _)| index).collect();
    while !unaware.is_empty() && mesh.now - began < AT_MOST_MS {
        mesh.run_for(LOOK_EVERY_MS);
        let before = unaware.len();
        unaware.retain(|observer| !mesh.finds_silent(*observer, victim));
        if unaware.len() < before {
            figures.crash_first_ms = figures.crash_first_ms.or(Some(mesh.now - began));
        }
    }
    figures.crash_last_ms = unaware.is_empty().then(|| mesh.now - began);
    mesh.run_for(40_000);
    let wrong = mesh.changes[seen..].iter();
    figures.false_verdicts +=
        wrong.filter(|change| change.state == PeerState::Unreachable && change.peer != victim).count();
    mesh.start(victim);
    mesh.run_until(AT_MOST_MS, Mesh::is_complete);
    mesh.run_for(20_000);
}

fn split(mesh: &mut Mesh, split_s: u64, figures: &mut Figures) {
    let (size, began, seen) = (mesh.hosts.len(), mesh.now, mesh.changes.len());
    let side = move |index: usize| index < size / 2;
    mesh.split(|index| if side(index) { 1 } else { 2 });
    let step = (split_s * 1_000 / 2).min(10_000);
    mesh.run_for(step);
    for index in 0..size {
        mesh.change(index, 7);
    }
    let knows = |mesh: &Mesh, index: usize| {
        let Some(machine) = &mesh.hosts[index].machine else { return true };
        let mut across = machine.kept().filter(|peer| side(mesh.place_of(peer)) != side(index));
        machine.is_isolated() || across.all(|peer| machine.state(&peer) == Some(PeerState::Unreachable))
    };
    let mut unaware: Vec<usize> = (0..size).collect();
    while !unaware.is_empty() && mesh.now - began + LOOK_EVERY_MS < split_s * 1_000 {
        mesh.run_for(LOOK_EVERY_MS);
        unaware.retain(|index| !knows(mesh, *index));
    }
    figures.split_ms = unaware.is_empty().then(|| mesh.now - began);
    mesh.run_for((began + split_s * 1_000).saturating_sub(mesh.now));
    let within = mesh.changes[seen..].iter();
    figures.false_verdicts += within
        .filter(|change| change.state == PeerState::Unreachable && side(change.peer) == side(change.observer))
        .count();
    let (before, healed) = (mesh.cost(), mesh.now);
    mesh.heal();
    figures.heal_records_ms = mesh.run_until(AT_MOST_MS, Mesh::has_every_record_everywhere);
    let complete = mesh.run_until(AT_MOST_MS, Mesh::is_complete);
    figures.heal_ms = complete.map(|_| mesh.now - healed);
    let spent = mesh.cost() - before;
    figures.heal_bytes = (spent.datagram_bytes + spent.exchange_bytes) / size as u64;
}

impl Mesh {
    /// What all nodes sent.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.hosts.iter().fold(Cost::default(), |sum, host| sum + host.cost)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<u64>| value.map_or_else(|| "never".to_owned(), |ms| format!("{ms} ms"));
        let per_node = |total: u64| total as f64 / self.nodes.max(1) as f64 / self.idle_s.max(1) as f64;
        let (packets, dials) = (per_node(self.idle.packets), self.idle.dials);
        let (probes, exchanges) = (per_node(self.idle.datagram_bytes), per_node(self.idle.exchange_bytes));
        let bytes = probes + exchanges;
        let wire = packets.mul_add(PACKET_OVERHEAD_BYTES as f64, bytes);
        writeln!(f, "join                {}", ms(self.join_ms))?;
        writeln!(f, "links kept          {:.1}", self.kept_links)?;
        writeln!(
            f,
            "idle, a node        {bytes:.1} B/s ({probes:.1} probes, {exchanges:.1} exchanges), \
             {packets:.2} packets/s, {wire:.0} B/s with headers, {dials} dials in all"
        )?;
        writeln!(
            f,
            "crash noticed       first {}, last {}",
            ms(self.crash_first_ms),
            ms(self.crash_last_ms)
        )?;
        writeln!(f, "split detected      {}", ms(self.split_ms))?;
        writeln!(
            f,
            "healed              records {}, links {}, {} KB a node",
            ms(self.heal_records_ms),
            ms(self.heal_ms),
            self.heal_bytes / 1_000
        )?;
        write!(f, "false verdicts      {}", self.false_verdicts)
    }
}
