//! Judging: contact, suspicion, verdict, and when this node may not judge at all.

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, PeerState};

use super::dialling::Haste;
use super::peer::{Dial, Peer, Rounds};
use super::suspicion::Suspicion;
use super::timing::{CAREFUL_MS, GAP_MS, ISOLATED_AFTER_MS, TAKEN_WITHIN_MS};
use super::{Membership, Output, Turn};
use crate::time::NodeTime;

impl Membership {
    pub(super) fn handle_link_up(&mut self, turn: &mut Turn<'_>, node: NodeId, boot: BootId) {
        if node == self.identity.node {
            return;
        }
        if self.revoked.contains(&node) {
            turn.put(Output::Close { peer: node, cause: "its membership was revoked".to_owned() });
            return;
        }
        let moment = turn.moment();
        let peer = self.peers.entry(node, moment);
        if !std::mem::replace(&mut peer.linked, true) {
            peer.linked_at = turn.now.node;
        }
        peer.used = turn.now.node;
        peer.dial = Dial::Idle;
        peer.backoff.reset();
        peer.last_failure = None;
        peer.flight = None;
        peer.exchange = Rounds::default();
        peer.note_boot(boot, turn.now.node);
        self.note_evidence(turn);
        self.note_contact(turn, node, "it is linked");
        self.want_sync(turn, node);
    }

    pub(super) fn handle_link_down(&mut self, turn: &mut Turn<'_>, node: NodeId, cause: String) {
        let moment = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.note_error(&cause, moment);
        if !peer.linked {
            return;
        }
        let lived = turn.now.node.since(peer.linked_at);
        peer.unlink();
        if self.peers.is_neighbour(&node) {
            self.suspect(turn, node, &cause);
        } else {
            self.stop_watching(turn, node, &format!("its link ended: {cause}"));
        }
        self.dial_soon(turn, node, if lived < TAKEN_WITHIN_MS { Haste::Later } else { Haste::Now });
    }

    pub(super) fn handle_revoked(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        self.revoked.insert(node);
        let moment = turn.moment();
        let peer = self.peers.entry(node, moment);
        if peer.linked {
            turn.put(Output::Close { peer: node, cause: "its membership was revoked".to_owned() });
        }
        peer.retire();
        if peer.enter(PeerState::Revoked, "the mesh's root revoked it", moment) {
            turn.put(Output::Changed { peer: node });
        }
    }

    /// The one way to become alive: the peer itself was there just now.
    pub(super) fn note_contact(&mut self, turn: &mut Turn<'_>, node: NodeId, cause: &str) {
        let moment = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.last_success = Some(moment);
        if !peer.is_member() {
            return;
        }
        peer.suspicion = None;
        let healed = peer.state == PeerState::Unreachable;
        let told_silent = std::mem::take(&mut peer.told_silent);
        if std::mem::take(&mut peer.answers_others_only) && peer.state == PeerState::Alive {
            peer.cause = cause.to_owned().into();
            turn.put(Output::Changed { peer: node });
        }
        let (state, cause) = if peer.is_duplicate(turn.now.node) {
            (PeerState::Duplicate, "two processes take turns with its identity")
        } else {
            (PeerState::Alive, cause)
        };
        if peer.enter(state, cause.to_owned(), moment) {
            turn.put(Output::Changed { peer: node });
        }
        if told_silent {
            self.announce(turn, node, true);
        }
        if healed {
            self.hasten_unreachable(turn);
        }
    }

    /// Begins a suspicion. The caller has evidence of its own.
    pub(super) fn suspect(&mut self, turn: &mut Turn<'_>, node: NodeId, cause: &str) {
        let moment = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let can_fall = matches!(peer.state, PeerState::Known | PeerState::Alive | PeerState::Duplicate);
        if can_fall && peer.enter(PeerState::Suspect, cause.to_owned(), moment) {
            peer.suspicion = Some(Suspicion::new(turn.now.node));
            turn.put(Output::Changed { peer: node });
        }
    }

