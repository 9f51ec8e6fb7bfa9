//! When to dial again a peer that did not answer: doubling, capped, and spread so that nodes do not fall into step.

use rand::{Rng, RngExt as _};

/// The first wait, milliseconds.
pub const BACKOFF_FIRST_MS: u64 = 200;
/// The longest wait after an ordinary failure. A peer is dialled for ever, so this is what its absence costs.
pub const BACKOFF_CAP_MS: u64 = 30_000;
/// The wait after a failure that time alone does not mend: a refused certificate, no common version.
pub const BACKOFF_STANDING_MS: u64 = 300_000;

/// Whether dialling again soon could help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No answer, connection lost, address refused: it may work in a moment.
    Passing,
    /// One side does not accept the other's certificate or membership.
    Refused,
    /// No protocol version in common.
    Incompatible,
}

/// How often in a row a peer could not be dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts a failure; returns the wait before the next dial in milliseconds, with up to 20 % either way.
    pub fn after(&mut self, kind: FailureKind, rng: &mut dyn Rng) -> u64 {
        let wait = match kind {
            FailureKind::Passing => {
                let doubled = BACKOFF_FIRST_MS.checked_shl(self.failures).unwrap_or(BACKOFF_CAP_MS);
                self.failures = self.failures.saturating_add(1).min(16);
                doubled.min(BACKOFF_CAP_MS)
            }
            FailureKind::Refused | FailureKind::Incompatible => BACKOFF_STANDING_MS,
        };
        let fifth = wait / 5;
        rng.random_range(wait.saturating_sub(fifth)..=wait.saturating_add(fifth))
    }

    /// The peer showed itself, or there is news of it: the next failure counts as the first.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn waits_double_to_the_cap_and_stay_there() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut backoff = Backoff::default();
        for doubled in [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let wait = backoff.after(FailureKind::Passing, &mut rng);
            assert!((doubled * 4 / 5..=doubled * 6 / 5).contains(&wait), "{wait} for {doubled}");
        }
        for _ in 0..100 {
            assert!(backoff.after(FailureKind::Passing, &mut rng) <= BACKOFF_CAP_MS * 6 / 5);
        }
        backoff.reset();
        assert!(backoff.after(FailureKind::Passing, &mut rng) <= 240);
    }

    #[test]
    fn what_time_does_not_mend_waits_minutes_at_once() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let wait = Backoff::default().after(FailureKind::Refused, &mut rng);
        assert!((240_000..=360_000).contains(&wait));
    }
}
