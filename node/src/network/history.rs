//! What was tried to reach each peer, and what came of it: for people who ask why.
//!
//! In memory and bounded. The same try with the same outcome is one entry with a count, so that a night of silence does
//! not push out what happened before it.

use std::collections::{BTreeMap, VecDeque};

use mesh_node_core::links::Path;
use mesh_protocol::id::NodeId;

use crate::limits::ATTEMPTS_REMEMBERED;

/// One way that was tried, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The way; `None` when none was known.
    pub way: Option<Path>,
    /// What came of it, as one clause.
    pub outcome: String,
    /// When last, wall clock.
    pub at_wall_ms: u64,
    /// How often with this outcome.
    pub times: u64,
}

/// The tries of all peers.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<NodeId, VecDeque<Tried>>);

impl History {
    pub(super) fn note(&mut self, at_wall_ms: u64, peer: NodeId, way: Option<Path>, outcome: String) {
        let tries = self.0.entry(peer).or_default();
        let same = tries.iter().position(|tried| tried.way == way && tried.outcome == outcome);
        let times = same.and_then(|at| tries.remove(at)).map_or(0, |tried| tried.times);
        tries.push_back(Tried { way, outcome, at_wall_ms, times: times.saturating_add(1) });
        if tries.len() > ATTEMPTS_REMEMBERED {
            tries.pop_front();
        }
    }

    /// The newest first.
    pub(super) fn of(&self, peer: &NodeId) -> Vec<Tried> {
        self.0.get(peer).into_iter().flatten().rev().cloned().collect()
    }

    pub(super) fn forget(&mut self, peer: &NodeId) {
        self.0.remove(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_outcome_is_one_entry_and_old_ones_make_room() {
        let peer = NodeId::from_bytes([1; 32]);
        let way = |port: u16| Some(Path::Direct(([127, 0, 0, 1], port).into()));
        let mut history = History::default();
        for port in 0..20 {
            history.note(u64::from(port), peer, way(port), "nothing answered".to_owned());
        }
        assert_eq!(history.of(&peer).len(), ATTEMPTS_REMEMBERED);
        history.note(50, peer, way(10), "nothing answered".to_owned());
        let tries = history.of(&peer);
        assert_eq!(tries.len(), ATTEMPTS_REMEMBERED);
        let newest = tries.first().unwrap();
        assert_eq!((newest.way, newest.at_wall_ms, newest.times), (way(10), 50, 2));
        history.forget(&peer);
        assert!(history.of(&peer).is_empty());
    }
}
