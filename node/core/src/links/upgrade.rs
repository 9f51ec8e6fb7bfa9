//! When to try again to reach directly a peer that is linked through another member.
//!
//! For as long as the link is relayed, at a falling rate; at once when the peer's record changed, since its addresses may
//! have. A dial that fails costs nothing but packets: the relayed link stays in use meanwhile.

use std::collections::BTreeMap;

use mesh_protocol::id::NodeId;
use rand::Rng;

use super::{Backoff, FailureKind};
use crate::time::NodeTime;

#[derive(Debug)]
struct Upgrade {
    backoff: Backoff,
    /// The next try; none while one is under way.
    at: Option<NodeTime>,
}

/// The peers linked through others, and when each is next tried directly.
#[derive(Debug, Default)]
pub struct Upgrades(BTreeMap<NodeId, Upgrade>);

impl Upgrades {
    /// A relayed link to this peer is in use. Said again, it changes nothing.
    pub fn relayed(&mut self, now: NodeTime, rng: &mut dyn Rng, peer: NodeId) {
        self.0.entry(peer).or_insert_with(|| {
            let mut backoff = Backoff::default();
            let at = Some(now.plus_ms(backoff.after(FailureKind::Passing, rng)));
            Upgrade { backoff, at }
        });
    }

    /// The peer is linked directly, or not at all.
    pub fn settled(&mut self, peer: &NodeId) {
        self.0.remove(peer);
    }

    /// A direct dial of this peer failed.
    pub fn failed(&mut self, now: NodeTime, rng: &mut dyn Rng, peer: &NodeId, kind: FailureKind) {
        if let Some(upgrade) = self.0.get_mut(peer) {
            upgrade.at = Some(now.plus_ms(upgrade.backoff.after(kind, rng)));
        }
    }

    /// There is news of the peer: its addresses may have changed.
    pub fn news(&mut self, now: NodeTime, peer: &NodeId) {
        if let Some(upgrade) = self.0.get_mut(peer).filter(|upgrade| upgrade.at.is_some()) {
            upgrade.backoff.reset();
            upgrade.at = Some(now);
        }
    }

    /// Whom to dial now. Each counts as under way until [`Upgrades::failed`] or [`Upgrades::settled`].
    pub fn take_due(&mut self, now: NodeTime) -> Vec<NodeId> {
        let due = self.0.iter_mut().filter_map(|(peer, upgrade)| {
            upgrade.at.take_if(|at| *at <= now)?;
            Some(*peer)
        });
        due.collect()
    }

    /// When somebody is due next.
    #[must_use]
    pub fn next_due(&self) -> Option<NodeTime> {
        self.0.values().filter_map(|upgrade| upgrade.at).min()
    }

    /// When this peer is due; `None` while it is being tried, or not relayed.
    #[must_use]
    pub fn due(&self, peer: &NodeId) -> Option<NodeTime> {
        self.0.get(peer).and_then(|upgrade| upgrade.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    const PEER: NodeId = NodeId::from_bytes([7; 32]);

    #[test]
    fn a_relayed_peer_is_tried_directly_at_a_falling_rate_until_it_is_direct() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut upgrades = Upgrades::default();
        let mut now = NodeTime(0);
        upgrades.relayed(now, &mut rng, PEER);
        let mut waits = Vec::new();
        for _ in 0..10 {
            let due = upgrades.next_due().unwrap();
            assert!(upgrades.take_due(NodeTime(due.0 - 1)).is_empty());
            assert_eq!(upgrades.take_due(due), [PEER]);
            assert_eq!(upgrades.next_due(), None, "one dial at a time");
            waits.push(due.since(now));
            now = due;
            upgrades.failed(now, &mut rng, &PEER, FailureKind::Passing);
        }
        assert!(waits[0] <= 240 && waits[9] >= 24_000 && waits[9] <= 36_000, "{waits:?}");
        upgrades.news(now, &PEER);
        assert_eq!(upgrades.take_due(now), [PEER], "news are a reason to try now");
        upgrades.settled(&PEER);
        upgrades.failed(now, &mut rng, &PEER, FailureKind::Passing);
        assert_eq!(upgrades.next_due(), None);
    }
}
