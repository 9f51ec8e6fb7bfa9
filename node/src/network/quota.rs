//! What one peer may make this node do on its links, however much it sends.
//!
//! Kept for each peer and not for each connection, so that connecting again brings nothing. What is over a quota is
//! dropped before it is looked at, and counted; everything dropped here is something that an honest peer repeats.
//! Delivery needs none of this: its streams wait instead ([`crate::limits::PEER_EVENTS_MAX`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_node_core::quota::Bucket;
use mesh_node_core::time::NodeTime;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::OverQuota;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{
    PEER_DATAGRAMS, PEER_EXCHANGES, PEER_EXCHANGES_AT_ONCE, PEER_QUESTIONS, PEER_QUESTIONS_AT_ONCE,
    PEER_RECORDS,
};

/// What a peer began here and that ends when this is dropped.
pub(super) type Place = OwnedSemaphorePermit;

/// The quotas of every peer that had a link since the start: members, so no more than the root let in.
#[derive(Debug, Default)]
pub(super) struct Quotas(Mutex<BTreeMap<NodeId, Quota>>);

#[derive(Debug)]
struct Quota {
    datagrams: Bucket,
    exchanges: Bucket,
    records: Bucket,
    questions: Bucket,
    exchanging: Arc<Semaphore>,
    asking: Arc<Semaphore>,
    over: OverQuota,
}

impl Quotas {
    /// Whether one more datagram is looked at.
    pub(super) fn datagram(&self, peer: NodeId, now: NodeTime) -> bool {
        self.of(peer, now, |quota| admit(quota.datagrams.take(now, 1), 1, &mut quota.over.datagrams)) == 1
    }

    /// How many of these records are looked at.
    pub(super) fn records(&self, peer: NodeId, now: NodeTime, count: usize) -> usize {
        let wanted = u64::try_from(count).unwrap_or(u64::MAX);
        let admitted = self
            .of(peer, now, |quota| admit(quota.records.take(now, wanted), wanted, &mut quota.over.records));
        usize::try_from(admitted).unwrap_or(count)
    }

    /// A place for a comparison that the peer begins.
    pub(super) fn exchange(&self, peer: NodeId, now: NodeTime) -> Option<Place> {
        self.of(peer, now, |quota| {
            begin(&quota.exchanging, &mut quota.exchanges, now, &mut quota.over.exchanges)
        })
    }

    /// A place for a question of the peer's.
    pub(super) fn question(&self, peer: NodeId, now: NodeTime) -> Option<Place> {
        self.of(peer, now, |quota| begin(&quota.asking, &mut quota.questions, now, &mut quota.over.questions))
    }

    /// What was dropped of a peer's.
    pub(super) fn over(&self, peer: NodeId) -> OverQuota {
        self.lock().get(&peer).map(|quota| quota.over).unwrap_or_default()
    }

    fn of<T>(&self, peer: NodeId, now: NodeTime, act: impl FnOnce(&mut Quota) -> T) -> T {
        act(self.lock().entry(peer).or_insert_with(|| Quota::new(now)))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Quota>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Quota {
    fn new(now: NodeTime) -> Self {
        Self {
            datagrams: Bucket::new(PEER_DATAGRAMS, now),
            exchanges: Bucket::new(PEER_EXCHANGES, now),
            records: Bucket::new(PEER_RECORDS, now),
            questions: Bucket::new(PEER_QUESTIONS, now),
            exchanging: Arc::new(Semaphore::new(PEER_EXCHANGES_AT_ONCE)),
            asking: Arc::new(Semaphore::new(PEER_QUESTIONS_AT_ONCE)),
            over: OverQuota::default(),
        }
    }
}

const fn admit(admitted: u64, wanted: u64, over: &mut u64) -> u64 {
    *over = over.saturating_add(wanted.saturating_sub(admitted));
    admitted
}

fn begin(at_once: &Arc<Semaphore>, bucket: &mut Bucket, now: NodeTime, over: &mut u64) -> Option<Place> {
    let place = Arc::clone(at_once).try_acquire_owned().ok().filter(|_| bucket.take(now, 1) == 1);
    if place.is_none() {
        *over = over.saturating_add(1);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: NodeTime = NodeTime(1_000);

    #[test]
    fn one_peers_flood_takes_nothing_from_another() {
        let (quotas, loud, calm) =
            (Quotas::default(), NodeId::from_bytes([1; 32]), NodeId::from_bytes([2; 32]));
        let burst = PEER_DATAGRAMS.burst as usize;
        let looked_at = (0..burst * 3).filter(|_| quotas.datagram(loud, NOW)).count();
        assert_eq!(looked_at, burst);
        assert_eq!(quotas.over(loud).datagrams, u64::try_from(burst * 2).unwrap());
        assert!(quotas.datagram(calm, NOW));
        assert_eq!(quotas.over(calm), OverQuota::default());
    }

    #[test]
    fn what_a_peer_began_and_did_not_end_counts() {
        let (quotas, peer) = (Quotas::default(), NodeId::from_bytes([1; 32]));
        let places: Vec<_> =
            (0..PEER_EXCHANGES_AT_ONCE).map(|_| quotas.exchange(peer, NOW).unwrap()).collect();
        assert!(quotas.exchange(peer, NOW).is_none());
        assert_eq!(quotas.over(peer).exchanges, 1);
        drop(places);
        assert!(quotas.exchange(peer, NOW).is_some());
    }

    #[test]
    fn a_page_of_records_is_taken_as_far_as_the_quota_goes() {
        let (quotas, peer) = (Quotas::default(), NodeId::from_bytes([1; 32]));
        let burst = PEER_RECORDS.burst as usize;
        assert_eq!(quotas.records(peer, NOW, burst - 1), burst - 1);
        assert_eq!(quotas.records(peer, NOW, 10), 1);
        assert_eq!(quotas.over(peer).records, 9);
    }
}
