//! Membership: who is in the mesh and who of them can be reached, as this node sees it.
//!
//! Liveness is SWIM (Das, Gupta and Motivala 2002): every second one linked peer is probed, in random round-robin
//! order; who does not answer is suspected and, after a time that other accusers shorten (as in Lifeguard, Dadgar,
//! Phillips and Currey 2018), judged unreachable. Differences, each to heal by itself: nothing is forgotten but what
//! left or was revoked, unreachable peers are dialled for ever, and hearsay never judges.
//!
//! ```text
//!                        contact: a new link, an answered probe
//!            .------------------------<------------------------.
//!            v                                                 |
//!   Known ------> Alive ---- 2 probes missed, link down ---> Suspect ---- time up ----> Unreachable
//!     |  contact                                               ^   dialled for ever          |
//!     '--------------------- dial failed ----------------------'        contact ---> Alive <-'
//!
//!   any --- its signed farewell ------> Left --- its record of a later start --> Known or Alive
//!   any --- no common version --------> Incompatible --- contact --> Alive
//!   any --- two processes take turns -> Duplicate --- a quiet while, then contact --> Alive
//!   any --- the root took it ---------> Revoked (final)
//! ```
//!
//! Invariants:
//! - Only contact makes a peer alive; only this node's own missed probes and failed dials make one suspect. An
//!   accusation or a verdict from a peer makes this node look for itself at once, and shortens a suspicion it already
//!   has. So no verdict spreads by itself.
//! - Only the owner changes its record. An accused node answers with a later version, which starts the suspicion anew.
//! - What others observe is shown with a peer and attributed to them; it never enters or leaves a state, but that a
//!   linked peer which answers others is not suspected (`inquiring`, `hearsay`).
//! - A node whose own probes all fail is `isolated`, and one that has just woken is careful: neither judges anybody.
//! - Up to [`neighbours::FULL_MESH_MAX`] members every pair keeps a link; above, a few neighbours do ([`neighbours`]).
//!   Others are linked while something needs it, and then are `known` again: of them this node says nothing of its own.
//!
//! Driver's contract. Feed [`Input::Start`] first, then every event with its time; call [`Input::Wake`] at
//! [`Membership::next_wake`], asked for again after each input. A wake-up carries no token: what is due is decided by
//! `now` alone, so an early, late or repeated one does no harm. Perform outputs in order:
//! - [`Output::Sign`]: sign with the node's key, feed back [`Input::Signed`] at once. If it cannot be signed, because it is too
//!   large, the record before it stays: log it and feed nothing.
//! - [`Output::Dial`] and [`Output::Close`] are for the links machine. For a dial, one [`Input::LinkUp`] or
//!   [`Input::DialFailed`] follows.
//! - [`Output::Sync`]: run one exchange over a stream ([`Membership::begin_sync`], [`Membership::continue_sync`]), feed
//!   what it heard as [`Input::Heard`], and end with [`Input::SyncEnded`], also when it failed. Incoming streams run
//!   [`Membership::continue_sync`] too and feed [`Input::Heard`] only. What was heard is checked first
//!   ([`crate::directory::exchange::Heard::check`]), where it holds up nobody.
//! - [`Output::RaiseEpoch`]: commit that epoch, then feed [`Input::EpochRaised`].
//!
//! Nothing here waits for a disk: records are handed out to be stored, and come back at the next start.

mod dialling;
mod hearsay;
mod inquiring;
mod judging;
pub mod neighbours;
mod own;
mod peer;
mod peers;
mod probing;
mod spreading;
mod suspicion;
pub mod timing;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use mesh_protocol::certificate::Certificate;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{BootId, Moment};
use mesh_protocol::record::{Advertisement, Lifecycle, NodeRecord, SignedRecord, VerifiedRecord};
use mesh_protocol::root::RootKey;
use rand::Rng;

use crate::directory::Directory;
use crate::directory::exchange::Checked;
use crate::links::DialFailure;
use crate::time::{NodeTime, Now};

use hearsay::Rumours;
use inquiring::{Errand, Inquiry};
use own::Own;
use peers::Peers;

