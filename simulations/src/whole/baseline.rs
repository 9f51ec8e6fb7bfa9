//! The numbers of a campaign beside those of an earlier one, kept in a file. A run is a function of its seed, so every
//! difference is one of the code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::campaign::Report;

/// What is kept of one scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Seeds, from 0.
    pub seeds: u64,
    /// Seeds in which something was broken.
    pub failures: u64,
    /// Asks accepted.
    pub asks: u64,
    /// Asks completed.
    pub completed: u64,
    /// Packets a node sent in a virtual second, in hundredths.
    pub packets_per_node_second_x100: u64,
    /// Virtual milliseconds after healing until all rested, in half of the runs.
    pub rests_ms_half: u64,
    /// The same in all of them.
    pub rests_ms_all: u64,
}

/// All of a file, by scenario.
pub type Baseline = BTreeMap<String, Figures>;

impl From<&Report> for Figures {
    fn from(report: &Report) -> Self {
        let total = report.total();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let node_ms = total.virtual_ms.saturating_mul(count(report.nodes)).max(1);
        Self {
            seeds: count(report.outcomes.len()),
            failures: count(report.failures().count()),
            asks: total.asks,
            completed: total.completed,
            packets_per_node_second_x100: total.packets.saturating_mul(100_000) / node_ms,
            rests_ms_half: report.rests_within_ms(50),
            rests_ms_all: report.rests_within_ms(100),
        }
    }
}

impl Figures {
    /// What differs, one line each.
    #[must_use]
    pub fn differences(&self, before: &Self) -> Vec<String> {
        let pairs = [
            ("seeds", before.seeds, self.seeds),
            ("failures", before.failures, self.failures),
            ("asks", before.asks, self.asks),
            ("completed", before.completed, self.completed),
            (
                "packets a node and second x100",
                before.packets_per_node_second_x100,
                self.packets_per_node_second_x100,
            ),
            ("rest after heal, half (ms)", before.rests_ms_half, self.rests_ms_half),
            ("rest after heal, all (ms)", before.rests_ms_all, self.rests_ms_all),
        ];
        let line = |(what, before, now): (&str, u64, u64)| {
            (before != now).then(|| format!("{what}: {before} before, {now} now"))
        };
        pairs.into_iter().filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures = Figures {
        seeds: 10,
        failures: 0,
        asks: 100,
        completed: 90,
        packets_per_node_second_x100: 900,
        rests_ms_half: 5_000,
        rests_ms_all: 9_000,
    };

    #[test]
    fn what_is_the_same_is_not_mentioned_and_what_differs_is() {
        assert_eq!(FIGURES.differences(&FIGURES), Vec::<String>::new());
        let now = Figures { failures: 1, ..FIGURES };
        assert_eq!(now.differences(&FIGURES), ["failures: 0 before, 1 now"]);
    }
}
