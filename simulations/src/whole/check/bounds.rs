//! Queues and memory are within their bounds: a world at rest keeps nothing for anybody, no event was set aside, and no
//! task of an ended life or an ended connection stays behind.

use crate::whole::facts::Facts;

/// Tasks of one node beside those of its links.
const TASKS_PER_NODE: usize = 24;
/// Tasks of one end of a link: the connection's own, its streams', a session each way.
const TASKS_PER_LINK_END: usize = 16;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let mut broken = Vec::new();
    for (index, node) in &facts.nodes {
        if node.quarantined > 0 {
            broken.push(format!("n{index} set {} events aside", node.quarantined));
        }
        for outbox in node.outboxes.iter().filter(|outbox| outbox.outbox.count > 0) {
            let what = &outbox.outbox;
            broken.push(format!("n{index} still keeps {} messages for {}", what.count, outbox.name));
        }
    }
    let nodes = facts.nodes.len();
    let bound = nodes * (TASKS_PER_NODE + nodes.saturating_sub(1) * TASKS_PER_LINK_END);
    if facts.tasks > bound {
        broken.push(format!("{} tasks are at work, more than {bound}", facts.tasks));
    }
    broken
}
