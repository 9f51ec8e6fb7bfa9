//! Hearsay: who else reaches a peer, and how that goes round in a mesh where most members are no neighbours.
//!
//! A node that loses a neighbour, or finds it again, says so once: a [`Rumour`], about its own observation and with
//! its name on it. Rumours ride on probes and go, while there are any, to a few neighbours every [`GOSSIP_EVERY_MS`];
//! who hears a new one keeps it with the peer and passes it on, each a limited number of times. What came by comparing
//! directories is never passed on so.
//!
//! A rumour is shown, makes a neighbour of the accused look for itself, and confirms a suspicion it already has. It
//! never changes a state: whoever passes it on could have made it up.
//!
//! Where every pair keeps a link everybody sees for itself, and there are no rumours.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{Moment, PeerState};
use mesh_protocol::probe::{Probe, RUMOURS_MAX, Rumour};
use mesh_protocol::sync::IdPrefix;
use rand::seq::IteratorRandom as _;

use super::neighbours::FULL_MESH_MAX;
use super::timing::GOSSIP_EVERY_MS;
use super::{Membership, Output, Turn};
use crate::directory::prefix;
use crate::time::NodeTime;

/// Rumours that wait to be passed on. Beyond that the one passed on most often goes: a mesh in which so much happens is
/// split, and every node finds that out for itself.
const RUMOURS_QUEUED_MAX: usize = 256;
/// Observers whose word about one peer is kept: more than its neighbours. Later ones are not news.
const SIGHTINGS_MAX: usize = 64;
/// Peers told at once.
const GOSSIP_TO: usize = 3;
/// How often one rumour is passed on, beside log2 of the members.
const PASSED_ON: u32 = 4;

/// The order of one observer's rumours.
pub(super) type Stamp = (u64, u64);

/// What another node said about a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sighting {
    pub(super) observer: NodeId,
    pub(super) answers: bool,
    pub(super) at: Moment,
    stamp: Option<Stamp>,
}

type Key = (IdPrefix, IdPrefix);

#[derive(Debug)]
struct Waiting {
    rumour: Rumour,
    order: (u32, Reverse<u64>, Key),
}

/// Rumours to pass on: those least passed on first, and of these the newest.
#[derive(Debug, Default)]
pub(super) struct Rumours {
    waiting: BTreeMap<Key, Waiting>,
    in_order: BTreeSet<(u32, Reverse<u64>, Key)>,
    taken_in: u64,
}

impl Rumours {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn remove(&mut self, key: &Key) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        self.in_order.remove(&waiting.order);
        Some(waiting)
    }

    fn insert(&mut self, waiting: Waiting) {
        self.in_order.insert(waiting.order);
        self.waiting.insert(waiting.order.2, waiting);
    }

    /// Takes in a rumour; it replaces an older one of the same observer about the same node.
    fn push(&mut self, rumour: Rumour) {
        let key = (rumour.node, rumour.observer);
        self.remove(&key);
        self.taken_in = self.taken_in.saturating_add(1);
        self.insert(Waiting { rumour, order: (0, Reverse(self.taken_in), key) });
        if self.waiting.len() > RUMOURS_QUEUED_MAX
            && let Some((_, _, worn)) = self.in_order.last().copied()
        {
            self.remove(&worn);
        }
    }

    /// The next ones to pass on to one peer; each is given out so many times.
    fn take(&mut self, times: u32) -> Vec<Rumour> {
        let next: Vec<Key> = self.in_order.iter().take(RUMOURS_MAX).map(|(_, _, key)| *key).collect();
        let mut taken = Vec::new();
        for key in next {
            let Some(mut waiting) = self.remove(&key) else { continue };
            taken.push(waiting.rumour);
            waiting.order.0 = waiting.order.0.saturating_add(1);
            if waiting.order.0 < times {
                self.insert(waiting);
            }
        }
        taken
    }
}

impl Membership {
    /// Says to the mesh that a neighbour of ours answers, or does not.
    pub(super) fn announce(&mut self, turn: &Turn<'_>, node: NodeId, answers: bool) {
        if self.members() <= FULL_MESH_MAX || self.isolated.is_some() {
            return;
        }
        self.rumours_made = self.rumours_made.saturating_add(1);
        let epoch = self.own_version().epoch;
        let rumour = Rumour {
            node: prefix(&node),
            observer: prefix(&self.identity.node),
            epoch,
            count: self.rumours_made,
            answers,
        };
        self.pass_on(turn, rumour);
    }

    fn pass_on(&mut self, turn: &Turn<'_>, rumour: Rumour) {
        self.rumours.push(rumour);
        let soon = turn.now.node.plus_ms(GOSSIP_EVERY_MS);
        self.next_gossip = Some(self.next_gossip.unwrap_or(soon));
    }

