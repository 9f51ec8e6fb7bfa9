//! Probes: whom to ask next, what an answer and a missing answer mean.

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::PeerState;
use mesh_protocol::probe::{ACCUSATIONS_MAX, Accusation, Probe, Standing};
use mesh_protocol::record::RecordVersion;
use rand::seq::SliceRandom as _;

use super::peer::Flight;
use super::timing::{ANSWERED_ANOTHER_MS, FRESH_MS, PROBE_ATTEMPTS};
use super::{Membership, Output, Turn};
use crate::time::NodeTime;

impl Membership {
    pub(super) fn handle_datagram(&mut self, turn: &mut Turn<'_>, from: NodeId, bytes: &[u8]) {
        let Some(peer) = self.peers.get_mut(&from).filter(|peer| peer.linked) else { return };
        let Ok(probe) = Probe::decode(bytes) else {
            peer.dropped.malformed = peer.dropped.malformed.saturating_add(1);
            return;
        };
        if matches!(probe, Probe::Ping { .. }) {
            peer.used = turn.now.node;
        }
        self.note_evidence(turn);
        match probe {
            Probe::Ping { seq, standing } => {
                let ack = Probe::Ack { seq, standing: self.standing(turn.now.node) };
                turn.put(Output::Send { to: from, bytes: ack.encode() });
                self.add_rumours(turn, from);
                self.hear_standing(turn, from, &standing);
            }
            Probe::Ack { seq, standing } => {
                self.take_answer(turn, from, seq);
                self.hear_standing(turn, from, &standing);
            }
            Probe::Inquire { seq, node } => self.take_errand(turn, from, seq, node),
            Probe::Report { seq, word } => self.take_report(turn, from, seq, word),
            Probe::Hearsay(rumours) => self.hear_rumours(turn, from, rumours),
        }
    }

    /// A late answer proves as much as one in time; only a number never asked proves nothing.
    fn take_answer(&mut self, turn: &mut Turn<'_>, from: NodeId, seq: u64) {
        if seq >= self.next_seq {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&from)
            && let Some(flight) = peer.flight.take_if(|flight| flight.seq == seq)
        {
            peer.rtt_ms = Some(turn.now.node.since(flight.sent));
            if flight.attempt == 1 {
                self.better_health();
            }
        }
        self.note_contact(turn, from, "it answered a probe");
        self.end_errands(turn, from);
    }

    fn hear_standing(&mut self, turn: &mut Turn<'_>, from: NodeId, standing: &Standing) {
        if self.directory.version(&from).is_none_or(|held| held < standing.version) {
            self.want_sync(turn, from);
        }
        for accusation in &standing.accusations {
            if accusation.node == self.identity.node {
                self.refute(turn, accusation.version);
            } else {
                self.look_at(turn, accusation.node, from, Some(accusation.version));
            }
        }
    }

    /// Somebody gets no answer from a member. That is a reason to ask it now, and shortens a suspicion of our own.
    pub(super) fn look_at(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        accuser: NodeId,
        version: Option<RecordVersion>,
    ) {
        let held = self.directory.version(&node);
        let Some(peer) = self.peers.get_mut(&node).filter(|peer| peer.is_member()) else { return };
        let refuted = version.is_some_and(|accused| held.is_some_and(|held| accused < held));
        if refuted {
            return;
        }
        if let Some(suspicion) = &mut peer.suspicion {
            suspicion.confirm(accuser);
        }
        let fresh = peer.last_success.is_some_and(|at| turn.now.node.since(NodeTime(at.node_ms)) < FRESH_MS);
        if peer.linked && peer.flight.is_none() && !fresh {
            self.ask(turn, node, 1, Some(accuser));
        }
    }

