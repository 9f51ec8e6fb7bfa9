//! Every bound of the job API, with its unit and its reason. What it shares with the node's own API is in
//! [`crate::api::limits`].

use std::time::Duration;

use crate::api::limits::{ANSWER_WITHIN, BODIES_MAX, BODY_WITHIN, REQUESTS_MAX, WAITS_MAX};

/// Requests of one tenant in a minute, when the operator does not say. One more is told `rate_limit_exceeded`.
pub const REQUESTS_PER_MINUTE: u32 = 120;

/// Bodies of one tenant in memory at once: half of all.
pub const TENANT_BODIES_MAX: usize = BODIES_MAX / 2;

/// Waits of one tenant at once: a quarter of all.
pub const TENANT_WAITS_MAX: usize = WAITS_MAX / 4;

/// Results and proofs under way at once, each with what a job left: some 10 MiB of memory each at most.
pub const ANSWERS_MAX: usize = 16;

/// Of one tenant.
pub const TENANT_ANSWERS_MAX: usize = ANSWERS_MAX / 2;

/// Streams at once. Each waits for its job and costs a connection.
pub const STREAMS_MAX: usize = 64;

/// Of one tenant.
pub const TENANT_STREAMS_MAX: usize = STREAMS_MAX / 4;

/// Seconds a stream ticket is good for.
pub const TICKET_SECONDS: u64 = 30;

/// Stream tickets out at once.
pub const TICKETS_MAX: usize = 1_024;

/// Of one tenant.
pub const TENANT_TICKETS_MAX: usize = TICKETS_MAX / 16;

/// Bytes of a message that a stream hears: it understands one of four.
pub const HEARD_BYTES_MAX: usize = 1_024;

/// How long a client may take to make room for one message of a stream.
pub const SEND_WITHIN: Duration = Duration::from_secs(5);

/// How long a closed stream waits for the client to have noticed.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Characters of the metrics token, at least.
pub const METRICS_TOKEN_CHARS_MIN: usize = 16;

/// Bytes of an `Authorization` header: what signed tokens need.
pub const BEARER_BYTES_MAX: usize = 16 * 1024;

/// Seconds a result is waited for, when the caller does not say.
pub const WAIT_SECONDS_DEFAULT: u64 = 60;

/// How long a cancellation waits for the job's end before it shows what is.
pub const CANCELLED_WITHIN: Duration = Duration::from_secs(2);

/// Bytes of an idempotency key.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

/// Bytes of the credentials file.
pub const CREDENTIALS_BYTES_MAX: u64 = 1024 * 1024;

/// Credentials in it.
pub const CREDENTIALS_MAX: usize = 10_000;

/// Characters of a key id, a tenant or a principal.
pub const NAME_CHARS_MAX: usize = 64;

/// Characters of the secret in a key, at least.
pub const SECRET_CHARS_MIN: usize = 32;

/// Bytes of the pepper's file that we read: it has 65.
pub const PEPPER_FILE_BYTES_MAX: u64 = 256;

/// Room for something: of all tenants together, and of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// For all.
    pub all: usize,
    /// For each.
    pub each: usize,
}

/// The limits of a listener that a test may want smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// [`REQUESTS_MAX`].
    pub requests: usize,
    /// [`REQUESTS_PER_MINUTE`].
    pub requests_per_minute: u32,
    /// [`BODIES_MAX`], [`TENANT_BODIES_MAX`].
    pub bodies: Share,
    /// [`WAITS_MAX`], [`TENANT_WAITS_MAX`].
    pub waits: Share,
    /// [`ANSWERS_MAX`], [`TENANT_ANSWERS_MAX`].
    pub answers: Share,
    /// [`STREAMS_MAX`], [`TENANT_STREAMS_MAX`].
    pub streams: Share,
    /// [`BODY_WITHIN`].
    pub body_within: Duration,
    /// [`ANSWER_WITHIN`].
    pub answer_within: Duration,
    /// [`SEND_WITHIN`].
    pub send_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: REQUESTS_MAX,
            requests_per_minute: REQUESTS_PER_MINUTE,
            bodies: Share { all: BODIES_MAX, each: TENANT_BODIES_MAX },
            waits: Share { all: WAITS_MAX, each: TENANT_WAITS_MAX },
            answers: Share { all: ANSWERS_MAX, each: TENANT_ANSWERS_MAX },
            streams: Share { all: STREAMS_MAX, each: TENANT_STREAMS_MAX },
            body_within: BODY_WITHIN,
            answer_within: ANSWER_WITHIN,
            send_within: SEND_WITHIN,
        }
    }
}
