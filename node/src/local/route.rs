//! How a peer is reached: the way in use, what was tried, what others say, and what to do about it.

use mesh_node_core::view::{Contact, Member};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::mesh::{HearsayView, PingReply, RouteView, SightingView, TriedView};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{PeerState, PeerView};
use mesh_protocol::question::Reach;

use super::Local;
use super::membership::peer;
use super::status::{outbox_view, way};
use crate::clock::Clock;

/// Everything about the way to a peer.
pub(super) async fn route(local: &Local, text: &str) -> Result<RouteView, ApiError> {
    let (node, name) = peer(local, text)?;
    let sightings = local.network.reach_of(node).await;
    let view = local.view();
    let mesh = local.network.view();
    let seen = mesh.peers.iter().find(|peer| peer.node == node);
    let member = view.members.get(&node);
    let path = local.network.path(node);
    let seen_by: Vec<SightingView> =
        sightings.into_iter().map(|(by, reach)| sighting(by, view.label(by).to_string(), reach)).collect();
    let heard = seen.map(|peer| peer.seen_by.as_slice()).unwrap_or_default().iter().map(|said| HearsayView {
        node: said.node,
        name: view.label(said.node).to_string(),
        answers: said.answers,
        at_ms: said.at.wall_ms,
    });
    let addresses: Vec<String> = local.network.addresses(node).iter().map(ToString::to_string).collect();
    let next_try_in_ms =
        local.network.next_upgrade_in_ms(node).or_else(|| seen.and_then(|peer| peer.next_dial_in_ms));
    let tried = local.network.tried(node).into_iter().map(|tried| TriedView {
        way: tried.way.map(|path| way(&view, path)),
        outcome: tried.outcome,
        at_ms: tried.at_wall_ms,
        times: tried.times,
    });
    let snapshot = local.snapshot()?;
    Ok(RouteView {
        node,
        state: member.map_or_else(|| "unknown".to_owned(), |member| member.state.clone()),
        since_ms: member.and_then(|member| member.since_wall_ms),
        cause: member.map(|member| member.cause.clone()),
        path: path.map(|path| way(&view, path)),
        rtt_us: local.network.rtt(node).and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
        tried: tried.collect(),
        outbox: outbox_view(local, &snapshot, node)?,
        last_error: seen.and_then(|peer| peer.last_error.as_ref()).map(|error| error.text.clone()),
        next_try_in_ms,
        next: match (path, addresses.is_empty()) {
            (None, true) if member.is_some_and(|member| member.contact == Contact::NotNow) => {
                only_it_can_dial(&name)
            }
            _ => next(local, &name, (member, seen), path.is_some(), &seen_by),
        },
        addresses,
        seen_by,
        heard: heard.collect(),
        name,
    })
}

fn sighting(node: NodeId, name: String, reach: Option<Reach>) -> SightingView {
    let answered = reach.is_some();
    let none = Reach { alive: false, direct: false, carries: false, rtt_us: None };
    let Reach { alive, direct, carries, rtt_us } = reach.unwrap_or(none);
    SightingView { node, name, answered, alive, direct, carries, rtt_us }
}

/// The next command, by what stands in the way.
fn next(
    local: &Local,
    name: &str,
    (member, seen): (Option<&Member>, Option<&PeerView>),
    linked: bool,
    seen_by: &[SightingView],
) -> String {
    let state = member.map_or("", |member| member.state.as_str());
    let closed = seen_by.iter().find(|by| by.direct && !by.carries);
    match (state, seen.map(|peer| peer.state), closed) {
        ("blocked", ..) => format!("`mesh-cli unblock {name}` lets it in again"),
        ("revoked" | "left", ..) => "nothing: it is no member any more".to_owned(),
        _ if linked => format!("`mesh-cli ping {name}` measures the way"),
        (_, Some(PeerState::Incompatible), _) => format!("install the same version here and on {name}"),
        (_, _, Some(by)) => {
            format!("on node {}: `mesh-cli allow {} relay` lets it carry for this node", by.name, local.name)
        }
        _ => format!("`mesh-cli up` on {name}; if it runs there, open UDP to one of its addresses"),
    }
}

/// The next command when a peer cannot be dialled at all.
fn only_it_can_dial(name: &str) -> String {
    format!(
        "`mesh-cli up` on {name}: it advertises no address, so it dials, or a member carries that reaches it"
    )
}

/// Asks a peer whether it is there.
pub(super) async fn ping(local: &Local, text: &str) -> Result<PingReply, ApiError> {
    let (node, name) = peer(local, text)?;
    let view = local.view();
    let linked = local.network.path(node).is_some();
    match local.network.ping(node).await {
        Some((path, took)) => {
            let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            Ok(PingReply { node, name, path: way(&view, path), took_us })
        }
        None if linked => Err(ApiError::new(
            ErrorKind::Unavailable,
            "no_answer",
            format!("{name} is linked and gave no answer in time"),
        )
        .hint(format!("`mesh-cli explain {name}` shows what is known of the way"))),
        None => Err(unreachable(local, &name, view.members.get(&node))),
    }
}

/// Why nobody can be asked, since when, and where to look.
fn unreachable(local: &Local, name: &str, member: Option<&Member>) -> ApiError {
    let Some(member) = member else {
        return ApiError::new(ErrorKind::NotFound, "unknown_node", format!("{name} is not known any more"));
    };
    if member.contact == Contact::Gone {
        let message = format!("{name} is {}: {}", member.state, member.cause);
        return ApiError::new(ErrorKind::Refused, "peer_excluded", message)
            .hint(format!("`mesh-cli explain {name}` says what can be done"));
    }
    let now = local.clock.now().wall_ms;
    let since = member
        .since_wall_ms
        .map_or_else(String::new, |since| format!(" for {} s", now.saturating_sub(since) / 1_000));
    // A peer whose link has just gone is alive for a moment longer.
    let state = if member.state == "alive" { "not linked" } else { member.state.as_str() };
    let message = format!("{name} is {state}{since}: {}", member.cause);
    ApiError::new(ErrorKind::Unavailable, "peer_unreachable", message)
        .hint(format!("`mesh-cli explain {name}` shows what was tried, and who reaches it"))
}
