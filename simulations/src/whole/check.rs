//! The judges: one invariant a file. Each looks at the facts of a run that is over and says what was broken.
//!
//! A disk that went back, or a home that ran twice, excuses what no protocol can help: the excuses are in
//! [`Book`](super::ledger::Book) and each judge names those it takes.

mod applied_once;
mod bounds;
mod directory;
mod duplicates;
mod ends;
mod lost;
mod order;
mod ownership;
mod reachability;
mod reports;
mod truth;

use std::fmt;

use super::facts::Facts;

/// An invariant that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which: the name of the judge's file.
    pub invariant: &'static str,
    /// How.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.how)
    }
}

type Judge = fn(&Facts) -> Vec<String>;

/// Every invariant.
const JUDGES: [(&str, Judge); 11] = [
    ("applied_once", applied_once::judge),
    ("bounds", bounds::judge),
    ("directory", directory::judge),
    ("duplicates", duplicates::judge),
    ("ends", ends::judge),
    ("lost", lost::judge),
    ("order", order::judge),
    ("ownership", ownership::judge),
    ("reachability", reachability::judge),
    ("reports", reports::judge),
    ("truth", truth::judge),
];

/// Everything that was broken.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Broken> {
    let found = |(invariant, judge): (&'static str, Judge)| {
        judge(facts).into_iter().map(move |how| Broken { invariant, how })
    };
    JUDGES.into_iter().flat_map(found).collect()
}
