//! Neighbours: with whom a node keeps a link for its own sake, in a mesh too large for a link between every pair.
//!
//! Up to [`FULL_MESH_MAX`] members, everybody. Above, two rules, each a function of two ids and of how many members
//! there are, and the same from both ends, so that two nodes agree about their link without a word:
//!
//! - **the ring**: the members before and after oneself in the order of ids. Two links each, which hold the mesh
//!   together whatever else is chosen;
//! - **random pairs**: a pair whose hash falls under a threshold, which is set so that each node has
//!   [`RANDOM_NEIGHBOURS`] and log2 N of them on average. Such a graph is connected as soon as a node has more than ln N
//!   links on average, is a few steps wide, and has as many links across any cut as its sides have pairs.
//!
//! The obvious way is that each node picks its neighbours. Then a node would have to know whose pick it is, and one
//! that comes would move the picks of many. Here one that comes changes only its own links, and two that see a few
//! members more or less differ about the pairs at the threshold only: there, who is asked keeps the link too.
//!
//! A hostile member could make keys until it is a neighbour of whom it wants. What that gives it is a link, which any
//! member gets by dialling.

use std::ops::Bound;

use mesh_protocol::id::NodeId;
use sha2::{Digest as _, Sha256};

/// Members up to which every pair keeps a link: what one probe a second goes round in half a minute.
pub const FULL_MESH_MAX: u64 = 32;
/// Random neighbours beside log2 N; with the two of the ring, 8 + log2 N.
pub const RANDOM_NEIGHBOURS: u64 = 6;

/// The members before and after this one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ring {
    before: Option<NodeId>,
    after: Option<NodeId>,
}

impl Ring {
    pub(super) const fn new() -> Self {
        Self { before: None, after: None }
    }

    /// From the members in a range of ids, in order.
    pub(super) fn around<I: DoubleEndedIterator<Item = NodeId>>(
        me: NodeId,
        members_in: impl Fn((Bound<NodeId>, Bound<NodeId>)) -> I,
    ) -> Self {
        let below = || members_in((Bound::Unbounded, Bound::Excluded(me)));
        let above = || members_in((Bound::Excluded(me), Bound::Unbounded));
        Self {
            before: below().next_back().or_else(|| above().next_back()),
            after: above().next().or_else(|| below().next()),
        }
    }

    pub(super) fn has(&self, node: &NodeId) -> bool {
        self.before.as_ref() == Some(node) || self.after.as_ref() == Some(node)
    }

    pub(super) fn both(&self) -> impl Iterator<Item = NodeId> + use<> {
        self.before.into_iter().chain(self.after.filter(|after| self.before.as_ref() != Some(after)))
    }
}

/// The hash of a pair: the same from both ends.
pub(super) fn weight(one: NodeId, other: NodeId) -> u64 {
    let hash = Sha256::new_with_prefix(b"mesh-neighbours/1")
        .chain_update(one.min(other).as_bytes())
        .chain_update(one.max(other).as_bytes())
        .finalize();
    let [h0, h1, h2, h3, h4, h5, h6, h7, ..] = <[u8; 32]>::from(hash);
    u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7])
}

/// Pairs up to this weight keep a link, among so many members.
pub(super) fn threshold(members: u64) -> u64 {
    if members <= FULL_MESH_MAX {
        return u64::MAX;
    }
    let wanted = RANDOM_NEIGHBOURS.saturating_add(members.ilog2().into());
    (u64::MAX / members).saturating_mul(wanted)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ids(count: u32) -> Vec<NodeId> {
        (0..count).map(|n| NodeId::from_bytes(Sha256::digest(n.to_be_bytes()).into())).collect()
    }

    fn links(ids: &[NodeId]) -> Vec<BTreeSet<usize>> {
        let members: BTreeSet<NodeId> = ids.iter().copied().collect();
        let limit = threshold(ids.len() as u64);
        let of = |(me, id): (usize, &NodeId)| {
            let ring = Ring::around(*id, |range| members.range(range).copied());
            let kept =
                |other: &usize| *other != me && (weight(*id, ids[*other]) <= limit || ring.has(&ids[*other]));
            (0..ids.len()).filter(kept).collect()
        };
        ids.iter().enumerate().map(of).collect()
    }

    #[test]
    fn both_ends_of_every_pair_agree_and_have_eight_and_log2_n_links_on_average() {
        for count in [33, 100, 400] {
            let links = links(&ids(count));
            for (one, others) in links.iter().enumerate() {
                assert!(others.iter().all(|other| links[*other].contains(&one)), "{one} of {count}");
            }
            let total: usize = links.iter().map(BTreeSet::len).sum();
            let average = total as f64 / f64::from(count);
            let expected = 8.0 + f64::from(count.ilog2());
            assert!((average - expected).abs() < 2.0, "{average} of {expected} at {count}");
            assert!(links.iter().all(|others| others.len() < 45));
        }
    }

    #[test]
    fn everybody_is_a_few_steps_from_everybody() {
        let links = links(&ids(500));
        let mut reached = BTreeSet::from([0]);
        for _ in 0..4 {
            reached = reached.iter().flat_map(|one| &links[*one]).copied().chain(reached.clone()).collect();
        }
        assert_eq!(reached.len(), 500);
    }

    #[test]
    fn one_that_comes_changes_few_links_but_its_own() {
        let ids = ids(301);
        let (before, after) = (links(&ids[..300]), links(&ids));
        let lost: usize = before.iter().zip(&after).map(|(old, new)| old.difference(new).count()).sum();
        assert!(lost <= 40, "{lost} ends of links were given up for one");
    }
}
