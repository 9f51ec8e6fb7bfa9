//! What one node sends another is taken in the order in which it was accepted: an agent begins its work in that order.
//!
//! Excused: pairs of which one disk went back, as what is sent again comes later.

use std::collections::BTreeMap;

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let mut pairs: BTreeMap<(usize, usize), Vec<(u64, u64)>> = BTreeMap::new();
    for (number, entry) in &facts.book.asks {
        let excused = facts.book.was_set_back(entry.from) || facts.book.was_set_back(entry.to);
        if let Some(effect) = entry.began.first().filter(|_| !excused) {
            pairs.entry((entry.from, entry.to)).or_default().push((effect.order, *number));
        }
    }
    let mut broken = Vec::new();
    for ((from, to), mut begun) in pairs {
        begun.sort_unstable();
        for step in begun.windows(2) {
            if let [(_, first), (_, second)] = step
                && first > second
            {
                broken.push(format!("n{to} began ask {first} of n{from} before ask {second}"));
            }
        }
    }
    broken
}
