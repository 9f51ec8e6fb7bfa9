//! No accepted message is lost.
//!
//! Excused: those that went with the disk of the sender, and those a receiver's restored disk forgot; what is said of
//! these is judged in [`super::reports`].

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let book = &facts.book;
    let lost = book.sends.iter().filter_map(|(number, entry)| {
        let (_, at) = entry.accepted?;
        let excused = book.forgot(entry.from, at) || book.was_set_back(entry.to);
        let there = facts.nodes.get(&entry.to).is_some_and(|node| node.messages.contains_key(number));
        let (from, to) = (entry.from, entry.to);
        (!excused && !there)
            .then(|| format!("message {number} from n{from}, accepted at {at} ms, is not on n{to}"))
    });
    lost.collect()
}
