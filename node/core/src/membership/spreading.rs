//! Spreading: when directories are compared, and what a record that arrives changes.
//!
//! Records travel only by exchanges. A probe says that its sender's own record changed; what was learnt in an exchange
//! is not announced again, but makes this node compare with a few others in the next seconds, so news crosses the mesh
//! in a few such steps.

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{DroppedCounts, PeerState};
use mesh_protocol::record::{Lifecycle, RecordError, SignedRecord, Unchecked, VerifiedRecord};
use mesh_protocol::sync::Liveness;
use rand::RngExt as _;
use rand::seq::IteratorRandom as _;

use super::dialling::Haste;
use super::timing::{PROBE_EVERY_MS, RETENTION_MS, SEEK_EVERY_MS, SYNC_AGAIN_MS, SYNC_EVERY_MS};
use super::{Membership, Output, Turn};
use crate::directory::Taken;
use crate::directory::exchange::{Checked, Exchange, ExchangeError, Heard, Step};
use crate::time::NodeTime;

/// Comparisons with others after news, beside log2 of the members: so many that hardly a node of thousands is left to
/// the next periodic one. Those that find nothing cost some twenty bytes.
const SPREAD_ROUNDS: u32 = 3;
/// Exchanges this node begins beside each other.
const SYNCS_AT_ONCE: usize = 3;

impl Membership {
    /// The end of an exchange that opens the stream, and its first frame body.
    #[must_use]
    pub fn begin_sync(&self) -> (Exchange, Vec<u8>) {
        Exchange::initiate(&self.directory)
    }

    /// Takes one frame body of an exchange. Changes nothing here: feed [`Step::heard`] as [`super::Input::Heard`].
    ///
    /// # Errors
    /// [`ExchangeError`]: close the stream.
    pub fn continue_sync(&self, exchange: &mut Exchange, body: &[u8]) -> Result<Step, ExchangeError> {
        let liveness =
            |node: &NodeId| self.peers.get(node).map_or(Liveness::Unsaid, |peer| peer.state.into());
        exchange.handle(&self.directory, liveness, body)
    }

    /// Spreads the first probe, exchange and search over their periods, so that nodes started together do not act
    /// together.
    pub(super) fn start_clocks(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        let mut within = |period| now.plus_ms(turn.rng.random_range(1..=period));
        self.next_probe = within(PROBE_EVERY_MS);
        self.next_sync = within(SYNC_EVERY_MS);
        self.next_seek = within(SEEK_EVERY_MS);
        self.last_evidence = now;
    }

    pub(super) fn take_stored(&mut self, turn: &mut Turn<'_>, stored: Vec<SignedRecord>) {
        let ours = self.identity.node;
        let mut changed = false;
        let heard = Heard { records: stored, silent: Vec::new() };
        for verified in heard.check(&self.identity.root, |_, _| Unchecked::Both).records {
            changed |= self.take_record(turn, ours, verified);
        }
        tracing::debug!(members = self.members(), changed, "membership started");
    }

    pub(super) fn handle_heard(&mut self, turn: &mut Turn<'_>, from: NodeId, heard: Checked) {
        let mut changed = false;
        for error in heard.refused {
            tracing::debug!(from = %from.short(), %error, "record refused");
            self.count_refused(from, &error);
        }
        for verified in heard.records {
            changed |= self.take_record(turn, from, verified);
        }
        for node in heard.silent {
            self.note_sighting(turn, node, from, false, None);
            self.look_at(turn, node, from, None);
        }
        if changed {
            let soon = turn.now.node.plus_ms(SYNC_AGAIN_MS);
            self.follow_up = Some(self.follow_up.map_or(soon, |planned| planned.min(soon)));
            self.rounds_left = SPREAD_ROUNDS.saturating_add(self.members().ilog2());
        }
    }

    pub(super) fn handle_sync_ended(&mut self, turn: &Turn<'_>, node: NodeId, error: Option<String>) {
        self.syncs.remove(&node);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.exchange.end();
        if let Some(error) = error {
            peer.note_error(&error, turn.moment());
        }
    }

