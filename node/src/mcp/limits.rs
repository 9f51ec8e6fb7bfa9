//! Every bound of the MCP adapter, with its unit and its reason.

use std::time::Duration;

use crate::api::limits::WAIT_SECONDS_MAX;

/// Calls at work at once. A host runs a handful side by side; one more is told `busy`.
pub const CALLS_MAX: usize = 64;

/// Calls that may wait for something to end at once: half of all, so that waits never keep a cancel out.
pub const WAITS_MAX: usize = CALLS_MAX / 2;

/// Seconds one call may wait: what the node allows.
pub const CALL_WAIT_SECONDS_MAX: u64 = WAIT_SECONDS_MAX;

/// Seconds `ask` and the waiting tools wait when the caller names no number: under the minute after which some hosts
/// give a call up.
pub const WAIT_SECONDS_DEFAULT: u64 = 30;

/// Seconds `run_code` waits when the caller names no number: four times the default limit of a job.
pub const RUN_WAIT_SECONDS_DEFAULT: u64 = 60;

/// Bytes of a reply or of an output stream that one result shows. A model reads the result, twice (as structure and
/// as text), and pays for every word; the node keeps the rest.
pub const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// Operations in the reconciliation table: active submissions and those whose outcome is not known.
pub const SUBMISSIONS_MAX: usize = 1_024;

/// How long the key of a submission with unknown outcome is kept.
pub const UNRESOLVED_FOR: Duration = Duration::from_secs(10 * 60);

/// How long stopping a job may take once its call was cancelled.
pub const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// How long running calls may take to end by themselves once the host closed our input: it may still read answers.
pub const FINISH_WITHIN: Duration = Duration::from_millis(400);

/// How long stopped calls may take to tell the node. With [`FINISH_WITHIN`] this stays under the second hosts give a
/// server to leave.
pub const STOP_WITHIN: Duration = Duration::from_millis(400);
