//! No message is applied twice: it is recorded once, and its work is begun once.
//!
//! Excused: a receiver whose disk went back, as it does not know what it did.

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let book = &facts.book;
    let mut broken = Vec::new();
    for (number, entry) in &book.sends {
        let target = facts.nodes.get(&entry.to).filter(|_| !book.was_set_back(entry.to));
        let copies = target.and_then(|node| node.messages.get(number)).copied().unwrap_or(0);
        if copies > 1 {
            broken.push(format!("message {number} is recorded {copies} times on n{}", entry.to));
        }
    }
    let asks = book.asks.iter().map(|(number, entry)| ("ask", number, entry.to, &entry.began));
    let jobs = book.jobs.iter().map(|(number, entry)| ("job", number, entry.to, &entry.began));
    for (kind, number, to, began) in asks.chain(jobs) {
        if began.len() > 1 && !book.was_set_back(to) {
            broken.push(format!("{kind} {number} was begun {} times: {began:?}", began.len()));
        }
    }
    broken
}