/// Who this node is, for one start of its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The mesh's root, by which records of members are told from others.
    pub root: RootKey,
    /// This node.
    pub node: NodeId,
    /// What makes it a member.
    pub certificate: Certificate,
    /// Starts of this node, raised and committed before this one.
    pub epoch: u64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The process started. Comes first and once.
    Start {
        /// What this node says about itself.
        advertisement: Box<Advertisement>,
        /// The records of an earlier run, or of the node that let this one join.
        stored: Vec<SignedRecord>,
        /// Nodes that are no members any more.
        revoked: Vec<NodeId>,
    },
    /// The time [`Membership::next_wake`] named has come.
    Wake,
    /// A link to a peer is up, or goes over another connection now.
    LinkUp {
        /// To whom.
        peer: NodeId,
        /// The peer's process.
        boot: BootId,
    },
    /// The last connection to a peer is gone.
    LinkDown {
        /// To whom.
        peer: NodeId,
        /// Why, as one clause.
        cause: String,
    },
    /// A dial ended without a link.
    DialFailed {
        /// To whom.
        peer: NodeId,
        /// Why.
        failure: DialFailure,
    },
    /// A datagram came over a link.
    Datagram {
        /// From whom, by the link's certificate.
        from: NodeId,
        /// Its bytes, at most those of one datagram.
        bytes: Vec<u8>,
    },
    /// An exchange brought something.
    Heard {
        /// From whom.
        from: NodeId,
        /// What, its signatures checked.
        heard: Checked,
    },
    /// An exchange this machine asked for is over.
    SyncEnded {
        /// With whom.
        peer: NodeId,
        /// Why it failed, if it did.
        error: Option<String>,
    },
    /// What this node says about itself changed.
    Advertise(Box<Advertisement>),
    /// This node drains or leaves. After `Left`, stay until the record had time to spread.
    Announce(Lifecycle),
    /// The record of [`Output::Sign`], signed.
    Signed(SignedRecord),
    /// The epoch of [`Output::RaiseEpoch`] is committed.
    EpochRaised(u64),
    /// Something has to go to this peer, or just went: if it is no neighbour, link it, and keep the link for a while.
    Needed(NodeId),
    /// What kept a peer away is gone, as far as this node knows: try it again now.
    Retry(NodeId),
    /// The root took a node's membership. Its links are closed by the driver at once, whatever this machine says.
    Revoked(NodeId),
}

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram over the link; drop it if there is none.
    Send {
        /// To whom.
        to: NodeId,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Dial a peer.
    Dial {
        /// Whom.
        peer: NodeId,
        /// Where it says it is. None when it says nothing: then only another member can reach it.
        addresses: Vec<SocketAddr>,
    },
    /// Drop all connections to a peer: for the links machine.
    Close {
        /// To whom.
        peer: NodeId,
        /// Why, as one clause.
        cause: String,
    },
    /// Compare directories with a linked peer.
    Sync {
        /// With whom.
        peer: NodeId,
    },
    /// A peer's state changed; [`Membership::peer`] has the whole view.
    Changed {
        /// Whose.
        peer: NodeId,
    },
    /// `isolated` changed; [`Membership::view`] has it.
    SelfChanged,
    /// Store this record: it is its node's newest.
    Store(VerifiedRecord),
    /// Remove this node's stored record: it left or was revoked long ago.
    Forget {
        /// Whose.
        node: NodeId,
    },
    /// Sign this node's own record.
    Sign(Box<NodeRecord>),
    /// This node's disk was set back: commit this epoch.
    RaiseEpoch(u64),
}

/// Who is in the mesh and who can be reached.
#[derive(Debug)]
pub struct Membership {
    identity: Identity,
    directory: Directory,
    own: Own,
    peers: Peers,
    revoked: BTreeSet<NodeId>,
    rota: Vec<NodeId>,
    next_seq: u64,
    next_probe: NodeTime,
    next_sync: NodeTime,
    next_seek: NodeTime,
    follow_up: Option<NodeTime>,
    rounds_left: u32,
    syncs: BTreeSet<NodeId>,
    syncs_waiting: VecDeque<NodeId>,
    last_evidence: NodeTime,
    isolated: Option<Moment>,
    careful_until: NodeTime,
    inquiries: BTreeMap<u64, Inquiry>,
    errands: Vec<Errand>,
    health: u64,
    rumours: Rumours,
    rumours_made: u64,
    next_gossip: Option<NodeTime>,
}

/// One call of [`Membership::handle`]: when, with which randomness, and what follows.
struct Turn<'a> {
    now: Now,
    rng: &'a mut dyn Rng,
    outputs: Vec<Output>,
}

