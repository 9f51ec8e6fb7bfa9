//! What this node knows about one peer, and when something is due for it.
//!
//! Only data and the small steps on it; which step is taken when is decided in the modules around.

use std::borrow::Cow;
use std::net::SocketAddr;

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, DroppedCounts, Moment, PeerError, PeerState};

use super::hearsay::{Sighting, Stamp};
use super::peers::Indexed;
use super::suspicion::Suspicion;
use super::timing::{DUPLICATE_MS, LINK_IDLE_MS, SYNC_AGAIN_MS, SYNC_LOST_MS};
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
    pub(super) ends: NodeTime,
    pub(super) attempt: u32,
    /// Whose accusation made us ask.
    pub(super) accuser: Option<NodeId>,
}

/// Where the dialling of a peer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dial {
    /// Nothing planned: it is linked, gone, or not wanted.
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
    /// The hash of the pair of it and this node.
    pub(super) weight: u64,
    pub(super) indexed: Indexed,
    pub(super) state: PeerState,
    pub(super) since: Moment,
    pub(super) cause: Cow<'static, str>,
    pub(super) linked: bool,
    /// Since when, if it is.
    pub(super) linked_at: NodeTime,
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
    /// When it last probed this node, or this node last needed its link.
    pub(super) used: NodeTime,
    /// Until when this node needs a link to it, though it is no neighbour.
    pub(super) needed_until: NodeTime,
    /// When others were last asked about it.
    pub(super) inquired: Option<NodeTime>,
    /// Which helper last said that it answers, and when.
    pub(super) answered_another: Option<(NodeId, NodeTime)>,
    /// Whether it is alive by what helpers say only.
    pub(super) answers_others_only: bool,
    /// What others said about it.
    pub(super) sightings: Vec<Sighting>,
    /// Whether the mesh was told that it does not answer.
    pub(super) told_silent: bool,
    /// Its last rumour about this node.
    pub(super) doubted_us: Option<Stamp>,
    boots: Vec<BootId>,
    boots_alternated: Option<NodeTime>,
}

impl Peer {
    pub(super) fn new(now: Moment, weight: u64) -> Self {
        Self {
            weight,
            indexed: Indexed::default(),
            state: PeerState::Known,
            since: now,
            cause: Cow::Borrowed("its record came"),
            linked: false,
            linked_at: NodeTime(0),
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
            used: NodeTime(0),
            needed_until: NodeTime(0),
            inquired: None,
            answered_another: None,
            answers_others_only: false,
            sightings: Vec::new(),
            told_silent: false,
            doubted_us: None,
            boots: Vec::new(),
            boots_alternated: None,
        }
    }

    /// Whether this state is any of this node's business to change by what it observes.
    pub(super) const fn is_member(&self) -> bool {
        !matches!(self.state, PeerState::Left | PeerState::Revoked)
    }

    /// Enters a state; whether it is another one than before.
    pub(super) fn enter(
        &mut self,
        state: PeerState,
        cause: impl Into<Cow<'static, str>>,
        now: Moment,
    ) -> bool {
        if self.state == state {
            return false;
        }
        self.state = state;
        self.since = now;
        self.cause = clause(cause.into());
        true
    }

    pub(super) fn note_error(&mut self, text: &str, at: Moment) {
        self.last_error = Some(PeerError { at, text: clause(text.to_owned().into()).into_owned() });
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
        let flight = self.flight.map(|flight| flight.ends);
        let verdict = self.suspicion.as_ref().map(|suspicion| suspicion.next_due(members));
        let idle = self.linked.then(|| self.idle_at());
        dial.into_iter().chain(flight).chain(verdict).chain(self.exchange.due()).chain(idle).min()
    }

    /// When to ask whether its link is still of use.
    pub(super) fn idle_at(&self) -> NodeTime {
        self.used.max(self.needed_until).plus_ms(LINK_IDLE_MS)
    }

    /// Whether a link to it is to be had, neighbour or not: something waits for it, or nothing is known to reach it.
    pub(super) fn is_wanted(&self, now: NodeTime) -> bool {
        self.is_member()
            && (self.needed_until > now || !matches!(self.state, PeerState::Known | PeerState::Alive))
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

    /// One that is wanted waits for others, and not for a time.
    pub(super) const fn wait_in_line(&mut self) {
        self.wanted = false;
    }

    pub(super) const fn end(&mut self) {
        self.under_way = false;
    }

    /// When one that is under way is taken as failed; at once when none is.
    pub(super) fn given_up_at(&self) -> NodeTime {
        if self.under_way { self.free_at() } else { NodeTime(0) }
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

fn clause(text: Cow<'static, str>) -> Cow<'static, str> {
    let end = text.floor_char_boundary(CAUSE_BYTES_MAX);
    if end == text.len() { text } else { text.get(..end).unwrap_or_default().to_owned().into() }
}
