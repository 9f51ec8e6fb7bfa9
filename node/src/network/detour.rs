//! Reaching a peer through another member: whom to ask, whom to try, and a connection over the first that carries.

use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::links::{FailureKind, Offer, Path, plan};
use mesh_protocol::hello::Features;
use mesh_protocol::id::NodeId;
use mesh_protocol::question::Reach;
use mesh_protocol::relay::RelayRequest;
use tokio::task::JoinSet;

use super::{Shared, question, relay};
use crate::transport::Connection;

/// How long members may take to say whether they reach a peer.
const OFFERS_WITHIN: Duration = Duration::from_secs(1);
/// How long a relay may take to agree: it may have to dial its own carrier to the target first.
const AGREE_WITHIN: Duration = Duration::from_secs(8);

/// Why a member did not carry.
struct Setback {
    kind: FailureKind,
    text: String,
}

/// Dials a peer through any member that reaches it. What was tried is in the history.
pub(super) async fn dial(shared: &Arc<Shared>, peer: NodeId, number: u64) -> Option<Connection> {
    let asked = shared.routes().ask(shared.clock.now().node, peer, carrying_members(shared));
    let answers = ask_all(shared, asked, peer).await;
    let offers = answers.iter().filter_map(|(relay, reach)| {
        let Reach { direct, carries, rtt_us, .. } = (*reach)?;
        Some(Offer { relay: *relay, direct, carries, rtt_us: rtt_us.unwrap_or(u64::MAX) })
    });
    let offers: Vec<Offer> = offers.collect();
    for offer in offers.iter().filter(|offer| offer.direct && !offer.carries) {
        shared.note(peer, Some(Path::Relayed { via: offer.relay }), "it does not let this node relay");
    }
    let chosen = shared.routes().choose(shared.clock.now().node, peer, offers);
    for via in chosen {
        match through(shared, via, peer, number).await {
            Ok(connection) => {
                shared.routes().worked(via, peer);
                return Some(connection);
            }
            Err(Setback { kind, text }) => {
                shared.routes().failed(shared.clock.now().node, &mut *shared.chance(), (via, peer), kind);
                shared.note(peer, Some(Path::Relayed { via }), &text);
            }
        }
    }
    None
}

/// Members linked directly that know how to carry.
pub(super) fn carrying_members(shared: &Shared) -> Vec<NodeId> {
    let linked: Vec<NodeId> = shared.used().keys().copied().collect();
    let links = linked.into_iter().filter_map(|peer| shared.link(peer));
    let carrying = links.filter(|link| !link.key().relayed && link.features().contains(Features::RELAY));
    carrying.map(|link| link.peer()).collect()
}

/// What each of these members says of its way to a peer, in their order; `None` for who did not say in time.
pub(super) async fn ask_all(
    shared: &Shared,
    members: Vec<NodeId>,
    peer: NodeId,
) -> Vec<(NodeId, Option<Reach>)> {
    let mut answers: Vec<(NodeId, Option<Reach>)> =
        members.into_iter().map(|member| (member, None)).collect();
    let mut asked = JoinSet::new();
    for (at, (member, _)) in answers.iter().enumerate() {
        if let Some(link) = shared.link(*member) {
            asked.spawn(async move { (at, question::ask_reach(&link, peer).await) });
        }
    }
    let all = async {
        while let Some(answer) = asked.join_next().await {
            if let Ok((at, reach)) = answer
                && let Some((_, place)) = answers.get_mut(at)
            {
                *place = reach;
            }
        }
    };
    // Whoever is slower has not answered.
    let _ = tokio::time::timeout(OFFERS_WITHIN, all).await;
    answers
}

async fn through(
    shared: &Arc<Shared>,
    via: NodeId,
    peer: NodeId,
    number: u64,
) -> Result<Connection, Setback> {
    let passing = |text: String| Setback { kind: FailureKind::Passing, text };
    let agree = async {
        let carrier = shared.carriers.to(shared, via).await.map_err(|error| Setback {
            kind: error.cause.kind(),
            text: format!("no connection to carry packets: {}", error.cause),
        })?;
        match relay::ask(&carrier, RelayRequest::Carry { to: peer }).await {
            Some(Ok(stream)) => Ok(stream),
            Some(Err(refusal)) => {
                let kind = if refusal.is_passing() { FailureKind::Passing } else { FailureKind::Refused };
                Err(Setback { kind, text: refusal.to_string() })
            }
            None => Err(passing("it gave no answer".to_owned())),
        }
    };
    let (sender, receiver) = tokio::time::timeout(AGREE_WITHIN, agree)
        .await
        .unwrap_or_else(|_| Err(passing("it took too long to agree".to_owned())))?;
    let address =
        shared.paths.open((via, peer), receiver, sender).map_err(|full| passing(full.to_string()))?;
    let dialled = shared.relayed.dial(peer, number, &plan(&[address], None, 0)).await;
    dialled.map_err(|error| {
        shared.paths.end(address);
        passing(error.cause.to_string())
    })
}
