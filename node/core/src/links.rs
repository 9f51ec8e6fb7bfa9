//! Links: which of the connections between two nodes is the one they use.
//!
//! Two nodes may dial each other at the same moment, and a restarted node dials while its old connection still seems to
//! live. Both ends apply one rule to what they see and so agree without a word:
//!
//! - a connection to an earlier process of the peer is dead: close it;
//! - among the others, a direct one beats one that a third member relays;
//! - among those of one way, one dialled by the smaller node id beats one dialled by the larger, and among those of one
//!   dialler the newest dial number wins;
//! - **only the end that dialled a losing connection retires it**, once its streams ended or after
//!   [`RETIRE_WITHIN_MS`]. The other end merely opens no more streams on it, so nobody closes what the other has just
//!   chosen.
//!
//! ```text
//!                  Wanted / StartDial                Established / Up, Ready
//!     idle ------------------------------> dialling -------------------------> linked --.
//!      ^  ^                                  |                                  |  ^    | Established of another:
//!      |  '-- DialFailed / Failed, Unreached-'                                  |  '----' Up when it wins,
//!      '------------------ Ended (the last one) / Down -------------------------'         Retire when ours lost
//! ```
//! One dial per peer at a time; everybody who wants the peer waits on it. A dial is for any way there is: the driver adds
//! a detour through another member to it ([`Routes`]), unless the peer is linked already and only a direct link would be
//! better ([`Upgrades`] says when). When to dial again is not decided here: membership does, with [`Backoff`].
//!
//! Driver's contract: every `StartDial` is answered by exactly one `Established` with that key or one `DialFailed`
//! (after `AbandonDial` too); every `Established` that was not refused is followed by one `Ended`. A connection is
//! established once Hello and HelloAck have crossed; the acceptor learns the dial number from Hello. Give `Up`, `Down`
//! and `Unreached` to membership as `LinkUp`, `LinkDown` and `DialFailed`, and its `Dial` and `Close` here as `Wanted` and
//! `Drop`. A connection counts as gone once it was dropped; the `Ended` that follows changes nothing more.

mod backoff;
mod event;
mod plan;
mod route;
mod upgrade;

pub use backoff::{BACKOFF_CAP_MS, BACKOFF_FIRST_MS, BACKOFF_STANDING_MS, Backoff, FailureKind};
pub use event::{ConnectionKey, DialFailure, Input, Output, Path, Waiter};
pub use plan::{ATTEMPT_SPACING_MS, ATTEMPTS_MAX, Attempt, DETOUR_AFTER_MS, plan};
pub use route::{ASKED_MAX, Offer, RELAYS_TRIED_MAX, Routes};
pub use upgrade::Upgrades;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;

/// How long the streams of a losing connection may take to end, milliseconds.
pub const RETIRE_WITHIN_MS: u64 = 5_000;
/// Connections one peer may have here at once: two by simultaneous dials, as many retiring. More are refused.
pub const CONNECTIONS_PER_PEER_MAX: usize = 4;
/// Callers that may wait for one peer at once. More fail at once.
pub const WAITERS_PER_PEER_MAX: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Connection {
    boot: BootId,
    retiring: bool,
}

#[derive(Debug, Default)]
struct Pair {
    connections: BTreeMap<ConnectionKey, Connection>,
    used: Option<ConnectionKey>,
    dial: Option<u64>,
    waiters: BTreeSet<Waiter>,
    last_good: Option<SocketAddr>,
    failures: usize,
}

/// The connections of one node to all its peers.
#[derive(Debug)]
pub struct Links {
    me: NodeId,
    next_number: u64,
    pairs: BTreeMap<NodeId, Pair>,
}

impl Links {
    /// No connections yet. `epoch` is this start's committed epoch: it makes dial numbers grow over restarts.
    #[must_use]
    pub const fn new(me: NodeId, epoch: u64) -> Self {
        Self { me, next_number: epoch.saturating_mul(1 << 32), pairs: BTreeMap::new() }
    }

    /// The connection to open streams on.
    #[must_use]
    pub fn current(&self, peer: &NodeId) -> Option<ConnectionKey> {
        self.pairs.get(peer).and_then(|pair| pair.used)
    }

