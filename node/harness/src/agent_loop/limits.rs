//! How far a run may go: the one place where defaults are.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::host::HostEnv;
use crate::limits::{DEFAULT_STEPS, DEFAULT_TIME, TIMER_MAX, TOOL_RESULT_BYTES};

/// What a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestedLimits {
    /// Steps: model calls that may ask for tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Time, milliseconds. 0 or less is none at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<i64>,
}

/// How far a run may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopLimits {
    /// Steps: model calls that may ask for tools.
    pub max_steps: u32,
    /// Time.
    pub max_duration: Duration,
}

/// What was asked for, else what the host says (`RUNNER_RUN_TIMEOUT_MS`), else the default.
#[must_use]
pub fn resolve_loop_limits(requested: RequestedLimits, host: &HostEnv) -> LoopLimits {
    let asked =
        requested.max_duration_ms.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
    let duration = asked.or_else(|| host.millis("RUNNER_RUN_TIMEOUT_MS")).unwrap_or(DEFAULT_TIME);
    LoopLimits {
        max_steps: requested.max_steps.unwrap_or(DEFAULT_STEPS),
        max_duration: duration.min(TIMER_MAX),
    }
}

/// How much of a tool's answer a model sees, bytes (`RUNNER_MAX_TOOL_RESULT_BYTES`).
#[must_use]
pub fn tool_result_limit(host: &HostEnv) -> usize {
    let asked = host.number("RUNNER_MAX_TOOL_RESULT_BYTES").and_then(|bytes| usize::try_from(bytes).ok());
    asked.unwrap_or(TOOL_RESULT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_from_the_caller_then_the_host_then_the_default() {
        let nothing = HostEnv::fixed::<String, String>([]);
        let host = HostEnv::fixed([("RUNNER_RUN_TIMEOUT_MS", "5000")]);
        let asked = |max_duration_ms| RequestedLimits { max_steps: Some(3), max_duration_ms };

        let default = resolve_loop_limits(RequestedLimits::default(), &nothing);
        assert_eq!((default.max_steps, default.max_duration), (12, Duration::from_secs(600)));
        assert_eq!(resolve_loop_limits(asked(None), &host).max_duration, Duration::from_secs(5));
        assert_eq!(resolve_loop_limits(asked(Some(7)), &host).max_duration, Duration::from_millis(7));
        assert_eq!(resolve_loop_limits(asked(Some(-7)), &host).max_duration, Duration::ZERO);
        assert_eq!(resolve_loop_limits(asked(Some(i64::MAX)), &host).max_duration, TIMER_MAX);
    }
}