    /// Compares with this peer now, or as soon as it may. A node that finds many links at once has nothing to gain by
    /// asking all of them the same: after a few, the others have nothing new.
    pub(super) fn want_sync(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node).filter(|peer| peer.linked) else { return };
        if self.syncs.len() >= SYNCS_AT_ONCE && !self.syncs.contains(&node) {
            peer.exchange.wait_in_line();
            if !self.syncs_waiting.contains(&node) {
                self.syncs_waiting.push_back(node);
            }
        } else if peer.exchange.begin(turn.now.node) {
            self.syncs.insert(node);
            turn.put(Output::Sync { peer: node });
        }
    }

    /// When the next exchange that waits for its turn may begin, unless another one ends before.
    pub(super) fn syncs_due(&self) -> Option<NodeTime> {
        self.syncs_waiting.front()?;
        let ends =
            |node: &NodeId| self.peers.get(node).map_or(NodeTime(0), |peer| peer.exchange.given_up_at());
        Some(self.syncs.iter().map(ends).min().unwrap_or(NodeTime(0)))
    }

    fn begin_waiting_syncs(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        let peers = &self.peers;
        self.syncs.retain(|node| peers.get(node).is_some_and(|peer| peer.exchange.given_up_at() > now));
        while self.syncs.len() < SYNCS_AT_ONCE
            && let Some(node) = self.syncs_waiting.pop_front()
        {
            self.want_sync(turn, node);
        }
    }

    pub(super) fn sync_when_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        self.begin_waiting_syncs(turn);
        self.peers.settle();
        for node in self.peers.due(now) {
            let exchange = self.peers.get(&node).and_then(|peer| peer.exchange.due());
            if exchange.is_some_and(|due| due <= now) {
                self.want_sync(turn, node);
            }
        }
        let followed = self.follow_up.take_if(|at| *at <= now).is_some();
        if followed {
            self.rounds_left = self.rounds_left.saturating_sub(1);
            self.follow_up = (self.rounds_left > 0).then(|| now.plus_ms(SYNC_AGAIN_MS));
        }
        let periodic = self.next_sync <= now;
        if periodic {
            let quarter = SYNC_EVERY_MS / 4;
            let wait = turn.rng.random_range(SYNC_EVERY_MS - quarter..=SYNC_EVERY_MS + quarter);
            self.next_sync = now.plus_ms(wait);
            self.forget_the_gone(turn);
        }
        if followed || periodic {
            self.sync_with_any(turn);
        }
    }

    /// Compares with a random live peer, one that is not at it already if possible.
    fn sync_with_any(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        self.peers.settle();
        let live = self.peers.linked().filter(|(_, peer)| peer.state == PeerState::Alive);
        let free = live.clone().filter(|(_, peer)| peer.exchange.may_begin(now)).choose(turn.rng);
        if let Some(node) = free.or_else(|| live.choose(turn.rng)).map(|(node, _)| *node) {
            self.want_sync(turn, node);
        }
    }

    /// Whether the record was news.
    fn take_record(&mut self, turn: &mut Turn<'_>, from: NodeId, verified: VerifiedRecord) -> bool {
        let found = verified.record().mesh;
        if found != self.identity.root.mesh() {
            self.count_refused(from, &RecordError::OtherMesh { found });
            return false;
        }
        let node = verified.record().node;
        if node == self.identity.node {
            self.hear_own(turn, &verified);
            return false;
        }
        if self.revoked.contains(&node) {
            return false;
        }
        match self.directory.take(verified.clone()) {
            Taken::New | Taken::Newer => {
                turn.put(Output::Store(verified));
                self.apply_record(turn, node);
                true
            }
            Taken::Stale => false,
            Taken::NoRoom => {
                self.count_dropped(from, |dropped| &mut dropped.no_room);
                false
            }
        }
    }

    /// What the newest record of a peer means for it.
    fn apply_record(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        let moment = turn.moment();
        let Some(lifecycle) = self.directory.get(&node).map(|entry| entry.record().lifecycle) else { return };
        let peer = self.peers.entry(node, moment);
        let mut entered = false;
        if lifecycle == Lifecycle::Left {
            peer.retire();
            entered = peer.enter(PeerState::Left, "it said that it left", moment);
        } else if peer.state == PeerState::Left {
            let state = if peer.linked { PeerState::Alive } else { PeerState::Known };
            entered = peer.enter(state, "it came back", moment);
        }
        if let Some(suspicion) = &mut peer.suspicion {
            suspicion.refute(turn.now.node);
        }
        if entered {
            turn.put(Output::Changed { peer: node });
        }
        self.dial_soon(turn, node, Haste::Now);
    }

    fn count_refused(&mut self, from: NodeId, error: &RecordError) {
        self.count_dropped(from, |dropped| match error {
            RecordError::Oversize { .. } => &mut dropped.oversize,
            RecordError::Malformed(_) | RecordError::Invalid { .. } => &mut dropped.malformed,
            RecordError::OtherMesh { .. } => &mut dropped.other_mesh,
            RecordError::ForeignSignature { .. } => &mut dropped.foreign_signature,
            RecordError::NotAMember { .. } => &mut dropped.not_a_member,
        });
    }

    fn count_dropped(&mut self, from: NodeId, of: impl FnOnce(&mut DroppedCounts) -> &mut u64) {
        if let Some(peer) = self.peers.get_mut(&from) {
            let count = of(&mut peer.dropped);
            *count = count.saturating_add(1);
        }
    }

    fn forget_the_gone(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.node;
        let gone = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.is_member() && now.since(NodeTime(peer.since.node_ms)) >= RETENTION_MS);
        for node in gone.map(|(node, _)| *node).collect::<Vec<_>>() {
            self.peers.remove(&node);
            self.directory.forget(&node);
            turn.put(Output::Forget { node });
        }
    }
}
