//! The ids a node makes, in the order it makes them.
//!
//! An id begins with its millisecond, and a batch of events has only one. Lists are in the order of ids, so those of one
//! millisecond count on: twelve bits of an id are a counter, the other sixty-two are random (RFC 9562, section 6.2,
//! method 1). Nothing is promised across a restart, or when the wall clock is set back.

use rand::Rng;

/// What the counter can hold.
const COUNT_MAX: u16 = 0x0fff;

/// Where it may begin: in the lower half, so that there is room, and at random, so that two nodes seldom meet.
const FIRST_MAX: u16 = COUNT_MAX >> 1;

/// The last id made.
#[derive(Debug, Default)]
pub(crate) struct Minted {
    wall_ms: u64,
    count: u16,
}

impl Minted {
    /// What is not the time in the next id. More than the counter holds in one millisecond have no order among them.
    pub(crate) fn next(&mut self, wall_ms: u64, rng: &mut dyn Rng) -> [u8; 10] {
        let mut bytes = [0; 10];
        rng.fill_bytes(&mut bytes);
        let [high, low, rest @ ..] = bytes;
        self.count = if self.wall_ms == wall_ms {
            COUNT_MAX.min(self.count.saturating_add(1))
        } else {
            u16::from_be_bytes([high, low]) & FIRST_MAX
        };
        self.wall_ms = wall_ms;
        let [high, low] = self.count.to_be_bytes();
        let [r2, r3, r4, r5, r6, r7, r8, r9] = rest;
        [high, low, r2, r3, r4, r5, r6, r7, r8, r9]
    }
}

#[cfg(test)]
mod tests {
    use mesh_protocol::id::MessageId;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn ids_of_one_millisecond_are_in_order_and_no_two_alike() {
        for seed in 0..50 {
            let (mut minted, mut rng) = (Minted::default(), ChaCha8Rng::seed_from_u64(seed));
            let ids: Vec<MessageId> =
                (0..2_000).map(|_| MessageId::mint(7, minted.next(7, &mut rng))).collect();
            assert!(ids.is_sorted_by(|one, next| one < next));
        }
    }

    #[test]
    fn a_counter_that_is_full_stays_so_and_ids_still_differ() {
        let (mut minted, mut rng) = (Minted::default(), ChaCha8Rng::seed_from_u64(1));
        let ids: std::collections::BTreeSet<_> = (0..10_000).map(|_| minted.next(7, &mut rng)).collect();
        assert_eq!(ids.len(), 10_000);
    }

    #[test]
    fn each_millisecond_begins_elsewhere() {
        let (mut minted, mut rng) = (Minted::default(), ChaCha8Rng::seed_from_u64(1));
        let firsts: std::collections::BTreeSet<u16> = (1..100)
            .map(|ms| {
                let [high, low, ..] = minted.next(ms, &mut rng);
                u16::from_be_bytes([high, low])
            })
            .collect();
        assert!(firsts.len() > 80 && firsts.iter().all(|first| *first <= FIRST_MAX), "{firsts:?}");
    }
}
