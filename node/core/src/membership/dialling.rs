//! Dialling: who should be linked and is not, and when to try again. For ever, at a falling rate.

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::PeerState;
use rand::RngExt as _;
use rand::seq::IteratorRandom as _;

use super::peer::Dial;
use super::timing::{HASTE_SPREAD_MS, SEEK_EVERY_MS, SEEK_FOR_MS};
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
}

impl Membership {
    /// Whether a link to this member is to be kept. In a full mesh, to every one.
    #[must_use]
    pub fn links_wanted(&self, node: &NodeId) -> bool {
        self.peers.get(node).is_some_and(super::peer::Peer::is_member)
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
        match failure.kind {
            FailureKind::Passing => self.suspect(turn, node, &failure.text),
            FailureKind::Refused => self.give_up(turn, node, Some((PeerState::Unreachable, &failure.text))),
            FailureKind::Incompatible => {
                self.give_up(turn, node, Some((PeerState::Incompatible, &failure.text)));
            }
        }
    }

    /// Forgets a peer's back-off, because there is news, and dials it.
    pub(super) fn dial_soon(&mut self, turn: &mut Turn<'_>, node: NodeId, haste: Haste) {
        if !self.links_wanted(&node) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.linked || peer.dial == Dial::UnderWay {
            return;
        }
        let wait = match haste {
            Haste::Now => 0,
            Haste::Spread => turn.rng.random_range(0..=HASTE_SPREAD_MS),
        };
        peer.backoff.reset();
        peer.dial = Dial::At(turn.now.node.plus_ms(wait));
    }

    /// The network is back: whoever was lost with it may be back too.
    pub(super) fn hasten_unreachable(&mut self, turn: &mut Turn<'_>) {
        let lost = self.peers.iter().filter(|(_, peer)| {
            let passing = peer.last_failure.is_none_or(|kind| kind == FailureKind::Passing);
            !peer.linked && passing && matches!(peer.state, PeerState::Unreachable | PeerState::Suspect)
        });
        for node in lost.map(|(node, _)| *node).collect::<Vec<_>>() {
            self.dial_soon(turn, node, Haste::Spread);
        }
    }

    pub(super) fn dial_when_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        if self.next_seek <= now {
            self.next_seek = now.plus_ms(SEEK_EVERY_MS);
            self.seek(turn);
        }
        for (node, peer) in &mut self.peers {
            if !matches!(peer.dial, Dial::At(at) if at <= now) {
                continue;
            }
            let record = self.directory.get(node).map(|entry| &entry.record().advertisement);
            match record.map(|advertisement| advertisement.addresses.clone()) {
                Some(addresses) if !addresses.is_empty() => {
                    peer.dial = Dial::UnderWay;
                    peer.address_tried = addresses.first().copied();
                    turn.put(Output::Dial { peer: *node, addresses });
                }
                None | Some(_) => {
                    peer.dial = Dial::Idle;
                    peer.note_error("it advertises no address: only it can dial", turn.moment());
                }
            }
        }
    }

    /// Dials one peer that was lost not long ago, whatever its back-off. A split leaves many such pairs, and the first
    /// that meets hastens all.
    fn seek(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        let lost = self.peers.values_mut().filter(|peer| {
            let passing = peer.last_failure.is_none_or(|kind| kind == FailureKind::Passing);
            let recent = now.since(NodeTime(peer.since.node_ms)) < SEEK_FOR_MS;
            passing
                && recent
                && matches!(peer.state, PeerState::Unreachable | PeerState::Suspect)
                && matches!(peer.dial, Dial::At(_))
        });
        if let Some(peer) = lost.choose(turn.rng) {
            peer.dial = Dial::At(now);
        }
    }
}
