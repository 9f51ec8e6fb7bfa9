//! What happens to links, what is to be done about it, and the names both use. Data only; which connection is used is
//! [`ConnectionKey::beats`], and everything else is decided by [`Links`](super::Links).

use std::net::SocketAddr;

use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;

use super::{Attempt, FailureKind};

/// A connection, by the same name at both ends. Ordered by who dialled, then by dial number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey {
    /// Who dialled.
    pub dialler: NodeId,
    /// The dialler's number for that dial; grows with every dial, over restarts too.
    pub number: u64,
    /// Whether a third member carries its packets. Each end knows from where it came in, and needs nobody's word.
    pub relayed: bool,
}

impl ConnectionKey {
    /// A connection without anybody between.
    #[must_use]
    pub const fn direct(dialler: NodeId, number: u64) -> Self {
        Self { dialler, number, relayed: false }
    }

    /// A connection whose packets a third member carries.
    #[must_use]
    pub const fn relayed(dialler: NodeId, number: u64) -> Self {
        Self { dialler, number, relayed: true }
    }

    /// Whether this connection is used rather than the other.
    #[must_use]
    pub fn beats(&self, other: &Self) -> bool {
        let rank = |key: &Self| (key.relayed, key.dialler, std::cmp::Reverse(key.number));
        rank(self) < rank(other)
    }
}

/// The way the packets of a link go, as one end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Straight to the peer, at this address.
    Direct(SocketAddr),
    /// Through a third member, which can neither read nor forge them.
    Relayed {
        /// Which one.
        via: NodeId,
    },
}

/// A caller that waits for a link. The driver chooses the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter(pub u64);

/// Why a dial ended without a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialFailure {
    /// Whether trying again soon could help.
    pub kind: FailureKind,
    /// What happened, as one clause for people.
    pub text: String,
    /// The address it happened at, the last one when there were several.
    pub address: Option<SocketAddr>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Somebody needs a link: a caller that waits, or membership, which does not wait but is always answered by `Up` or
    /// `Unreached`.
    Wanted {
        /// To whom.
        peer: NodeId,
        /// Who waits.
        waiter: Option<Waiter>,
        /// Where the peer says it is; none when only a third member can reach it.
        addresses: Vec<SocketAddr>,
    },
    /// The peer is linked through a third member and may be reached without: dial it there. Does nothing without an
    /// address, while a dial is under way, and when it is linked directly or not at all.
    Improve {
        /// Whom.
        peer: NodeId,
        /// Where the peer says it is.
        addresses: Vec<SocketAddr>,
    },
    /// A caller waits no longer.
    GaveUp {
        /// For whom it waited.
        peer: NodeId,
        /// Who.
        waiter: Waiter,
    },
    /// A connection is ready for use, whoever dialled it.
    Established {
        /// With whom.
        peer: NodeId,
        /// Its name.
        key: ConnectionKey,
        /// The peer's process, from its Hello.
        boot: BootId,
        /// Where the peer was reached, when we dialled it directly.
        address: Option<SocketAddr>,
    },
    /// Our dial ended without a connection.
    DialFailed {
        /// Whom we dialled.
        peer: NodeId,
        /// Our number for that dial.
        number: u64,
        /// Why.
        failure: DialFailure,
    },
    /// The peer is not to be linked: it does not answer, or may not. Its connections count as gone from now on.
    Drop {
        /// Whom.
        peer: NodeId,
        /// Why, as one clause.
        cause: String,
    },
    /// A connection is gone.
    Ended {
        /// With whom.
        peer: NodeId,
        /// Its name.
        key: ConnectionKey,
        /// Why, as one clause.
        cause: String,
    },
}

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Dial; an empty plan fails at once.
    StartDial {
        /// Whom.
        peer: NodeId,
        /// Our number for it, to be sent in Hello.
        number: u64,
        /// Where and when.
        plan: Vec<Attempt>,
    },
    /// Stop a dial that could only lose.
    AbandonDial {
        /// Whom we dial.
        peer: NodeId,
        /// Which dial.
        number: u64,
    },
    /// A caller has its link.
    Ready {
        /// Who waited.
        waiter: Waiter,
        /// The connection to use.
        key: ConnectionKey,
    },
    /// A caller gets none.
    Failed {
        /// Who waited.
        waiter: Waiter,
        /// Why.
        failure: DialFailure,
    },
    /// The peer is linked, or linked by another connection than before. New streams go on this one.
    Up {
        /// Who.
        peer: NodeId,
        /// The connection to use.
        key: ConnectionKey,
        /// The peer's process.
        boot: BootId,
    },
    /// The peer is not linked any more.
    Down {
        /// Who.
        peer: NodeId,
        /// Why.
        cause: String,
    },
    /// A dial failed and there is no other link.
    Unreached {
        /// Who.
        peer: NodeId,
        /// Why.
        failure: DialFailure,
    },
    /// Close a connection of ours that lost, once its streams ended or after this long.
    Retire {
        /// With whom.
        peer: NodeId,
        /// Which.
        key: ConnectionKey,
        /// At the latest, milliseconds from now.
        within_ms: u64,
    },
    /// Close a connection at once: it leads to a process that is gone, or was dropped.
    Close {
        /// With whom.
        peer: NodeId,
        /// Which.
        key: ConnectionKey,
    },
    /// Close the connection just reported, and only that one: its name is impossible or taken, or there are too many.
    /// No `Ended` follows.
    Refuse {
        /// With whom.
        peer: NodeId,
        /// What it called itself.
        key: ConnectionKey,
    },
}
