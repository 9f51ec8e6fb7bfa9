//! Time as an argument.
//!
//! Two clocks, never mixed. [`NodeTime`] is this node's own count of milliseconds: it counts suspend, goes on over
//! restarts and never goes back, and every wait, deadline and retry is measured on it. The wall clock is for people
//! (what a listing shows) and for the dates of certificates, tickets and grants; nothing else compares it, and no decision
//! compares two machines' clocks: deadlines travel as remaining milliseconds.

use serde::{Deserialize, Serialize};

/// A point on this node's own clock, in milliseconds. Meaningless on any other node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct NodeTime(pub u64);

impl NodeTime {
    /// This long after; stops at the end of time.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This, or the first point after `last` when that is not earlier: a place in an order that never goes back.
    #[must_use]
    pub fn after(self, last: Option<Self>) -> Self {
        last.map_or(self, |last| self.max(last.plus_ms(1)))
    }

    /// Milliseconds from an earlier point to this one; zero when it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The instant of one event, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// What every decision uses.
    pub node: NodeTime,
    /// Milliseconds since 1970, UTC: what people see.
    pub wall_ms: u64,
}
