//! All peers, with the indexes that keep every step cheap in a mesh of thousands.
//!
//! Nothing is decided here. Whoever changes a peer goes through [`Peers::get_mut`], which remembers it as touched;
//! [`Peers::settle`] then brings the indexes up to date. So a peer may be changed freely within a step, and what is
//! read from an index is as of the last settling: the steps of [`super::Membership`] settle before they read.

use std::collections::{BTreeMap, BTreeSet};

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{Moment, PeerState};

use super::neighbours::{Ring, threshold, weight};
use super::peer::Peer;
use crate::links::FailureKind;
use crate::time::NodeTime;

/// All peers of one node.
#[derive(Debug)]
pub(super) struct Peers {
    me: NodeId,
    all: BTreeMap<NodeId, Peer>,
    touched: Vec<NodeId>,
    due: BTreeSet<(NodeTime, NodeId)>,
    linked: BTreeSet<NodeId>,
    suspects: BTreeSet<NodeId>,
    lost: BTreeSet<NodeId>,
    by_weight: BTreeSet<(u64, NodeId)>,
    ring: Ring,
    ring_is_old: bool,
    members_changed: bool,
}

/// What the indexes hold about one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Indexed {
    due: Option<NodeTime>,
    linked: bool,
    suspect: bool,
    lost: bool,
    member: bool,
}

impl Peers {
    pub(super) const fn new(me: NodeId) -> Self {
        Self {
            me,
            all: BTreeMap::new(),
            touched: Vec::new(),
            due: BTreeSet::new(),
            linked: BTreeSet::new(),
            suspects: BTreeSet::new(),
            lost: BTreeSet::new(),
            by_weight: BTreeSet::new(),
            ring: Ring::new(),
            ring_is_old: false,
            members_changed: false,
        }
    }

    pub(super) fn get(&self, node: &NodeId) -> Option<&Peer> {
        self.all.get(node)
    }

    pub(super) fn get_mut(&mut self, node: &NodeId) -> Option<&mut Peer> {
        let found = self.all.get_mut(node);
        if found.is_some() && self.touched.last() != Some(node) {
            self.touched.push(*node);
        }
        found
    }

    /// The peer, which is known from now on.
    pub(super) fn entry(&mut self, node: NodeId, moment: Moment) -> &mut Peer {
        self.touched.push(node);
        self.all.entry(node).or_insert_with(|| Peer::new(moment, weight(self.me, node)))
    }

    pub(super) fn remove(&mut self, node: &NodeId) {
        if let Some(peer) = self.all.remove(node) {
            self.index(*node, peer.weight, peer.indexed, Indexed::default());
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.all.iter()
    }

    /// Brings the indexes up to date.
    pub(super) fn settle(&mut self) {
        for node in std::mem::take(&mut self.touched) {
            self.index_again(node);
        }
        if std::mem::take(&mut self.ring_is_old) {
            self.ring = Ring::around(self.me, |range| {
                self.all.range(range).filter(|(_, peer)| peer.is_member()).map(|(node, _)| *node)
            });
            // How long a suspicion lasts depends on how many could confirm it.
            for node in self.suspects.clone() {
                self.index_again(node);
            }
        }
    }

    /// Whether members came or went since this was last asked.
    pub(super) const fn take_members_changed(&mut self) -> bool {
        std::mem::replace(&mut self.members_changed, false)
    }

    fn index_again(&mut self, node: NodeId) {
        let members = self.members();
        let Some(peer) = self.all.get_mut(&node) else { return };
        let passing = peer.last_failure.is_none_or(|kind| kind == FailureKind::Passing);
        let silent = matches!(peer.state, PeerState::Unreachable | PeerState::Suspect);
        let after = Indexed {
            due: peer.next_due(members),
            linked: peer.linked,
            suspect: peer.suspicion.is_some(),
            lost: !peer.linked && passing && silent,
            member: peer.is_member(),
        };
        let before = std::mem::replace(&mut peer.indexed, after);
        let weight = peer.weight;
        self.index(node, weight, before, after);
    }

    fn index(&mut self, node: NodeId, weight: u64, before: Indexed, after: Indexed) {
        if before.due != after.due {
            before.due.into_iter().for_each(|due| _ = self.due.remove(&(due, node)));
            self.due.extend(after.due.map(|due| (due, node)));
        }
        set(&mut self.linked, node, before.linked, after.linked);
        set(&mut self.suspects, node, before.suspect, after.suspect);
        set(&mut self.lost, node, before.lost, after.lost);
        set(&mut self.by_weight, (weight, node), before.member, after.member);
        if before.member != after.member {
            (self.ring_is_old, self.members_changed) = (true, true);
        }
    }

    /// The peers for which something is due by now.
    pub(super) fn due(&self, now: NodeTime) -> Vec<NodeId> {
        self.due.iter().take_while(|(due, _)| *due <= now).map(|(_, node)| *node).collect()
    }

    /// When the next thing is due for any peer.
    pub(super) fn first_due(&self) -> Option<NodeTime> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn linked(&self) -> impl Iterator<Item = (&NodeId, &Peer)> + Clone {
        self.linked.iter().filter_map(|node| Some((node, self.all.get(node)?)))
    }

    /// Those under suspicion.
    pub(super) fn suspects(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.suspects.iter().filter_map(|node| Some((node, self.all.get(node)?)))
    }

    /// Those without a link and without an answer, who may come back at any time.
    pub(super) fn lost(&self) -> impl Iterator<Item = (&NodeId, &Peer)> + Clone {
        self.lost.iter().filter_map(|node| Some((node, self.all.get(node)?)))
    }

    pub(super) fn lost_count(&self) -> u64 {
        u64::try_from(self.lost.len()).unwrap_or(u64::MAX)
    }

    /// Members, this node included.
    pub(super) fn members(&self) -> u64 {
        u64::try_from(self.by_weight.len()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Whether a link to this peer is kept for its own sake.
    pub(super) fn is_neighbour(&self, node: &NodeId) -> bool {
        self.all.get(node).is_some_and(|peer| {
            peer.is_member() && (peer.weight <= threshold(self.members()) || self.ring.has(node))
        })
    }

    /// Everybody for whom that is so.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = NodeId> {
        let limit = threshold(self.members());
        let near = self.by_weight.range(..=(limit, LAST)).map(|(_, node)| *node);
        let only_in_ring = move |node: &NodeId| self.all.get(node).is_some_and(|peer| peer.weight > limit);
        near.chain(self.ring.both().filter(only_in_ring))
    }
}

const LAST: NodeId = NodeId::from_bytes([0xff; 32]);

fn set<T: Ord>(index: &mut BTreeSet<T>, key: T, before: bool, after: bool) {
    match (before, after) {
        (false, true) => _ = index.insert(key),
        (true, false) => _ = index.remove(&key),
        _ => {}
    }
}
