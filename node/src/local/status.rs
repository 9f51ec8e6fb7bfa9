//! The node, its peers, its outboxes and its health.

use std::collections::BTreeMap;
use std::path::Path;

use mesh_node_core::broker::flight::Flight;
use mesh_node_core::broker::list;
use mesh_node_core::jobs::job::Job;
use mesh_node_core::joining::{IssuedTicket, TICKETS_MAX};
use mesh_node_core::links;
use mesh_node_core::outbox::{self, DeliveryReport};
use mesh_node_core::policy;
use mesh_node_core::store::scan_prefix;
use mesh_node_core::view::{Contact, View};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::api::node::{
    Check, ConnectionCounts, ExecutorView, OutboxView, PeerOutbox, PeerStatus, Status,
};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::PeerView;

use super::{Local, storage};
use crate::clock::Clock;
use crate::service::{LIST_ROWS_MAX, Principal};
use crate::storage::Snapshot;
use crate::transport::Counts;
use crate::writer::Quarantined;

/// Delivery reports shown for one peer, newest last.
const REPORTS_SHOWN: usize = 5;

/// The node and its peers. Without a credential, what may be seen of any program of this machine: no grants.
pub(super) async fn status(local: &Local, who: &Principal) -> Result<Status, ApiError> {
    let mesh = local.network.view();
    let granted = match who {
        Principal::Operator => local.network.grants_at(mesh.peers.iter().map(|peer| peer.node)).await,
        Principal::Agent { .. } | Principal::Tenant { .. } | Principal::Anonymous => BTreeMap::new(),
    };
    let snapshot = local.snapshot()?;
    let now = local.clock.now();
    let shown = |peer: &PeerView| {
        let granted = granted.get(&peer.node).cloned();
        Ok(PeerStatus { granted, ..peer_status(local, &snapshot, who, peer)? })
    };
    let peers = mesh.peers.iter().map(shown).collect::<Result<_, ApiError>>()?;
    let flights = list::newest::<Flight>(&snapshot, LIST_ROWS_MAX).map_err(|error| storage(&error))?;
    let jobs = list::newest::<Job>(&snapshot, LIST_ROWS_MAX).map_err(|error| storage(&error))?;
    let tickets =
        scan_prefix::<IssuedTicket>(&snapshot, &(), TICKETS_MAX).map_err(|error| storage(&error))?;
    let open =
        |(_, ticket): &&(_, IssuedTicket)| ticket.used.is_none() && ticket.expires_wall_ms > now.wall_ms;
    Ok(Status {
        node: local.me,
        name: local.name.to_string(),
        mesh: Some(local.root_key.mesh()),
        root: local.root.is_some(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: u64::try_from(local.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        addresses: local.addresses.iter().map(ToString::to_string).collect(),
        executor: executor_view(local),
        agents: local.agents.settings().len(),
        open_tickets: tickets.iter().filter(open).count(),
        peers,
        flights_open: flights.iter().filter(|(_, flight)| !flight.state.is_terminal()).count(),
        jobs_open: jobs.iter().filter(|(_, job)| !job.status.is_terminal()).count(),
        isolated: mesh.isolated_since.is_some(),
        warnings: warnings(local, &snapshot)?,
        connections: connections(local),
    })
}

fn connections(local: &Local) -> ConnectionCounts {
    let Counts { accepted, refused, silent, retried, overloaded } = local.network.connection_counts();
    ConnectionCounts { accepted, refused, silent, retried, overloaded }
}

/// What was observed at the start, and how busy it is now.
fn executor_view(local: &Local) -> ExecutorView {
    let running = local.jobs.executor().map_or(0, |executor| executor.running());
    let observed = local.executor.borrow().clone();
    ExecutorView { running: u32::try_from(running).unwrap_or(u32::MAX), ..observed }
}

fn peer_status(
    local: &Local,
    snapshot: &Snapshot,
    who: &Principal,
    peer: &PeerView,
) -> Result<PeerStatus, ApiError> {
    let view = local.view();
    let member = view.members.get(&peer.node);
    let grant = match who {
        Principal::Operator => policy::grant_of(snapshot, peer.node).map_err(|error| storage(&error))?,
        Principal::Agent { .. } | Principal::Tenant { .. } | Principal::Anonymous => {
            mesh_protocol::policy::Trust::None.into()
        }
    };
    Ok(PeerStatus {
        node: peer.node,
        name: view.label(peer.node).to_string(),
        state: member.map_or_else(|| peer.state.name().to_owned(), |member| member.state.clone()),
        since_ms: member.and_then(|member| member.since_wall_ms),
        cause: member.map(|member| member.cause.clone()),
        last_error: peer.last_error.as_ref().map(|error| match peer.address_tried {
            Some(address) => format!("{} at {address}", error.text),
            None => error.text.clone(),
        }),
        path: local.network.path(peer.node).map(|path| way(&view, path)),
        rtt_us: local.network.rtt(peer.node).and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
        executor: member.map(|member| member.executor.clone()).unwrap_or_default(),
        grant,
        granted: None,
        outbox: outbox_view(local, snapshot, peer.node)?,
        paused: local.network.is_paused(peer.node),
        dropped: peer.dropped,
        over_quota: local.network.over_quota(peer.node),
    })
}

/// A way in words.
pub(super) fn way(view: &View, path: links::Path) -> String {
    match path {
        links::Path::Direct(address) => format!("direct {address}"),
        links::Path::Relayed { via } => format!("relayed via {}", view.label(via)),
    }
}

/// What waits for each member.
pub(super) fn outboxes(local: &Local) -> Result<Vec<PeerOutbox>, ApiError> {
    let snapshot = local.snapshot()?;
    let view = local.view();
    let others = view.members.iter().filter(|(_, member)| member.contact != Contact::Here);
    others
        .map(|(node, _)| {
            let outbox = outbox_view(local, &snapshot, *node)?;
            Ok(PeerOutbox { node: *node, name: view.label(*node).to_string(), outbox })
        })
        .collect()
}

/// What waits for a peer.
pub(super) fn outbox_view(local: &Local, snapshot: &Snapshot, peer: NodeId) -> Result<OutboxView, ApiError> {
    let reports =
        scan_prefix::<DeliveryReport>(snapshot, &peer, LIST_ROWS_MAX).map_err(|error| storage(&error))?;
    let skipped = reports.len().saturating_sub(REPORTS_SHOWN);
    let reports = reports.iter().skip(skipped).map(|(_, report)| sentence(report)).collect();
    let depth = outbox::depth(snapshot, local.clock.now(), peer).map_err(|error| storage(&error))?;
    Ok(match depth {
        Some(depth) => OutboxView {
            count: depth.count,
            bytes: depth.bytes,
            oldest_age_ms: (depth.count > 0).then_some(depth.oldest_age_ms),
            blocked: depth.blocked.map(|reason| format!("{reason:?}").to_lowercase()),
            reports,
        },
        None => OutboxView { reports, ..OutboxView::default() },
    })
}

fn sentence(report: &DeliveryReport) -> String {
    let what = match report.kind {
        outbox::ReportKind::SenderRolledBack => "the sender's disk was set back",
        outbox::ReportKind::ReceiverRolledBack => "the receiver's disk was set back",
        outbox::ReportKind::Gap => "messages are lost, and what they began has an unknown outcome",
        outbox::ReportKind::NewEpoch => "the sender began a new numbering",
    };
    let side = match report.side {
        outbox::Side::Sending => "to it",
        outbox::Side::Receiving => "from it",
    };
    format!("{side}, {}..={}: {what}", report.from, report.to)
}

fn warnings(local: &Local, snapshot: &Snapshot) -> Result<Vec<String>, ApiError> {
    let quarantined = Quarantined::all(snapshot).map_err(|error| storage(&error))?;
    let mut warnings = Vec::new();
    if let Some((_, last)) = quarantined.last() {
        let count = quarantined.len();
        warnings.push(format!(
            "{count} events could not be handled and were set aside, the last a {}",
            last.kind
        ));
    }
    for jump in local.clock.take_wall_jumps() {
        warnings.push(format!("the wall clock jumped by {} ms; no deadline was moved", jump.by_ms));
    }
    Ok(warnings)
}

/// The checks a node can make of itself, causes first.
pub(super) fn doctor(local: &Local) -> Result<Vec<Check>, ApiError> {
    let mut checks = vec![storage_check(local), reach_check(local), relay_check(local)];
    checks.extend(local.probes.borrow().iter().cloned());
    let settings = local.agents.settings();
    let offline = settings.iter().filter_map(|(name, setting)| Some((name, setting.offline.as_ref()?)));
    checks.extend(offline.map(|(name, reason)| Check {
        name: "agent-online".to_owned(),
        verdict: "fail".to_owned(),
        finding: format!("@{name} cannot run: {reason}"),
        fix: Some("mend its entry in config.toml, then restart the node".to_owned()),
    }));
    Ok(checks)
}

fn storage_check(local: &Local) -> Check {
    let name = "storage".to_owned();
    let free = free_bytes(&local.home);
    match (local.database.commits(), free) {
        (Err(error), _) => Check {
            name,
            verdict: "fail".to_owned(),
            finding: error.to_string(),
            fix: Some("`mesh-cli down`, look at the disk, then `mesh-cli up`".to_owned()),
        },
        (Ok(_), Some(bytes)) if bytes < FREE_BYTES_MIN => Check {
            name,
            verdict: "warn".to_owned(),
            finding: format!("only {} MiB are free where the node keeps its state", bytes / (1024 * 1024)),
            fix: Some(format!("free space on the disk of {}", local.home.display())),
        },
        (Ok(commits), _) => {
            let finding = format!("the database can be read ({commits} commits so far)");
            Check { name, verdict: "ok".to_owned(), finding, fix: None }
        }
    }
}

/// Below this the next large message may not fit.
const FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What is carried for others, and what was refused: for who wonders where the line's bytes go.
fn relay_check(local: &Local) -> Check {
    let counts = local.network.relay_counts();
    let mut finding = match counts.packets {
        0 => "nothing was carried for other members".to_owned(),
        packets => format!(
            "{} pairs of members are carried; {packets} packets ({} MiB) so far, {} lost",
            counts.pairs,
            counts.bytes / (1024 * 1024),
            counts.dropped
        ),
    };
    for (refusal, count) in &counts.refused {
        finding.push_str(&format!("; {count} refused ({refusal:?})"));
    }
    Check { name: "relay".to_owned(), verdict: "ok".to_owned(), finding, fix: None }
}

fn reach_check(local: &Local) -> Check {
    let view = local.network.view();
    let name = "peers".to_owned();
    let away: Vec<String> = local
        .view()
        .members
        .values()
        .filter(|member| member.contact == Contact::NotNow)
        .map(|member| format!("{} is {}: {}", member.name, member.state, member.cause))
        .collect();
    if view.isolated_since.is_some() {
        let finding = "no peer answers: this node itself seems cut off".to_owned();
        let fix = Some("look at this machine's network first".to_owned());
        return Check { name, verdict: "fail".to_owned(), finding, fix };
    }
    match away.first() {
        None => {
            let finding = match view.peers.len() {
                0 => "no other node has joined yet".to_owned(),
                1 => "the one peer can be reached".to_owned(),
                count => format!("all {count} peers can be reached"),
            };
            Check { name, verdict: "ok".to_owned(), finding, fix: None }
        }
        Some(first) => Check {
            name,
            verdict: "warn".to_owned(),
            finding: format!("{} of {} peers cannot be reached; {first}", away.len(), view.peers.len()),
            fix: Some("start the node there, or open UDP between the machines".to_owned()),
        },
    }
}
