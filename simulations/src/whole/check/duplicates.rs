//! A home that runs twice is noticed and said: another node calls it a duplicate. And nothing comes of it in silence: where
//! work was begun more than once, one of the two ends has recorded that a disk seemed to go back.
//!
//! What was accepted by a home that ran twice is owed as by any other, since no disk of it went back; that is judged with
//! the rest. Excused from being noticed: a second machine that was there for moments only, and any when something else
//! goes wrong too.

use crate::whole::facts::Facts;
use crate::whole::scenario::Fault;

/// Longer than a node takes to be linked again, and so to be seen in turns with its double.
const NOTICED_MS: u64 = 5_000;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let book = &facts.book;
    let mut broken = Vec::new();
    let nothing_else = facts.scenario.faults.iter().all(|fault| *fault == Fault::Double);
    for doubled in book.doubled.iter().filter(|_| nothing_else) {
        let Some(node) = facts.nodes.get(&doubled.machine) else { continue };
        let lasted = doubled.until_ms.unwrap_or(doubled.from_ms).saturating_sub(doubled.from_ms);
        if lasted >= NOTICED_MS && !facts.duplicates.contains(&node.id) {
            let (machine, from_ms) = (doubled.machine, doubled.from_ms);
            broken
                .push(format!("n{machine} ran twice for {lasted} ms from {from_ms} ms, and nobody said so"));
        }
    }
    let asks = book.asks.iter().map(|(number, it)| ("ask", *number, it.from, it.to, it.began.len()));
    let jobs = book.jobs.iter().map(|(number, it)| ("job", *number, it.from, it.to, it.began.len()));
    for (kind, number, from, to, began) in asks.chain(jobs) {
        let (Some(sender), Some(receiver)) = (facts.nodes.get(&from), facts.nodes.get(&to)) else { continue };
        if began < 2 || from == to || !book.ran_twice(to) {
            continue;
        }
        let said = sender.reports.iter().any(|report| report.peer == receiver.id)
            || receiver.reports.iter().any(|report| report.peer == sender.id);
        if !said {
            broken.push(format!(
                "{kind} {number} was begun {began} times on n{to}, and neither it nor n{from} says why"
            ));
        }
    }
    broken
}
