//! A node, its peers and what deserves attention, the most general first.

use mesh_protocol::api::node::{ExecutorView, PeerStatus, Status};

use crate::foreign;
use crate::measure::{self, ago, rough};
use crate::style::{self, BAD, DOUBTFUL, KEY, LITERAL};
use crate::table::{Align, Cell, Table, key_values};
use crate::wrap::wrapped;

/// A node that is younger may still be looking at its sandbox.
const SANDBOX_SEEN_WITHIN_MS: u64 = 60_000;

/// The page `status` shows.
pub(crate) fn status(status: &Status, now_ms: u64) -> String {
    let mut page = identity(status);
    page.push('\n');
    if status.peers.is_empty() {
        page.push_str("no peers yet\n");
    } else {
        page.push_str(&peers(&status.peers, now_ms));
    }
    let attention = attention(status, now_ms);
    if !attention.is_empty() {
        page.push('\n');
        attention.iter().for_each(|line| page.push_str(&format!("{}\n", wrapped(line, 2))));
    }
    page
}

/// The next sensible command, with what it is for.
pub(crate) fn next_step(status: &Status) -> &'static str {
    match status {
        Status { mesh: None, .. } => "`mesh-cli init` makes a mesh, `mesh-cli join -` joins one",
        Status { peers, open_tickets: 0, .. } if peers.is_empty() => {
            "`mesh-cli invite` prints a ticket for the next machine"
        }
        Status { peers, .. } if peers.is_empty() => {
            "type `mesh-cli join -` on the next machine and paste the ticket"
        }
        Status {
            uptime_ms: SANDBOX_SEEN_WITHIN_MS..,
            executor: ExecutorView { unavailable: Some(_), .. },
            ..
        } => "`mesh-cli setup gvisor` lets this machine run jobs",
        _ => "`mesh-cli who` lists the agents you can ask",
    }
}

fn identity(status: &Status) -> String {
    let mesh = status.mesh.map_or_else(|| "no mesh yet".to_owned(), |mesh| mesh.to_string());
    let founder = if status.root { ", with its root key" } else { "" };
    let work = format!(
        "{} and {} open, {} here",
        measure::count(status.flights_open as u64, "ask"),
        measure::count(status.jobs_open as u64, "job"),
        measure::count(status.agents as u64, "agent"),
    );
    let mut pairs = vec![
        (
            "node",
            format!(
                "{} {}",
                style::paint(KEY, foreign::line(&status.name)),
                style::paint(LITERAL, status.node)
            ),
        ),
        ("mesh", format!("{mesh}{founder}")),
        ("up", format!("{}, version {}", rough(status.uptime_ms), foreign::line(&status.version))),
        ("reached at", nothing_or(status.addresses.iter().map(|address| foreign::line(address)))),
        ("sandbox", sandbox(&status.executor)),
        ("work", work),
    ];
    if status.open_tickets > 0 {
        pairs.push(("tickets", format!("{} can still be used", status.open_tickets)));
    }
    key_values(&pairs)
}

/// What a sandbox offers, in a line.
pub(crate) fn sandbox(executor: &ExecutorView) -> String {
    if let Some(why) = &executor.unavailable {
        return format!("none: {}", foreign::line(why));
    }
    if executor.classes.is_empty() {
        return "none".to_owned();
    }
    let classes = executor.classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let languages = foreign::line(&executor.languages.join(", "));
    format!("{classes} for {languages}; {} of {} busy", executor.running, executor.slots)
}

fn nothing_or(texts: impl Iterator<Item = String>) -> String {
    let text = texts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "-".to_owned() } else { text }
}

