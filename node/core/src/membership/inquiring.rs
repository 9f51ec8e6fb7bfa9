//! Indirect probes: others are asked to look at a peer that gives no answer, and this node looks when it is asked.
//!
//! ```text
//!   this node            three linked peers           the silent one
//!     Inquire  ------------------>  Ping  --------------------->
//!              <--- Report: answers  <------------------ Ack
//!              <--- Report: silent   (no Ack in time)
//! ```
//! A helper always reports, also when it has nothing to say. So one that does not report tells something as well: that
//! it may be this node that does not hear (Lifeguard). An inquiry that lacks a report raises this node's health score,
//! by which it gives everybody more time; each direct answer lowers it.
//!
//! What a helper says keeps a linked peer alive and is shown with the peer. It makes no peer alive that is not linked:
//! this node still has no way to it.

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::PeerState;
use mesh_protocol::probe::{Probe, Word};
use rand::seq::IteratorRandom as _;

use super::timing::{ERRAND_MS, INQUIRE_AGAIN_MS, PROBE_EVERY_MS, PROBE_TIMEOUT_MS};
use super::{Membership, Output, Turn};
use crate::time::NodeTime;

/// Peers asked about one that gives no answer: SWIM's usual number.
const HELPERS: usize = 3;
/// Errands run for others at once. More are answered at once, with nothing.
const ERRANDS_MAX: usize = 64;
/// Inquiries of one's own at once. More are not made: then the fault is here.
const INQUIRIES_MAX: usize = 64;
/// The worst health score: time stretched nine times.
const HEALTH_MAX: u64 = 8;

/// What was asked of helpers.
#[derive(Debug)]
pub(super) struct Inquiry {
    node: NodeId,
    open: Vec<NodeId>,
    ends: NodeTime,
}

/// What a peer asked of this node.
#[derive(Debug)]
pub(super) struct Errand {
    asker: NodeId,
    seq: u64,
    node: NodeId,
    ends: NodeTime,
}

impl Membership {
    /// How long one attempt of a probe waits for its answer.
    pub(super) const fn probe_timeout_ms(&self) -> u64 {
        PROBE_TIMEOUT_MS.saturating_mul(self.health.saturating_add(1))
    }

    /// How long between two probes.
    pub(super) const fn probe_every_ms(&self) -> u64 {
        PROBE_EVERY_MS.saturating_mul(self.health.saturating_add(1))
    }

    pub(super) fn worsen_health(&mut self) {
        self.health = self.health.saturating_add(1).min(HEALTH_MAX);
    }

    pub(super) const fn better_health(&mut self) {
        self.health = self.health.saturating_sub(1);
    }

    /// When something about inquiries or errands is due.
    pub(super) fn inquiries_due(&self) -> Option<NodeTime> {
        let inquiries = self.inquiries.values().map(|inquiry| inquiry.ends);
        inquiries.chain(self.errands.iter().map(|errand| errand.ends)).min()
    }

    /// Asks a few linked peers to look at this one.
    pub(super) fn inquire(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        self.peers.settle();
        let now = turn.now.node;
        let able =
            self.peers.linked().filter(|(peer, held)| **peer != node && held.state == PeerState::Alive);
        let helpers = able.map(|(peer, _)| *peer).sample(turn.rng, HELPERS);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let again = peer.inquired.is_some_and(|at| now.since(at) < INQUIRE_AGAIN_MS);
        if again || helpers.is_empty() || self.inquiries.len() >= INQUIRIES_MAX {
            return;
        }
        peer.inquired = Some(now);
        let seq = self.take_seq();
        let bytes = Probe::Inquire { seq, node }.encode();
        for to in &helpers {
            turn.put(Output::Send { to: *to, bytes: bytes.clone() });
        }
        let ends = now.plus_ms(self.probe_timeout_ms());
        self.inquiries.insert(seq, Inquiry { node, open: helpers, ends });
    }

    /// A peer asks this node to look at another one.
    pub(super) fn take_errand(&mut self, turn: &mut Turn<'_>, asker: NodeId, seq: u64, node: NodeId) {
        let held = self.peers.get(&node);
        let linked = held.is_some_and(|peer| peer.linked);
        if linked && self.errands.len() < ERRANDS_MAX {
            let ends = turn.now.node.plus_ms(ERRAND_MS);
            self.errands.push(Errand { asker, seq, node, ends });
            self.send_ping(turn, node);
            return;
        }
        let lost = held.is_some_and(|peer| matches!(peer.state, PeerState::Suspect | PeerState::Unreachable));
        report(turn, asker, seq, if lost { Word::Silent } else { Word::Unasked });
    }

    /// The peer answered: so do we, whoever asked for it.
    pub(super) fn end_errands(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        for errand in self.errands.extract_if(.., |errand| errand.node == node) {
            report(turn, errand.asker, errand.seq, Word::Answers);
        }
    }

    pub(super) fn take_report(&mut self, turn: &mut Turn<'_>, helper: NodeId, seq: u64, word: Word) {
        let Some(inquiry) = self.inquiries.get_mut(&seq) else { return };
        let Some(place) = inquiry.open.iter().position(|open| *open == helper) else { return };
        inquiry.open.swap_remove(place);
        let (node, over) = (inquiry.node, inquiry.open.is_empty());
        if over {
            self.inquiries.remove(&seq);
        }
        match word {
            Word::Unasked => {}
            // One ping without an answer is no suspicion: it is shown, and confirms none.
            Word::Silent => _ = self.note_sighting(turn, node, helper, false, None),
            Word::Answers => {
                self.note_sighting(turn, node, helper, true, None);
                self.answered_another(turn, node, helper);
            }
        }
    }

    /// The peer answers somebody else. If it is linked it is alive, and only the direct way is in doubt.
    fn answered_another(&mut self, turn: &mut Turn<'_>, node: NodeId, helper: NodeId) {
        let Some(peer) = self.peers.get_mut(&node).filter(|peer| peer.linked && peer.is_member()) else {
            return;
        };
        peer.answered_another = Some((helper, turn.now.node));
        if peer.state == PeerState::Suspect {
            peer.suspicion = None;
            peer.flight = None;
            self.doubt_the_way(turn, node);
        }
    }

    /// The peer is there, and does not answer us: said once, until it answers.
    pub(super) fn doubt_the_way(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        let moment = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some((helper, _)) = peer.answered_another else { return };
        let cause = format!("it does not answer this node, and answers {}", helper.short());
        let entered = peer.enter(PeerState::Alive, cause.clone(), moment);
        if !std::mem::replace(&mut peer.answers_others_only, true) || entered {
            peer.cause = cause.into();
            turn.put(Output::Changed { peer: node });
        }
    }

    pub(super) fn inquiries_when_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        for errand in self.errands.extract_if(.., |errand| errand.ends <= now) {
            report(turn, errand.asker, errand.seq, Word::Silent);
        }
        let before = self.inquiries.len();
        self.inquiries.retain(|_, inquiry| inquiry.ends > now);
        for _ in self.inquiries.len()..before {
            self.worsen_health();
        }
    }
}

fn report(turn: &mut Turn<'_>, to: NodeId, seq: u64, word: Word) {
    turn.put(Output::Send { to, bytes: Probe::Report { seq, word }.encode() });
}
