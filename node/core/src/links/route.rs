//! Through whom a member is reached that cannot be reached directly: whom to ask, whom of those to try, in which order.
//!
//! Only members this node is linked with directly are asked, and only those that are linked with the target directly
//! are tried: a way has one member between and never two. Who failed to carry is left in peace for a time that grows.
//! Asking is cheap (one question on a link that is there), trying is not (a handshake), so all that can be known is
//! asked first.

use std::collections::BTreeMap;

use mesh_protocol::id::NodeId;
use rand::Rng;

use super::{Backoff, FailureKind};
use crate::time::NodeTime;

/// Members asked whether they reach a target, for one dial. The next dial asks the next ones.
pub const ASKED_MAX: usize = 16;
/// Members tried as relays, one after the other, for one dial.
pub const RELAYS_TRIED_MAX: usize = 3;

/// What a member answered when it was asked about a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Who.
    pub relay: NodeId,
    /// Whether it has a direct link to the target.
    pub direct: bool,
    /// Whether it would carry packets for this node.
    pub carries: bool,
    /// Its round trip to the target, microseconds; `u64::MAX` when it does not say.
    pub rtt_us: u64,
}

#[derive(Debug)]
struct Rest {
    backoff: Backoff,
    until: NodeTime,
}

/// What is remembered about ways through other members.
#[derive(Debug, Default)]
pub struct Routes {
    /// How many members were asked about a target so far: where the next dial goes on.
    asked: BTreeMap<NodeId, usize>,
    /// Relays that did not carry to a target, and until when they are not tried.
    resting: BTreeMap<(NodeId, NodeId), Rest>,
}

impl Routes {
    /// Whom to ask about a target, of those linked directly: a few, and others the next time.
    pub fn ask(
        &mut self,
        now: NodeTime,
        target: NodeId,
        linked: impl IntoIterator<Item = NodeId>,
    ) -> Vec<NodeId> {
        let mut free: Vec<NodeId> =
            linked.into_iter().filter(|relay| *relay != target && !self.rests(now, *relay, target)).collect();
        free.sort_unstable();
        free.dedup();
        let asked = self.asked.entry(target).or_default();
        let start = asked.checked_rem(free.len()).unwrap_or(0);
        free.rotate_left(start);
        free.truncate(ASKED_MAX);
        *asked = start.saturating_add(free.len());
        free
    }

    /// Whom to try, the quickest first.
    #[must_use]
    pub fn choose(&self, now: NodeTime, target: NodeId, mut offers: Vec<Offer>) -> Vec<NodeId> {
        offers.retain(|offer| offer.direct && offer.carries && !self.rests(now, offer.relay, target));
        offers.sort_by_key(|offer| (offer.rtt_us, offer.relay));
        offers.into_iter().map(|offer| offer.relay).take(RELAYS_TRIED_MAX).collect()
    }

    /// A relay did not carry to this target, whatever it had said.
    pub fn failed(
        &mut self,
        now: NodeTime,
        rng: &mut dyn Rng,
        (relay, target): (NodeId, NodeId),
        kind: FailureKind,
    ) {
        let rest = self
            .resting
            .entry((relay, target))
            .or_insert_with(|| Rest { backoff: Backoff::default(), until: NodeTime(0) });
        rest.until = now.plus_ms(rest.backoff.after(kind, rng));
    }

    /// A relay carried to this target.
    pub fn worked(&mut self, relay: NodeId, target: NodeId) {
        self.resting.remove(&(relay, target));
        self.asked.remove(&target);
    }

    /// A member is gone for good.
    pub fn forget(&mut self, node: &NodeId) {
        self.asked.remove(node);
        self.resting.retain(|(relay, target), _| relay != node && target != node);
    }

    fn rests(&self, now: NodeTime, relay: NodeId, target: NodeId) -> bool {
        self.resting.get(&(relay, target)).is_some_and(|rest| now < rest.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    const NOW: NodeTime = NodeTime(1_000);

    fn node(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn offer(n: u8, rtt_us: u64) -> Offer {
        Offer { relay: node(n), direct: true, carries: true, rtt_us }
    }

    #[test]
    fn in_a_large_mesh_everybody_is_asked_within_a_few_dials() {
        let mut routes = Routes::default();
        let linked: Vec<NodeId> = (1..=40).map(node).collect();
        let mut asked = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let few = routes.ask(NOW, node(99), linked.clone());
            assert_eq!(few.len(), ASKED_MAX);
            asked.extend(few);
        }
        assert_eq!(asked.len(), linked.len());
    }

    #[test]
    fn the_target_is_not_asked_about_itself() {
        assert_eq!(Routes::default().ask(NOW, node(2), [node(2), node(1)]), [node(1)]);
        assert!(Routes::default().ask(NOW, node(2), [node(2)]).is_empty());
    }

    #[test]
    fn only_who_is_linked_with_the_target_itself_and_carries_is_tried_quickest_first() {
        let offers = vec![
            offer(1, 900),
            Offer { direct: false, ..offer(2, 1) },
            Offer { carries: false, ..offer(3, 1) },
            offer(4, 100),
            offer(5, u64::MAX),
            offer(6, 100),
        ];
        assert_eq!(Routes::default().choose(NOW, node(9), offers), [node(4), node(6), node(1)]);
    }

    #[test]
    fn who_failed_rests_for_a_time_that_grows_and_only_for_that_target() {
        let mut routes = Routes::default();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let pair = (node(1), node(9));
        routes.failed(NOW, &mut rng, pair, FailureKind::Passing);
        assert!(routes.ask(NOW, node(9), [node(1)]).is_empty());
        assert_eq!(routes.ask(NOW, node(8), [node(1)]), [node(1)]);
        let first = NOW.plus_ms(250);
        assert_eq!(routes.ask(first, node(9), [node(1)]), [node(1)], "a first failure rests 240 ms at most");
        routes.failed(first, &mut rng, pair, FailureKind::Passing);
        assert!(routes.choose(first.plus_ms(250), node(9), vec![offer(1, 1)]).is_empty());
        routes.failed(first, &mut rng, pair, FailureKind::Refused);
        assert!(routes.ask(first.plus_ms(200_000), node(9), [node(1)]).is_empty(), "a refusal rests minutes");
        routes.worked(node(1), node(9));
        assert_eq!(routes.choose(first, node(9), vec![offer(1, 1)]), [node(1)]);
    }
}