impl Turn<'_> {
    const fn moment(&self) -> Moment {
        Moment { node_ms: self.now.node.0, wall_ms: self.now.wall_ms }
    }

    fn put(&mut self, output: Output) {
        self.outputs.push(output);
    }
}

impl Membership {
    /// A node that knows nobody, before [`Input::Start`].
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self {
            directory: Directory::new(),
            own: Own::new(identity.epoch),
            peers: Peers::new(identity.node),
            identity,
            revoked: BTreeSet::new(),
            rota: Vec::new(),
            next_seq: 0,
            next_probe: NodeTime(u64::MAX),
            next_sync: NodeTime(u64::MAX),
            next_seek: NodeTime(u64::MAX),
            follow_up: None,
            rounds_left: 0,
            syncs: BTreeSet::new(),
            syncs_waiting: VecDeque::new(),
            last_evidence: NodeTime(0),
            isolated: None,
            careful_until: NodeTime(0),
            inquiries: BTreeMap::new(),
            errands: Vec::new(),
            health: 0,
            rumours: Rumours::default(),
            rumours_made: 0,
            next_gossip: None,
        }
    }

    /// Takes one event and says what follows from it.
    pub fn handle(&mut self, now: Now, rng: &mut dyn Rng, input: Input) -> Vec<Output> {
        let mut turn = Turn { now, rng, outputs: Vec::new() };
        self.notice_gap(&mut turn);
        match input {
            Input::Start { advertisement, stored, revoked } => {
                self.handle_start(&mut turn, *advertisement, stored, revoked);
            }
            Input::Wake => {}
            Input::LinkUp { peer, boot } => self.handle_link_up(&mut turn, peer, boot),
            Input::LinkDown { peer, cause } => self.handle_link_down(&mut turn, peer, cause),
            Input::DialFailed { peer, failure } => self.handle_dial_failed(&mut turn, peer, failure),
            Input::Datagram { from, bytes } => self.handle_datagram(&mut turn, from, &bytes),
            Input::Heard { from, heard } => self.handle_heard(&mut turn, from, heard),
            Input::SyncEnded { peer, error } => self.handle_sync_ended(&turn, peer, error),
            Input::Advertise(advertisement) => self.handle_advertise(&mut turn, *advertisement),
            Input::Announce(lifecycle) => self.handle_announce(&mut turn, lifecycle),
            Input::Signed(record) => self.handle_signed(&mut turn, record),
            Input::EpochRaised(epoch) => self.handle_epoch_raised(&mut turn, epoch),
            Input::Needed(node) => self.handle_needed(&mut turn, node),
            Input::Retry(node) => self.dial_soon(&mut turn, node, dialling::Haste::Now),
            Input::Revoked(node) => self.handle_revoked(&mut turn, node),
        }
        self.do_what_is_due(&mut turn);
        self.peers.settle();
        turn.outputs
    }

    /// When to feed [`Input::Wake`], if nothing happens before.
    #[must_use]
    pub fn next_wake(&self) -> NodeTime {
        let own = [self.next_probe, self.next_sync, self.next_seek];
        let spreading = self.follow_up.into_iter().chain(self.own.due());
        let spreading =
            spreading.chain(self.inquiries_due()).chain(self.gossip_due()).chain(self.syncs_due());
        own.into_iter().chain(spreading).chain(self.peers.first_due()).min().unwrap_or(self.next_probe)
    }

    /// The records of all members.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    fn do_what_is_due(&mut self, turn: &mut Turn<'_>) {
        self.publish_when_due(turn);
        self.inquiries_when_due(turn);
        self.probe_when_due(turn);
        self.notice_isolation(turn);
        self.judge_when_due(turn);
        self.rest_when_due(turn);
        self.link_new_neighbours(turn);
        self.dial_when_due(turn);
        self.sync_when_due(turn);
        self.gossip_when_due(turn);
    }

    fn handle_start(
        &mut self,
        turn: &mut Turn<'_>,
        advertisement: Advertisement,
        stored: Vec<SignedRecord>,
        revoked: Vec<NodeId>,
    ) {
        self.start_clocks(turn);
        for node in revoked {
            self.handle_revoked(turn, node);
        }
        self.own.advertise(advertisement);
        self.take_stored(turn, stored);
        self.publish(turn);
    }
}
