//! Every ask and every job that was accepted ends.
//!
//! Excused: those that went with the disk of the node they were asked at.

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let mut broken = Vec::new();
    let rest = facts.rests_after_ms.is_some();
    if !rest {
        broken.push(format!("the healed world did not come to rest in {} s", facts.scenario.heal_seconds));
    }
    for (number, entry) in &facts.book.asks {
        let Some((_, at)) = entry.accepted.filter(|(_, at)| !facts.book.forgot(entry.from, *at)) else {
            continue;
        };
        let view = facts.nodes.get(&entry.from).and_then(|node| node.flights.get(number));
        match view {
            Some(view) if view.terminal => {}
            Some(view) => broken.push(format!(
                "ask {number} (n{} to n{}, accepted at {at} ms) is {}, waiting on {:?}",
                entry.from, entry.to, view.state, view.waiting_on
            )),
            None => {
                broken.push(format!("ask {number}, accepted at {at} ms, is not known on n{}", entry.from))
            }
        }
    }
    for (number, entry) in &facts.book.jobs {
        let Some((_, at)) = entry.accepted.filter(|(_, at)| !facts.book.forgot(entry.from, *at)) else {
            continue;
        };
        let view = facts.nodes.get(&entry.from).and_then(|node| node.jobs.get(number));
        match view {
            Some(view) if view.terminal => {}
            Some(view) => broken.push(format!(
                "job {number} (n{} on n{}, accepted at {at} ms) is {}, waiting on {:?}",
                entry.from,
                entry.to,
                view.status.name(),
                view.waiting_on
            )),
            None => {
                broken.push(format!("job {number}, accepted at {at} ms, is not known on n{}", entry.from))
            }
        }
    }
    broken
}
