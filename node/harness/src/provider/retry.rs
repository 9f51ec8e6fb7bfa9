//! Whether a failed request is worth repeating, and how long to wait before that. Pure.
//!
//! The rule is that of the vendors' own clients: connection errors, timeouts, 408, 409, 429 and 5xx are worth it, unless
//! the server says otherwise; the server's own wait counts, else it doubles from half a second to eight.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::limits::{RETRY_FIRST_WAIT, RETRY_LONGEST_WAIT, RETRY_SERVER_WAIT};

/// Whether an answer with this status and these headers is worth asking again.
pub(super) fn is_worth_it(status: u16, headers: &HeaderMap) -> bool {
    match headers.get("x-should-retry").and_then(|value| value.to_str().ok()) {
        Some("true") => true,
        Some("false") => false,
        _ => matches!(status, 408 | 409 | 429) || status >= 500,
    }
}

/// How long to wait before repeat number `repeat` (from 0). `chance` is between 0 and 1.
pub(super) fn wait(repeat: u32, headers: Option<&HeaderMap>, now: SystemTime, chance: f64) -> Duration {
    if let Some(asked) = headers.and_then(|headers| asked(headers, now)).filter(|asked| !asked.is_zero()) {
        return asked.min(RETRY_SERVER_WAIT);
    }
    let doubled = RETRY_FIRST_WAIT.saturating_mul(2_u32.saturating_pow(repeat));
    doubled.min(RETRY_LONGEST_WAIT).mul_f64(1.0 - 0.25 * chance.clamp(0.0, 1.0))
}

/// What the server asks for.
fn asked(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = text(RETRY_AFTER.as_str())?;
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_passes_by_itself_is_repeated_unless_the_server_says_otherwise() {
        let none = HeaderMap::new();
        for status in [408, 409, 429, 500, 503, 529] {
            assert!(is_worth_it(status, &none), "{status}");
            assert!(!is_worth_it(status, &headers(&[("x-should-retry", "false")])), "{status}");
        }
        for status in [400, 401, 403, 404, 422] {
            assert!(!is_worth_it(status, &none), "{status}");
            assert!(is_worth_it(status, &headers(&[("x-should-retry", "true")])), "{status}");
        }
    }

    #[test]
    fn the_wait_doubles_up_to_a_limit_and_varies_downwards() {
        let at = |repeat, chance| wait(repeat, None, SystemTime::UNIX_EPOCH, chance);
        let waits: Vec<u128> = (0..7).map(|repeat| at(repeat, 0.0).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(at(0, 1.0), Duration::from_millis(375));
        assert_eq!(at(u32::MAX, 0.0), Duration::from_secs(8));
    }

    #[test]
    fn the_servers_own_wait_counts_and_is_bounded() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let given = |pairs: &[(&'static str, &'static str)]| wait(0, Some(&headers(pairs)), now, 0.0);
        assert_eq!(given(&[("retry-after-ms", "50"), ("retry-after", "9")]), Duration::from_millis(50));
        assert_eq!(given(&[("retry-after", "2")]), Duration::from_secs(2));
        assert_eq!(given(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")]), Duration::from_secs(10));
        assert_eq!(given(&[("retry-after", "1e12")]), RETRY_SERVER_WAIT);
        for nonsense in ["-1", "0", "soon", "NaN", "1e300", "Sun, 06 Nov 1994 08:49:00 GMT"] {
            assert_eq!(given(&[("retry-after", nonsense)]), Duration::from_millis(500), "{nonsense}");
        }
    }
}
