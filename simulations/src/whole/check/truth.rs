//! Outcomes are true and final: completed means that the work came to its end with that result, "cannot have run" means
//! that it was never begun, and what was once read as an outcome stays.
//!
//! Excused: asks and jobs of which one side's disk went back. That side does not know what it sent or did, and until
//! they meet neither knows that.

use mesh_protocol::flight::FlightOutcome;

use crate::whole::agent::Script;
use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let book = &facts.book;
    let mut broken = Vec::new();
    let mut claim = |kind: &str, number: u64, may_have_run: bool, began: usize, said: &str| {
        if !may_have_run && began > 0 {
            broken.push(format!("{kind} {number} cannot have run, says its origin, and was begun: {said}"));
        }
    };
    for (number, entry) in &book.asks {
        let excused = book.was_set_back(entry.from) || book.was_set_back(entry.to);
        let view = facts.nodes.get(&entry.from).and_then(|node| node.flights.get(number));
        if let Some(outcome) = view.and_then(|view| view.outcome.as_ref()).filter(|_| !excused) {
            claim("ask", *number, outcome.may_have_run(), entry.began.len(), &format!("{outcome:?}"));
        }
    }
    for (number, entry) in &book.jobs {
        let excused = book.was_set_back(entry.from) || book.was_set_back(entry.to);
        let view = facts.nodes.get(&entry.from).and_then(|node| node.jobs.get(number));
        if let Some(result) = view.and_then(|view| view.result.as_ref()).filter(|_| !excused) {
            claim("job", *number, result.may_have_run, entry.began.len(), &format!("{result:?}"));
        }
    }
    broken.extend(completions(facts));
    broken.extend(changes(facts));
    broken
}

/// What completed came to its end with that result.
fn completions(facts: &Facts) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, entry) in &facts.book.asks {
        let view = facts.nodes.get(&entry.from).and_then(|node| node.flights.get(number));
        if let Some(FlightOutcome::Completed { reply }) = view.and_then(|view| view.outcome.as_ref()) {
            let result = Script { number: *number, work_ms: 0 }.result();
            if entry.ended.is_empty() || *reply != result {
                broken.push(format!("ask {number} completed with `{reply}` and was ended {:?}", entry.ended));
            }
        }
    }
    for (number, entry) in &facts.book.jobs {
        let view = facts.nodes.get(&entry.from).and_then(|node| node.jobs.get(number));
        let result = view.and_then(|view| view.result.as_ref());
        if let Some(result) = result.filter(|result| result.exit_code.is_some()) {
            let expected = Script { number: *number, work_ms: 0 }.result();
            if entry.ended.is_empty() || result.stdout != expected {
                broken.push(format!(
                    "job {number} printed `{}` and was ended {:?}",
                    result.stdout, entry.ended
                ));
            }
        }
    }
    broken
}

/// What was read as an outcome once is the outcome in the end.
fn changes(facts: &Facts) -> Vec<String> {
    let book = &facts.book;
    let mut broken = Vec::new();
    for (number, entry) in &book.asks {
        let Some((first, at)) = entry.outcome.as_ref().filter(|_| !book.was_set_back(entry.from)) else {
            continue;
        };
        let last = facts.nodes.get(&entry.from).and_then(|node| node.flights.get(number)?.outcome.as_ref());
        if last != Some(first) {
            broken.push(format!("ask {number} was {first:?} at {at} ms and is {last:?}"));
        }
    }
    for (number, entry) in &book.jobs {
        let Some((first, at)) = entry.outcome.as_ref().filter(|_| !book.was_set_back(entry.from)) else {
            continue;
        };
        let last = facts.nodes.get(&entry.from).and_then(|node| node.jobs.get(number)?.result.as_ref());
        if last != Some(first) {
            broken.push(format!("job {number} was {first:?} at {at} ms and is {last:?}"));
        }
    }
    broken
}
