//! Dialling: who should be linked and is not, and when to try again. For ever, at a falling rate.
//!
//! A member that advertises no address is dialled too, since another member may reach it. That none does says nothing
//! of it: only it can dial, and it may in a moment. So such a dial that fails begins no suspicion.

use std::net::SocketAddr;

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::PeerState;
use rand::RngExt as _;
use rand::seq::IteratorRandom as _;

use super::peer::Dial;
use super::timing::{HASTE_SPREAD_MS, LINK_IDLE_MS, SEEK_EVERY_MS, SEEK_FOR_MS, SPLIT_ONE_OF, TAKEN_WAIT_MS};
use super::{Membership, Output, Turn};
use crate::links::{DialFailure, FailureKind};
use crate::time::NodeTime;

/// How soon a peer is dialled whose back-off no longer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// With the next thing this node does.
    Now,
    /// Within [`HASTE_SPREAD_MS`], since many are.
    Spread,
    /// Within [`TAKEN_WAIT_MS`] and not before half of it, since its link was taken away.
    Later,
}

impl Membership {
    /// Whether a link to this member is kept for its own sake: it is probed, and dialled whenever it is gone.
    #[must_use]
    pub fn keeps_link(&self, node: &NodeId) -> bool {
        self.peers.is_neighbour(node)
    }

    /// Everybody for whom that is so, members that cannot be reached included.
    pub fn kept(&self) -> impl Iterator<Item = NodeId> {
        self.peers.neighbours()
    }

    pub(super) fn wants_link(&self, now: NodeTime, node: &NodeId) -> bool {
        self.peers.is_neighbour(node) || self.peers.get(node).is_some_and(|peer| peer.is_wanted(now))
    }

    /// Something has to go to a peer: it gets a link if it has none, and keeps it while it is needed.
    pub(super) fn handle_needed(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.needed_until = turn.now.node.plus_ms(LINK_IDLE_MS);
        if matches!(peer.state, PeerState::Known | PeerState::Alive) {
            self.dial_soon(turn, node, Haste::Now);
        }
    }

    /// When members came or went, others may be neighbours now.
    pub(super) fn link_new_neighbours(&mut self, turn: &mut Turn<'_>) {
        self.peers.settle();
        if !self.peers.take_members_changed() {
            return;
        }
        for node in self.peers.neighbours().collect::<Vec<_>>() {
            if self.peers.get(&node).is_some_and(|peer| peer.dial == Dial::Idle && !peer.linked) {
                self.dial_soon(turn, node, Haste::Now);
            }
        }
    }

    /// Gives up links that nobody used for a while and that are no neighbours'.
    pub(super) fn rest_when_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        for node in self.peers.due(now) {
            let kept = self.wants_link(now, &node);
            let Some(peer) = self.peers.get_mut(&node).filter(|peer| peer.linked && peer.idle_at() <= now)
            else {
                continue;
            };
            if kept {
                peer.used = now;
                continue;
            }
            peer.unlink();
            self.stop_watching(turn, node, "its link was not needed any more");
            turn.put(Output::Close { peer: node, cause: "nobody needs it".to_owned() });
        }
    }

    /// The link to a peer that is no neighbour is gone: nothing of one's own says from here on whether it is there.
    pub(super) fn stop_watching(&mut self, turn: &mut Turn<'_>, node: NodeId, cause: &str) {
        let moment = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let told = matches!(peer.state, PeerState::Alive | PeerState::Duplicate);
        if told && peer.enter(PeerState::Known, cause.to_owned(), moment) {
            turn.put(Output::Changed { peer: node });
        }
    }

    pub(super) fn handle_dial_failed(&mut self, turn: &mut Turn<'_>, node: NodeId, failure: DialFailure) {
        let moment = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.note_error(&failure.text, moment);
        peer.address_tried = failure.address.or(peer.address_tried);
        peer.last_failure = Some(failure.kind);
        if peer.linked || !peer.is_member() {
            peer.dial = Dial::Idle;
            return;
        }
        let wait = peer.backoff.after(failure.kind, turn.rng);
        peer.dial = Dial::At(turn.now.node.plus_ms(wait));
        self.inquire(turn, node);
        match failure.kind {
            FailureKind::Passing if self.addresses(&node).is_empty() => {}
            FailureKind::Passing => self.suspect(turn, node, &failure.text),
            FailureKind::Refused => self.give_up(turn, node, Some((PeerState::Unreachable, &failure.text))),
            FailureKind::Incompatible => {
                self.give_up(turn, node, Some((PeerState::Incompatible, &failure.text)));
            }
        }
    }

    /// Forgets a peer's back-off, because there is news, and dials it.
    pub(super) fn dial_soon(&mut self, turn: &mut Turn<'_>, node: NodeId, haste: Haste) {
        if !self.wants_link(turn.now.node, &node) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.linked || peer.dial == Dial::UnderWay {
            return;
        }
        let wait = match haste {
            Haste::Now => 0,
            Haste::Spread => turn.rng.random_range(0..=HASTE_SPREAD_MS),
            Haste::Later => turn.rng.random_range(TAKEN_WAIT_MS / 2..=TAKEN_WAIT_MS),
        };
        peer.backoff.reset();
        peer.dial = Dial::At(turn.now.node.plus_ms(wait));
    }

    /// The network is back: whoever was lost with it may be back too.
    pub(super) fn hasten_unreachable(&mut self, turn: &mut Turn<'_>) {
        self.peers.settle();
        for node in self.peers.lost().map(|(node, _)| *node).collect::<Vec<_>>() {
            self.dial_soon(turn, node, Haste::Spread);
        }
    }

    pub(super) fn dial_when_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        if self.next_seek <= now {
            self.next_seek = now.plus_ms(SEEK_EVERY_MS);
            self.seek(turn);
        }
        self.peers.settle();
        for node in self.peers.due(now) {
            let wanted = self.wants_link(now, &node);
            let Some(peer) = self.peers.get_mut(&node) else { continue };
            if !matches!(peer.dial, Dial::At(at) if at <= now) {
                continue;
            }
            if !wanted {
                peer.dial = Dial::Idle;
                continue;
            }
            peer.dial = Dial::UnderWay;
            let addresses = self.addresses(&node);
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.address_tried = addresses.first().copied();
            }
            turn.put(Output::Dial { peer: node, addresses });
        }
    }

    /// Where a member says it is.
    fn addresses(&self, node: &NodeId) -> Vec<SocketAddr> {
        let record = self.directory.get(node).map(|entry| entry.record());
        record.map(|record| record.advertisement.addresses.clone()).unwrap_or_default()
    }

    /// Dials one lost peer whatever its back-off. A split leaves many such pairs, and the first that meets hastens all.
    fn seek(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        self.peers.settle();
        let lost = self.peers.lost_count();
        let split = lost >= 2 && lost.saturating_mul(SPLIT_ONE_OF) >= self.kept_links();
        let sought = self.peers.lost().filter(|(_, peer)| {
            let recent = now.since(NodeTime(peer.since.node_ms)) < SEEK_FOR_MS;
            (recent || split) && matches!(peer.dial, Dial::At(_))
        });
        if let Some(node) = sought.map(|(node, _)| *node).choose(turn.rng)
            && let Some(peer) = self.peers.get_mut(&node)
        {
            peer.dial = Dial::At(now);
        }
    }

    /// How many members this node means to be linked with.
    fn kept_links(&self) -> u64 {
        self.peers.neighbours().fold(0, |count, _| count + 1)
    }
}
