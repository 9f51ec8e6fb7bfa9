//! How fast one peer's packets are carried: a leaky bucket that makes them wait.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What may pass at once before anybody waits: a probe must not wait for a body that was just slower than allowed.
const BURST: Duration = Duration::from_millis(100);

/// One peer's bucket, shared by everything that is carried for it.
#[derive(Debug)]
pub(super) struct Meter {
    bytes_per_second: u64,
    /// When all that has passed would have, at the allowed rate.
    paid_until: Mutex<Instant>,
}

impl Meter {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, paid_until: Mutex::new(Instant::now()) }
    }

    /// Waits until this many bytes may pass.
    pub(super) async fn pass(&self, bytes: usize) {
        let wait = self.charge(Instant::now(), bytes);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn charge(&self, now: Instant, bytes: usize) -> Duration {
        let nanos = u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(1_000_000_000)
            / u128::from(self.bytes_per_second.max(1));
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paid_until = (*paid_until).max(now) + cost;
        paid_until.saturating_duration_since(now).saturating_sub(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_passes_and_what_is_more_waits_its_time() {
        let meter = Meter::new(1_000_000);
        let now = Instant::now();
        assert_eq!(meter.charge(now, 100_000), Duration::ZERO);
        assert_eq!(meter.charge(now, 50_000), Duration::from_millis(50));
        assert_eq!(
            meter.charge(now + Duration::from_secs(1), 100_000),
            Duration::ZERO,
            "quiet time is forgiven"
        );
    }
}
