//! A record changes only by its owner: one version of it is the same wherever it was ever seen, and nobody has one
//! newer than its owner's.
//!
//! Excused: owners whose disk went back or whose home ran twice, as they said two things under one number.

use mesh_protocol::peer::PeerView;
use mesh_protocol::record::RecordVersion;

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let mut broken = Vec::new();
    for ((owner, version), bodies) in &facts.bodies {
        let machine = facts.machine_of(*owner);
        let excused = machine.is_some_and(|machine| facts.book.was_set_back(machine));
        if bodies.len() > 1 && !excused {
            let (RecordVersion { epoch, ver }, count) = (version, bodies.len());
            broken.push(format!("record ({epoch}, {ver}) of {} was seen with {count} bodies", owner.short()));
        }
    }
    for (index, node) in &facts.nodes {
        let newer = |peer: &&PeerView| {
            let owner = facts.nodes.values().find(|facts| facts.id == peer.node);
            owner.is_some_and(|owner| peer.version > Some(owner.view.version))
        };
        for peer in node.view.peers.iter().filter(newer) {
            broken.push(format!("n{index} has a record of {} newer than its own", peer.node.short()));
        }
    }
    broken
}