    pub(super) fn probe_when_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        self.peers.settle();
        let flight_of = |node: NodeId| Some((node, self.peers.get(&node)?.flight?));
        let in_flight = self.peers.due(now).into_iter().filter_map(flight_of);
        let late: Vec<(NodeId, Flight)> = in_flight.filter(|(_, flight)| flight.ends <= now).collect();
        for (node, flight) in late {
            self.miss_answer(turn, node, flight);
        }
        if self.next_probe <= now {
            self.next_probe = now.plus_ms(self.probe_every_ms());
            if let Some(node) = self.next_in_rota(turn) {
                self.ask(turn, node, 1, None);
            }
        }
    }

    /// The next attempt, beside which others are asked to look; after the last one a suspicion, in which the peer is
    /// asked without pause. Where others get an answer it is the way that is in doubt, and not the peer.
    fn miss_answer(&mut self, turn: &mut Turn<'_>, node: NodeId, missed: Flight) {
        self.inquire(turn, node);
        if missed.attempt >= PROBE_ATTEMPTS {
            let text = "it did not answer its probes";
            let moment = turn.moment();
            let Some(peer) = self.peers.get_mut(&node) else { return };
            peer.note_error(text, moment);
            let recently = |at| turn.now.node.since(at) < ANSWERED_ANOTHER_MS;
            let answers_others = peer.answered_another.is_some_and(|(_, at)| recently(at));
            if answers_others && peer.state == PeerState::Alive {
                peer.flight = None;
                self.doubt_the_way(turn, node);
                return;
            }
            self.suspect(turn, node, text);
            self.confirm(node, missed.accuser);
        }
        self.ask(turn, node, missed.attempt.saturating_add(1), missed.accuser);
    }

    fn confirm(&mut self, node: NodeId, accuser: Option<NodeId>) {
        let suspicion = self.peers.get_mut(&node).and_then(|peer| peer.suspicion.as_mut());
        if let (Some(suspicion), Some(accuser)) = (suspicion, accuser) {
            suspicion.confirm(accuser);
        }
    }

    fn ask(&mut self, turn: &mut Turn<'_>, node: NodeId, attempt: u32, accuser: Option<NodeId>) {
        let seq = self.send_ping(turn, node);
        let (sent, ends) = (turn.now.node, turn.now.node.plus_ms(self.probe_timeout_ms()));
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.flight = Some(Flight { seq, sent, ends, attempt, accuser });
        }
    }

    /// Shows our standing to a peer; its answer counts, a missing one does not.
    pub(super) fn send_ping(&mut self, turn: &mut Turn<'_>, to: NodeId) -> u64 {
        let seq = self.take_seq();
        let ping = Probe::Ping { seq, standing: self.standing(turn.now.node) };
        turn.put(Output::Send { to, bytes: ping.encode() });
        self.add_rumours(turn, to);
        seq
    }

    /// A number no question had before.
    pub(super) const fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq = seq.saturating_add(1);
        seq
    }

    /// Every linked peer whose link is kept, once in random order, then a new order (SWIM's round robin): the time to notice a crash is
    /// bounded.
    fn next_in_rota(&mut self, turn: &mut Turn<'_>) -> Option<NodeId> {
        for refilled in [false, true] {
            while let Some(node) = self.rota.pop() {
                if self.peers.get(&node).is_some_and(|peer| peer.linked && peer.flight.is_none()) {
                    return Some(node);
                }
            }
            if !refilled {
                self.peers.settle();
                let now = turn.now.node;
                let linked = self.peers.linked().map(|(node, _)| *node);
                self.rota = linked.filter(|node| self.wants_link(now, node)).collect();
                self.rota.shuffle(turn.rng);
            }
        }
        None
    }

    fn standing(&self, now: NodeTime) -> Standing {
        let accusations =
            self.peers.suspects().filter(|_| self.isolated.is_none()).filter_map(|(node, peer)| {
                peer.suspicion.as_ref().filter(|suspicion| suspicion.is_firm(now))?;
                Some(Accusation { node: *node, version: self.directory.version(node)? })
            });
        Standing { version: self.own_version(), accusations: accusations.take(ACCUSATIONS_MAX).collect() }
    }
}
