//! The directory converges: once healed, everybody has everybody's newest record and sees everybody alive.

use mesh_protocol::peer::PeerState;

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let mut broken = Vec::new();
    for (index, node) in &facts.nodes {
        for (other, owner) in &facts.nodes {
            let newest = owner.records.get(&owner.id);
            if newest.is_none() || node.records.get(&owner.id) != newest {
                broken.push(format!("n{index} has not the newest record of n{other}"));
            }
            let seen = node.view.peers.iter().find(|peer| peer.node == owner.id);
            if other != index && seen.is_none_or(|peer| peer.state != PeerState::Alive) {
                let state = seen.map(|peer| format!("{} ({})", peer.state, peer.cause));
                broken.push(format!("n{index} sees n{other} as {}", state.unwrap_or_default()));
            }
        }
    }
    broken
}