    pub(super) fn gossip_when_due(&mut self, turn: &mut Turn<'_>) {
        if self.next_gossip.take_if(|at| *at <= turn.now.node).is_none() {
            return;
        }
        self.peers.settle();
        let chosen = self.peers.linked().map(|(node, _)| *node).sample(turn.rng, GOSSIP_TO);
        for to in chosen {
            self.add_rumours(turn, to);
        }
        if !self.rumours.is_empty() {
            self.next_gossip = Some(turn.now.node.plus_ms(GOSSIP_EVERY_MS));
        }
    }

    /// Puts what is to be passed on beside a probe: one packet carries both.
    pub(super) fn add_rumours(&mut self, turn: &mut Turn<'_>, to: NodeId) {
        if self.rumours.is_empty() {
            return;
        }
        let rumours = self.rumours.take(PASSED_ON.saturating_add(self.members().ilog2()));
        turn.put(Output::Send { to, bytes: Probe::Hearsay(rumours).encode() });
    }

    pub(super) fn hear_rumours(&mut self, turn: &mut Turn<'_>, from: NodeId, rumours: Vec<Rumour>) {
        for rumour in rumours {
            let whole = |short| self.directory.node_of(short);
            let (Some(node), Some(observer)) = (whole(&rumour.node), whole(&rumour.observer)) else {
                continue;
            };
            let stamp = (rumour.epoch, rumour.count);
            if observer == self.identity.node || observer == node {
                continue;
            }
            if node == self.identity.node {
                self.hear_rumour_of_oneself(turn, observer, stamp, rumour.answers);
            } else if self.note_sighting(turn, node, observer, rumour.answers, Some(stamp)) {
                self.pass_on(turn, rumour);
                if !rumour.answers {
                    self.look_at(turn, node, from, None);
                }
            }
        }
    }

    /// The one way to answer: with a later version of one's record, once for each rumour.
    fn hear_rumour_of_oneself(&mut self, turn: &mut Turn<'_>, observer: NodeId, stamp: Stamp, answers: bool) {
        let Some(peer) = self.peers.get_mut(&observer).filter(|peer| peer.doubted_us < Some(stamp)) else {
            return;
        };
        peer.doubted_us = Some(stamp);
        if !answers {
            let accused = self.own_version();
            self.refute(turn, accused);
        }
    }

    /// Keeps what another node says about a peer; whether it is news.
    pub(super) fn note_sighting(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        observer: NodeId,
        answers: bool,
        stamp: Option<Stamp>,
    ) -> bool {
        let at = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let full = peer.sightings.len() >= SIGHTINGS_MAX;
        let held = peer.sightings.iter_mut().find(|sighting| sighting.observer == observer);
        let changed = held.as_ref().is_none_or(|held| held.answers != answers);
        match held {
            Some(held) if stamp.is_some() && stamp <= held.stamp => return false,
            Some(held) => *held = Sighting { observer, answers, at, stamp: stamp.or(held.stamp) },
            None if full => return false,
            None => peer.sightings.push(Sighting { observer, answers, at, stamp }),
        }
        // Of a peer that is alive to us nobody asks who else reaches it.
        if changed && peer.state != PeerState::Alive {
            turn.put(Output::Changed { peer: node });
        }
        true
    }

    /// When rumours are next passed on.
    pub(super) const fn gossip_due(&self) -> Option<NodeTime> {
        self.next_gossip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rumour(node: u64, count: u64) -> Rumour {
        Rumour { node: node.to_be_bytes(), observer: [1; 8], epoch: 1, count, answers: false }
    }

    #[test]
    fn each_rumour_is_passed_on_so_often_and_no_more() {
        let mut rumours = Rumours::default();
        rumours.push(rumour(1, 1));
        assert_eq!((0..9).map(|_| rumours.take(3).len()).sum::<usize>(), 3);
        assert!(rumours.is_empty() && rumours.in_order.is_empty());
    }

    #[test]
    fn a_newer_rumour_replaces_the_older_one_and_begins_anew() {
        let mut rumours = Rumours::default();
        rumours.push(rumour(1, 1));
        rumours.take(3);
        rumours.push(rumour(1, 2));
        assert_eq!(rumours.take(1), [rumour(1, 2)]);
        assert!(rumours.is_empty());
    }

    #[test]
    fn what_was_passed_on_least_goes_first_and_the_queue_is_bounded() {
        let mut rumours = Rumours::default();
        (0..RUMOURS_MAX as u64).for_each(|node| rumours.push(rumour(node, 1)));
        rumours.take(9);
        rumours.push(rumour(9_999, 1));
        assert_eq!(rumours.take(9).first(), Some(&rumour(9_999, 1)));
        (0..1_000).for_each(|node| rumours.push(rumour(node, 2)));
        assert_eq!(rumours.waiting.len(), RUMOURS_QUEUED_MAX);
        assert_eq!(rumours.in_order.len(), RUMOURS_QUEUED_MAX);
    }
}
