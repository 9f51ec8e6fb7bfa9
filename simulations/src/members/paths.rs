//! Who reaches whom: splits, also of several parts that overlap, and single directions that are cut.

use std::collections::BTreeSet;

/// The paths between so many nodes.
#[derive(Debug)]
pub(super) struct Paths {
    /// The parts each node is in, a bit each. Two nodes reach each other when they have one in common.
    parts: Vec<u32>,
    cut: BTreeSet<(usize, usize)>,
}

impl Paths {
    pub(super) fn all(size: usize) -> Self {
        Self { parts: vec![1; size], cut: BTreeSet::new() }
    }

    /// Puts each node in its parts.
    pub(super) fn split(&mut self, parts_of: impl Fn(usize) -> u32) {
        for (node, parts) in self.parts.iter_mut().enumerate() {
            *parts = parts_of(node);
        }
    }

    pub(super) fn heal(&mut self) {
        self.split(|_| 1);
        self.cut.clear();
    }

    /// Loses everything that goes from one node to another, and nothing the other way.
    pub(super) fn cut_one_way(&mut self, from: usize, to: usize) {
        self.cut.insert((from, to));
    }

    /// Whether what one node sends reaches the other.
    pub(super) fn carry(&self, from: usize, to: usize) -> bool {
        let parts = |node: usize| self.parts.get(node).copied().unwrap_or_default();
        parts(from) & parts(to) != 0 && !self.cut.contains(&(from, to))
    }

    pub(super) fn both_ways(&self, one: usize, other: usize) -> bool {
        self.carry(one, other) && self.carry(other, one)
    }
}
