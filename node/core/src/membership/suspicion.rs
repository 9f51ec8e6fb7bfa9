//! How long a silent peer is given.
//!
//! The time starts long and shrinks with every other node that also gets no answer (Lifeguard's dynamic suspicion
//! timeout). A new version of the accused's record starts it anew, since somebody heard from it; but not for ever, or a
//! node that can speak and not hear would never be judged.

use std::collections::BTreeSet;

use mesh_protocol::id::NodeId;

use super::timing::{ACCUSE_AFTER_MS, SUSPICION_FLOOR_MS, SUSPICION_PER_DOUBLING_MS};
use crate::time::NodeTime;

/// Accusers beside oneself that make a suspicion as short as it gets.
const CONFIRMATIONS_ENOUGH: usize = 2;
/// Longest suspicion over shortest, without any confirmation.
const LONGEST_OVER_SHORTEST: u64 = 2;
/// However often it is refuted, a suspicion ends after this many longest times.
const REFUTATIONS_MAX: u64 = 2;

/// A peer that gave no answer, and until when it may.
#[derive(Debug, Clone)]
pub(super) struct Suspicion {
    /// The first missed probe.
    pub(super) began: NodeTime,
    /// Whether it was firm when that was last asked: from then on it is the mesh's business.
    pub(super) told: bool,
    renewed: NodeTime,
    confirmed_by: BTreeSet<NodeId>,
}

impl Suspicion {
    pub(super) const fn new(now: NodeTime) -> Self {
        Self { began: now, told: false, renewed: now, confirmed_by: BTreeSet::new() }
    }

    /// Another node says that it gets no answer either.
    pub(super) fn confirm(&mut self, accuser: NodeId) {
        if self.confirmed_by.len() < CONFIRMATIONS_ENOUGH {
            self.confirmed_by.insert(accuser);
        }
    }

    /// Whether it may be told to others: it lasted a while, or is not ours alone.
    pub(super) fn is_firm(&self, now: NodeTime) -> bool {
        !self.confirmed_by.is_empty() || now.since(self.began) >= ACCUSE_AFTER_MS
    }

    /// When it becomes firm or ends.
    pub(super) fn next_due(&self, members: u64) -> NodeTime {
        let ends = self.ends(members);
        if self.told { ends } else { self.began.plus_ms(ACCUSE_AFTER_MS).min(ends) }
    }

    /// The accused published a later record.
    pub(super) fn refute(&mut self, now: NodeTime) {
        self.renewed = now;
        self.confirmed_by.clear();
    }

    /// When the peer is judged, in a mesh of this many members.
    pub(super) fn ends(&self, members: u64) -> NodeTime {
        let shortest = shortest_ms(members);
        let longest = shortest.saturating_mul(LONGEST_OVER_SHORTEST);
        // The fall is logarithmic: ln(2)/ln(3) = 63 % of the way with one of two confirmations.
        let possible = members.saturating_sub(2).min(CONFIRMATIONS_ENOUGH as u64);
        let fallen_percent = match (possible, self.confirmed_by.len()) {
            (0, _) | (1, 1..) | (_, CONFIRMATIONS_ENOUGH..) => 100,
            (_, 1) => 63,
            (_, _) => 0,
        };
        let range = longest.saturating_sub(shortest);
        let wait = longest.saturating_sub(range.saturating_mul(fallen_percent) / 100);
        let last = self.began.plus_ms(longest.saturating_mul(REFUTATIONS_MAX));
        self.renewed.plus_ms(wait).min(last)
    }
}

fn shortest_ms(members: u64) -> u64 {
    let doublings = u64::from(members.max(1).ilog2());
    SUSPICION_PER_DOUBLING_MS.saturating_mul(doublings).max(SUSPICION_FLOOR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    #[test]
    fn every_accuser_shortens_a_suspicion_once_down_to_the_shortest() {
        let mut suspicion = Suspicion::new(NodeTime(0));
        assert_eq!(suspicion.ends(32), NodeTime(12_040));
        suspicion.confirm(node(1));
        suspicion.confirm(node(1));
        assert_eq!(suspicion.ends(32), NodeTime(8_248));
        suspicion.confirm(node(2));
        assert_eq!(suspicion.ends(32), NodeTime(6_020));
    }

    #[test]
    fn where_nobody_could_confirm_nobody_is_waited_for() {
        assert_eq!(Suspicion::new(NodeTime(0)).ends(2), NodeTime(3_000));
    }

    #[test]
    fn refuting_starts_the_time_anew_but_not_for_ever() {
        let mut suspicion = Suspicion::new(NodeTime(0));
        suspicion.refute(NodeTime(5_000));
        assert_eq!(suspicion.ends(5), NodeTime(11_000));
        suspicion.refute(NodeTime(11_000));
        assert_eq!(suspicion.ends(5), NodeTime(12_000));
    }
}
