//! Every bound of the HTTP API, with its unit and its reason.

use std::time::Duration;

use mesh_protocol::job::JOB_DOCUMENT_BYTES_MAX;

/// Bytes of a request's body. The longest is a job, whatever its texts and files are, and what goes with it.
pub const BODY_BYTES_MAX: usize = JOB_DOCUMENT_BYTES_MAX + 64 * 1024;

/// How long a body may take to arrive. It comes from this machine, so even this is generous.
pub const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Bodies in memory at once: 400 MiB of them at most, and few are that long. One more is told `busy`.
pub const BODIES_MAX: usize = 16;

/// Requests at work at once, waits among them. One more is told `busy`.
pub const REQUESTS_MAX: usize = 256;

/// Requests that wait for something to end at once: half of all, so that waits never keep a cancel out.
pub const WAITS_MAX: usize = REQUESTS_MAX / 2;

/// Seconds a caller may wait for something to end: below what proxies and HTTP clients give up at.
pub const WAIT_SECONDS_MAX: u64 = 300;

/// How long the node may take to answer, beyond the wait that was asked for. Shorter than the client's patience, so
/// that the client hears why.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(9);

/// Connections open at once. Those beyond it stay in the kernel's queue until one closes.
pub const CONNECTIONS_MAX: usize = 512;

/// How long a connection may take to send a request's head, from its opening or from the answer before.
pub const HEAD_WITHIN: Duration = Duration::from_secs(15);

/// How long a connection lives, whatever it does: the longest wait, a slow body, and an answer read slowly.
pub const CONNECTION_WITHIN: Duration = Duration::from_secs(600);

/// Bytes of a request's head and of the buffer a connection reads into.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Header fields of a request.
pub const HEADERS_MAX: usize = 64;

/// How long answers that are being written may take once the node stops.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(3);

/// Bytes of one varying part of a path: the longest is a node id or a name.
pub const SEGMENT_BYTES_MAX: usize = 128;

/// Bytes of an `Authorization` header that we look at.
pub const CREDENTIAL_BYTES_MAX: usize = 256;

/// Session tokens alive at once. One a run, and a node runs far fewer agents than this.
pub const SESSIONS_MAX: usize = 1024;

/// Bytes of the operator's token file that we read: it has 53.
pub const TOKEN_FILE_BYTES_MAX: u64 = 256;

/// The limits of a listener that a test may want smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// [`REQUESTS_MAX`].
    pub requests: usize,
    /// [`WAITS_MAX`].
    pub waits: usize,
    /// [`BODIES_MAX`].
    pub bodies: usize,
    /// [`BODY_WITHIN`].
    pub body_within: Duration,
    /// [`ANSWER_WITHIN`].
    pub answer_within: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: REQUESTS_MAX,
            waits: WAITS_MAX,
            bodies: BODIES_MAX,
            body_within: BODY_WITHIN,
            answer_within: ANSWER_WITHIN,
        }
    }
}