fn peers(peers: &[PeerStatus], now_ms: u64) -> String {
    let mut table = Table::new([
        ("PEER", Align::Left),
        ("STATE", Align::Left),
        ("RTT", Align::Right),
        ("QUEUED", Align::Right),
        ("HERE/THERE", Align::Left),
        ("PATH", Align::Left),
        ("SINCE", Align::Left),
    ]);
    for peer in peers {
        table.row([
            Cell::styled(KEY, &peer.name),
            Cell::state(&peer.state),
            Cell::maybe(peer.rtt_us.map(measure::round_trip)),
            peer.outbox.count.into(),
            super::grant::both_ways(&peer.grant, peer.granted.as_ref()).into(),
            Cell::maybe(peer.path.as_ref()),
            Cell::maybe(peer.since_ms.map(|since| ago(now_ms, since))),
        ]);
    }
    table.render()
}

/// What someone should know, a line each.
fn attention(status: &Status, now_ms: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if status.isolated {
        let cut_off =
            "this node seems to be cut off itself: it calls nobody unreachable until it hears someone";
        lines.push(style::paint(BAD, cut_off));
    }
    lines.extend(status.peers.iter().filter_map(|peer| trouble(peer, now_ms)));
    let warnings = status.warnings.iter();
    lines.extend(
        warnings.map(|warning| format!("{} {}", style::paint(DOUBTFUL, "warning:"), foreign::line(warning))),
    );
    lines
}

/// Why a peer is not alive, and what waits for it.
fn trouble(peer: &PeerStatus, now_ms: u64) -> Option<String> {
    let well = matches!(peer.state.as_str(), "alive" | "known");
    if well && peer.outbox.reports.is_empty() && peer.outbox.blocked.is_none() {
        return None;
    }
    let mut line = format!("{} is {}", foreign::line(&peer.name), foreign::line(&peer.state));
    if let Some(since) = peer.since_ms {
        line.push_str(&format!(" since {}", ago(now_ms, since)));
    }
    let why = [&peer.cause, &peer.last_error, &peer.outbox.blocked].into_iter().flatten();
    let why: Vec<String> = why.chain(&peer.outbox.reports).map(|text| foreign::line(text)).collect();
    if !why.is_empty() {
        line.push_str(&format!(": {}", why.join("; ")));
    }
    if peer.outbox.count > 0 {
        let (count, bytes) = (measure::count(peer.outbox.count, "parcel"), measure::bytes(peer.outbox.bytes));
        line.push_str(&format!("; {count} ({bytes}) held for it"));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::{self, NOW, plain};

    #[test]
    fn a_node_shows_itself_its_peers_and_why_one_is_not_there() {
        insta::assert_snapshot!(plain(&status(&specimen::status(), NOW)), @r"
        node        atlas aeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaq
        mesh        mesh-0s3ge1o70s3ge1o70s3ge1o70s, with its root key
        up          2h, version 0.1.0
        reached at  192.0.2.1:4433
        sandbox     gvisor-application-kernel for python, node, bash; 1 of 2 busy
        work        2 asks and 0 jobs open, 1 agent here

        PEER      STATE          RTT  QUEUED  HERE/THERE  PATH                   SINCE
        borealis  alive        1.3ms       0  team/all    direct 192.0.2.7:4433  10m ago
        nova      unreachable      -       3  team/-      -                      10m ago

        nova is unreachable since 10m ago: no answer to probes; 192.0.2.9:4433:
          connection refused; 3 parcels (1.2 KiB) held for it
        ");
    }

    #[test]
    fn a_node_that_is_cut_off_says_so() {
        let cut_off =
            Status { isolated: true, warnings: vec!["clock went back 5s\u{7}".into()], ..specimen::status() };
        let text = plain(&status(&cut_off, NOW));
        assert!(text.contains("seems to be cut off itself"), "{text}");
        assert!(text.contains("warning: clock went back 5s\\u{7}"), "{text}");
    }

    #[test]
    fn what_comes_next_follows_the_state() {
        let lonely = Status { peers: Vec::new(), ..specimen::status() };
        assert!(next_step(&lonely).contains("mesh-cli invite"));
        assert!(next_step(&Status { open_tickets: 1, ..lonely.clone() }).contains("mesh-cli join"));
        assert!(next_step(&Status { mesh: None, ..lonely }).contains("mesh-cli init"));
        assert!(next_step(&specimen::status()).contains("mesh-cli who"));
    }
}
