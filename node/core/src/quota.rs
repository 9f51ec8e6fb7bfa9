//! How much of something one peer may make this node do: so many at once, so many a second from then on.
//!
//! A token bucket (RFC 2697 names the idea): it starts full, fills with time, and what finds it empty is refused and
//! counted by whoever asks. Nothing waits here, so a flood costs its sender's turn and nobody else's.

use crate::time::NodeTime;

/// Units of a bucket's level in one token, so that a slow rate still fills it between two looks.
const PARTS: u64 = 1_000;

/// What a bucket holds and how fast it fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens it holds.
    pub burst: u32,
    /// Tokens it gains in a second.
    pub per_second: u32,
}

/// The tokens one peer has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    level: u64,
    seen: NodeTime,
}

impl Bucket {
    /// A full one.
    #[must_use]
    pub fn new(rate: Rate, now: NodeTime) -> Self {
        Self { rate, level: u64::from(rate.burst).saturating_mul(PARTS), seen: now }
    }

    /// Takes as many tokens as are there, at most those wanted; how many.
    pub fn take(&mut self, now: NodeTime, wanted: u64) -> u64 {
        // A token a second is a part a millisecond.
        let gained = now.since(self.seen).saturating_mul(self.rate.per_second.into());
        let full = u64::from(self.rate.burst).saturating_mul(PARTS);
        self.level = self.level.saturating_add(gained).min(full);
        self.seen = self.seen.max(now);
        let taken = (self.level / PARTS).min(wanted);
        self.level = self.level.saturating_sub(taken.saturating_mul(PARTS));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate { burst: 10, per_second: 2 };

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bucket = Bucket::new(RATE, NodeTime(5));
        assert_eq!(bucket.take(NodeTime(5), 30), 10);
        assert_eq!(bucket.take(NodeTime(504), 1), 0);
        assert_eq!(bucket.take(NodeTime(505), 1), 1);
        assert_eq!(bucket.take(NodeTime(60_000), 30), 10, "never more than a burst");
        assert_eq!(bucket.take(NodeTime(1_000), 1), 0, "a clock that goes back gives nothing");
    }

    proptest! {
        #[test]
        fn no_pattern_gets_more_than_burst_and_rate(steps in proptest::collection::vec((0_u64..3_000, 0_u64..50), 1..100)) {
            let mut bucket = Bucket::new(RATE, NodeTime(0));
            let (mut now, mut taken) = (NodeTime(0), 0);
            for (wait, wanted) in steps {
                now = now.plus_ms(wait);
                taken += bucket.take(now, wanted);
                prop_assert!(taken <= 10 + now.0 * 2 / 1_000);
            }
        }
    }
}