    pub(super) fn judge_when_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        self.tell_firm_suspicions(turn);
        let members = self.members();
        self.peers.settle();
        let over = |node: &NodeId| {
            let suspicion = self.peers.get(node).and_then(|peer| peer.suspicion.as_ref());
            suspicion.is_some_and(|suspicion| suspicion.ends(members) <= now)
        };
        let ended: Vec<NodeId> = self.peers.due(now).into_iter().filter(over).collect();
        let may_judge = self.isolated.is_none() && self.careful_until <= now;
        for node in ended {
            if may_judge {
                self.give_up(turn, node, None);
            } else if let Some(peer) = self.peers.get_mut(&node) {
                peer.suspicion = Some(Suspicion::new(now));
            }
        }
    }

    /// What lasted a while, or is not this node's alone, is told to the mesh once.
    fn tell_firm_suspicions(&mut self, turn: &Turn<'_>) {
        let now = turn.now.node;
        self.peers.settle();
        for node in self.peers.due(now) {
            let Some(peer) = self.peers.get_mut(&node) else { continue };
            let Some(suspicion) = &mut peer.suspicion else { continue };
            if suspicion.told || !suspicion.is_firm(now) {
                continue;
            }
            suspicion.told = true;
            self.tell_silent(turn, node);
        }
    }

    fn tell_silent(&mut self, turn: &Turn<'_>, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if !std::mem::replace(&mut peer.told_silent, true) {
            self.announce(turn, node, false);
        }
    }

    /// The verdict. A link that is still there carries nothing: it is closed, and the peer dialled anew.
    pub(super) fn give_up(&mut self, turn: &mut Turn<'_>, node: NodeId, cause: Option<(PeerState, &str)>) {
        let moment = turn.moment();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let suspected = peer.cause.clone();
        let cause = cause.map(|(state, cause)| (state, cause.to_owned().into()));
        let (state, cause) = cause.unwrap_or((PeerState::Unreachable, suspected));
        peer.suspicion = None;
        if peer.enter(state, cause, moment) {
            turn.put(Output::Changed { peer: node });
        }
        if peer.linked {
            peer.unlink();
            turn.put(Output::Close { peer: node, cause: "it does not answer".to_owned() });
            self.dial_soon(turn, node, Haste::Now);
        }
        if state == PeerState::Unreachable {
            self.tell_silent(turn, node);
        }
    }

    /// Somebody is there, so this node is not cut off. Suspicions of the time when it was begin anew.
    pub(super) fn note_evidence(&mut self, turn: &mut Turn<'_>) {
        self.last_evidence = turn.now.node;
        if self.isolated.take().is_some() {
            turn.put(Output::SelfChanged);
            self.suspect_anew(turn.now.node);
            self.hasten_unreachable(turn);
        }
    }

    /// Somebody suspected and not a sign from any of several peers: the fault is more likely here than with all of them.
    pub(super) fn notice_isolation(&mut self, turn: &mut Turn<'_>) {
        self.peers.settle();
        if self.isolated.is_some() || turn.now.node.since(self.last_evidence) <= ISOLATED_AFTER_MS {
            return;
        }
        let suspects = self.peers.suspects().take(2).count();
        let others = self.peers.linked().filter(|(_, peer)| peer.suspicion.is_none()).take(1).count();
        if suspects >= 1 && suspects.saturating_add(others) >= 2 {
            self.isolated = Some(turn.moment());
            turn.put(Output::SelfChanged);
        }
    }

    /// Notices that this machine slept: what was due long ago did not fail, it was not waited for.
    pub(super) fn notice_gap(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        if now.since(self.next_wake()) < GAP_MS {
            return;
        }
        self.careful_until = now.plus_ms(CAREFUL_MS);
        self.last_evidence = now;
        self.suspect_anew(now);
        let linked: Vec<NodeId> = self.peers.linked().map(|(node, _)| *node).collect();
        for node in linked {
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.flight = None;
            }
            self.send_ping(turn, node);
        }
        self.hasten_unreachable(turn);
    }

    fn suspect_anew(&mut self, now: NodeTime) {
        self.peers.settle();
        let suspects: Vec<NodeId> = self.peers.suspects().map(|(node, _)| *node).collect();
        for node in suspects {
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.suspicion = Some(Suspicion::new(now));
            }
        }
    }

    /// Members, this node included.
    pub(super) fn members(&self) -> u64 {
        self.peers.members()
    }
}

impl Peer {
    pub(super) fn unlink(&mut self) {
        self.linked = false;
        self.flight = None;
        self.exchange = Rounds::default();
    }

    /// Stops everything about a peer that is gone for good.
    pub(super) fn retire(&mut self) {
        self.suspicion = None;
        self.flight = None;
        self.dial = Dial::Idle;
    }
}