    /// Takes one event and says what follows from it.
    pub fn handle(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Wanted { peer, waiter, addresses } => self.handle_wanted(peer, waiter, &addresses),
            Input::Improve { peer, addresses } => self.handle_improve(peer, &addresses),
            Input::GaveUp { peer, waiter } => {
                if let Some(pair) = self.pairs.get_mut(&peer) {
                    pair.waiters.remove(&waiter);
                }
                Vec::new()
            }
            Input::Established { peer, key, boot, address } => {
                self.handle_established(peer, key, boot, address)
            }
            Input::DialFailed { peer, number, failure } => self.handle_dial_failed(peer, number, &failure),
            Input::Drop { peer, cause } => self.handle_drop(peer, cause),
            Input::Ended { peer, key, cause } => self.handle_ended(peer, key, cause),
        }
    }

    fn handle_wanted(
        &mut self,
        peer: NodeId,
        waiter: Option<Waiter>,
        addresses: &[SocketAddr],
    ) -> Vec<Output> {
        let pair = self.pairs.entry(peer).or_default();
        if let Some((key, boot)) = pair.used.and_then(|key| Some((key, pair.connections.get(&key)?.boot))) {
            return vec![match waiter {
                Some(waiter) => Output::Ready { waiter, key },
                None => Output::Up { peer, key, boot },
            }];
        }
        if let Some(waiter) = waiter {
            if peer == self.me || pair.waiters.len() >= WAITERS_PER_PEER_MAX {
                let text = if peer == self.me { "it is this node" } else { "too many callers wait for it" };
                let failure =
                    DialFailure { kind: FailureKind::Passing, text: text.to_owned(), address: None };
                return vec![Output::Failed { waiter, failure }];
            }
            pair.waiters.insert(waiter);
        }
        if pair.dial.is_some() || peer == self.me {
            return Vec::new();
        }
        self.start_dial(peer, addresses)
    }

    fn handle_improve(&mut self, peer: NodeId, addresses: &[SocketAddr]) -> Vec<Output> {
        let Some(pair) = self.pairs.get(&peer) else { return Vec::new() };
        if addresses.is_empty() || pair.dial.is_some() || !pair.used.is_some_and(|key| key.relayed) {
            return Vec::new();
        }
        self.start_dial(peer, addresses)
    }

    fn start_dial(&mut self, peer: NodeId, addresses: &[SocketAddr]) -> Vec<Output> {
        self.next_number = self.next_number.saturating_add(1);
        let number = self.next_number;
        let pair = self.pairs.entry(peer).or_default();
        pair.dial = Some(number);
        vec![Output::StartDial { peer, number, plan: plan(addresses, pair.last_good, pair.failures) }]
    }

    fn handle_established(
        &mut self,
        peer: NodeId,
        key: ConnectionKey,
        boot: BootId,
        address: Option<SocketAddr>,
    ) -> Vec<Output> {
        let pair = self.pairs.entry(peer).or_default();
        let ours = key.dialler == self.me;
        if ours && pair.dial == Some(key.number) {
            pair.dial = None;
        }
        // Also of one that is dead now: for whoever holds connections by their names there is one of each at a time.
        let taken = pair.connections.contains_key(&key);
        let (dead, live): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut pair.connections).into_iter().partition(|(_, held)| held.boot != boot);
        pair.connections = live;
        let mut outputs: Vec<Output> = dead.into_keys().map(|key| Output::Close { peer, key }).collect();
        let impossible = peer == self.me || !(ours || key.dialler == peer);
        let crowded = pair.connections.len() >= CONNECTIONS_PER_PEER_MAX;
        if impossible || crowded || taken {
            outputs.push(Output::Refuse { peer, key });
        } else {
            if !key.relayed {
                pair.failures = 0;
            }
            pair.last_good = address.or(pair.last_good);
            pair.connections.insert(key, Connection { boot, retiring: false });
        }
        let lost = || "its process was replaced by a new one".to_owned();
        pair.settle(self.me, peer, lost, &mut outputs);
        outputs
    }

    fn handle_dial_failed(&mut self, peer: NodeId, number: u64, failure: &DialFailure) -> Vec<Output> {
        let Some(pair) = self.pairs.get_mut(&peer).filter(|pair| pair.dial == Some(number)) else {
            return Vec::new();
        };
        pair.dial = None;
        // Counted also when a relayed link is in use: the next dial goes on with other addresses.
        pair.failures = pair.failures.saturating_add(1);
        if pair.used.is_some() {
            return Vec::new();
        }
        let waiters = std::mem::take(&mut pair.waiters);
        let told = waiters.into_iter().map(|waiter| Output::Failed { waiter, failure: failure.clone() });
        told.chain([Output::Unreached { peer, failure: failure.clone() }]).collect()
    }

    fn handle_drop(&mut self, peer: NodeId, cause: String) -> Vec<Output> {
        let Some(pair) = self.pairs.get_mut(&peer) else { return Vec::new() };
        let dropped = std::mem::take(&mut pair.connections);
        let mut outputs: Vec<Output> = dropped.into_keys().map(|key| Output::Close { peer, key }).collect();
        pair.settle(self.me, peer, || cause, &mut outputs);
        outputs
    }

    fn handle_ended(&mut self, peer: NodeId, key: ConnectionKey, cause: String) -> Vec<Output> {
        let mut outputs = Vec::new();
        if let Some(pair) = self.pairs.get_mut(&peer)
            && pair.connections.remove(&key).is_some()
        {
            pair.settle(self.me, peer, || cause, &mut outputs);
        }
        outputs
    }
}

impl Pair {
    /// Chooses the connection to use among those that are here, tells who needs to know and retires our losers.
    fn settle(
        &mut self,
        me: NodeId,
        peer: NodeId,
        cause: impl FnOnce() -> String,
        outputs: &mut Vec<Output>,
    ) {
        let eligible = self.connections.iter().filter(|(_, connection)| !connection.retiring);
        let winner = eligible.reduce(|best, next| if next.0.beats(best.0) { next } else { best });
        let Some((key, boot)) = winner.map(|(key, connection)| (*key, connection.boot)) else {
            if self.used.take().is_some() {
                outputs.push(Output::Down { peer, cause: cause() });
            }
            return;
        };
        if self.used != Some(key) {
            self.used = Some(key);
            outputs.push(Output::Up { peer, key, boot });
        }
        let waiters = std::mem::take(&mut self.waiters);
        outputs.extend(waiters.into_iter().map(|waiter| Output::Ready { waiter, key }));
        if let Some(number) = self.dial
            && key.beats(&ConnectionKey::direct(me, number))
        {
            self.dial = None;
            outputs.push(Output::AbandonDial { peer, number });
        }
        for (lost, connection) in &mut self.connections {
            if *lost != key && lost.dialler == me && !connection.retiring {
                connection.retiring = true;
                outputs.push(Output::Retire { peer, key: *lost, within_ms: RETIRE_WITHIN_MS });
            }
        }
    }
}
