//! How often a tenant may ask: a bucket of a minute's requests for each, that fills again evenly.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Tenants remembered at most: more than a credentials file can name. Beyond it the longest unused is forgotten.
const TENANTS_MAX: usize = super::limits::CREDENTIALS_MAX;

/// The buckets of all tenants.
pub(super) struct Rates {
    per_minute: u32,
    buckets: Mutex<HashMap<String, Bucket>>,
}

struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute, buckets: Mutex::default() }
    }

    /// Whether this request is within the rate; it is counted if so.
    pub(super) fn admits(&self, tenant: &str, now: Instant) -> bool {
        let full = f64::from(self.per_minute);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= TENANTS_MAX && !buckets.contains_key(tenant) {
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(name, _)| name.clone());
            oldest.map(|name| buckets.remove(&name));
        }
        let bucket = buckets.entry(tenant.to_owned()).or_insert(Bucket { left: full, at: now });
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * full / 60.0;
        bucket.left = (bucket.left + gained).min(full);
        bucket.at = now;
        let admitted = bucket.left >= 1.0;
        if admitted {
            bucket.left -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_minutes_requests_come_at_once_and_then_evenly_and_each_tenant_has_its_own() {
        let (rates, now) = (Rates::new(120), Instant::now());
        let admitted = |tenant: &str, at| (0..500).take_while(|_| rates.admits(tenant, at)).count();
        assert_eq!(admitted("a", now), 120);
        assert_eq!(admitted("a", now + Duration::from_millis(501)), 1);
        assert_eq!(admitted("b", now), 120);
    }
}
