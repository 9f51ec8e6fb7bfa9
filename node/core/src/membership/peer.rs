//! What this node knows about one peer, and when something is due for it.
//!
//! Only data and the small steps on it; which step is taken when is decided in the modules around.

use std::net::SocketAddr;

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, DroppedCounts, Moment, PeerError, PeerState};

use super::suspicion::Suspicion;
use super::timing::{DUPLICATE_MS, SYNC_AGAIN_MS, SYNC_LOST_MS};
use crate::links::{Backoff, FailureKind};
use crate::time::NodeTime;

/// Processes of one identity that are remembered to notice one that comes back.
const BOOTS_REMEMBERED: usize = 4;
/// Bytes kept of a cause or an error: a clause, cut where a peer or a library says more.
const CAUSE_BYTES_MAX: usize = 200;

/// A probe that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) seq: u64,
    pub(super) sent: NodeTime,
    pub(super) attempt: u32,
    /// Whose accusation made us ask.
    pub(super) accuser: Option<NodeId>,
}

/// Where the dialling of a peer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dial {
    /// Nothing planned: it is linked, gone, or has no address.
    Idle,
    /// Next at this time.
    At(NodeTime),
    /// The driver is at it.
    UnderWay,
}

/// The exchanges with a peer that this node begins: one at a time, and a little apart however often there are news.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    began: Option<NodeTime>,
    under_way: bool,
    wanted: bool,
}

/// One peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) state: PeerState,
    pub(super) since: Moment,
    pub(super) cause: String,
    pub(super) linked: bool,
    pub(super) dial: Dial,
    pub(super) backoff: Backoff,
    pub(super) last_failure: Option<FailureKind>,
    pub(super) flight: Option<Flight>,
    pub(super) suspicion: Option<Suspicion>,
    pub(super) exchange: Rounds,
    pub(super) last_success: Option<Moment>,
    pub(super) last_error: Option<PeerError>,
    pub(super) address_tried: Option<SocketAddr>,
    pub(super) rtt_ms: Option<u64>,
    pub(super) dropped: DroppedCounts,
    boots: Vec<BootId>,
    boots_alternated: Option<NodeTime>,
}

impl Peer {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            state: PeerState::Known,
            since: now,
            cause: "its record came".to_owned(),
            linked: false,
            dial: Dial::Idle,
            backoff: Backoff::default(),
            last_failure: None,
            flight: None,
            suspicion: None,
            exchange: Rounds::default(),
            last_success: None,
            last_error: None,
            address_tried: None,
            rtt_ms: None,
            dropped: DroppedCounts::default(),
            boots: Vec::new(),
            boots_alternated: None,
        }
    }

    /// Whether this state is any of this node's business to change by what it observes.
    pub(super) const fn is_member(&self) -> bool {
        !matches!(self.state, PeerState::Left | PeerState::Revoked)
    }

    /// Enters a state; whether it is another one than before.
    pub(super) fn enter(&mut self, state: PeerState, cause: &str, now: Moment) -> bool {
        if self.state == state {
            return false;
        }
        self.state = state;
        self.since = now;
        self.cause = clause(cause);
        true
    }

    pub(super) fn note_error(&mut self, text: &str, at: Moment) {
        self.last_error = Some(PeerError { at, text: clause(text) });
    }

    /// Takes note of the process at the other end, and of an earlier one that came back: then two take turns.
    pub(super) fn note_boot(&mut self, boot: BootId, now: NodeTime) {
        if self.boots.last() == Some(&boot) {
            return;
        }
        if self.boots.contains(&boot) {
            self.boots_alternated = Some(now);
        }
        self.boots.retain(|known| *known != boot);
        self.boots.push(boot);
        if self.boots.len() > BOOTS_REMEMBERED {
            self.boots.remove(0);
        }
    }

    /// Whether two processes took turns with this identity not long ago.
    pub(super) fn is_duplicate(&self, now: NodeTime) -> bool {
        self.boots_alternated.is_some_and(|at| now.since(at) < DUPLICATE_MS)
    }

    /// When the next thing is due for this peer.
    pub(super) fn next_due(&self, members: u64) -> Option<NodeTime> {
        let dial = match self.dial {
            Dial::At(at) => Some(at),
            Dial::Idle | Dial::UnderWay => None,
        };
        let flight = self.flight.map(|flight| flight.ends());
        let verdict = self.suspicion.as_ref().map(|suspicion| suspicion.ends(members));
        dial.into_iter().chain(flight).chain(verdict).chain(self.exchange.due()).min()
    }
}

impl Rounds {
    /// Whether one may begin now; if not, it is remembered that one is wanted.
    pub(super) fn begin(&mut self, now: NodeTime) -> bool {
        self.wanted = !self.may_begin(now);
        if !self.wanted {
            *self = Self { began: Some(now), under_way: true, wanted: false };
        }
        !self.wanted
    }

    pub(super) const fn end(&mut self) {
        self.under_way = false;
    }

    pub(super) fn may_begin(&self, now: NodeTime) -> bool {
        self.free_at() <= now
    }

    /// When one that is wanted may begin.
    pub(super) fn due(&self) -> Option<NodeTime> {
        self.wanted.then(|| self.free_at())
    }

    fn free_at(&self) -> NodeTime {
        let wait = if self.under_way { SYNC_LOST_MS } else { SYNC_AGAIN_MS };
        self.began.map_or(NodeTime(0), |began| began.plus_ms(wait))
    }
}

impl Flight {
    pub(super) const fn ends(&self) -> NodeTime {
        self.sent.plus_ms(super::timing::PROBE_TIMEOUT_MS)
    }
}

fn clause(text: &str) -> String {
    let end = text.floor_char_boundary(CAUSE_BYTES_MAX);
    text.get(..end).unwrap_or_default().to_owned()
}
