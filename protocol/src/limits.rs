//! Every bound on what crosses a wire, with its unit and its reason.
//!
//! A peer may send anything; these are the sizes at which we stop reading before we allocate.

/// Bytes of one frame on a control or sync stream. Hello, digests and records are small; a page of records fits.
pub const CONTROL_FRAME_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one frame on an outbox stream: one message with its body inline.
///
/// A job may carry 1 MiB of code and 1 MiB of standard input; its result carries two output streams as text and, signed,
/// once more as JSON. What is longer, a job with files, goes in parts.
pub const PARCEL_FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of one part of a message that is longer than a parcel: what one commit takes without being noticed.
pub const PART_BYTES: usize = 1024 * 1024;

/// Bytes of a whole message: a result with its files, its signed account and its events.
pub const MESSAGE_BYTES_MAX: usize = 24 * PART_BYTES;

/// Bytes of one request or reply on a question stream (revocations, a grant).
pub const QUESTION_FRAME_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one datagram: a probe. The smallest QUIC datagram every path carries (RFC 9000, section 14).
pub const DATAGRAM_BYTES_MAX: usize = 1_100;

/// Messages in one request that sends many: one batch of the node's writer.
pub const SEND_BATCH_MAX: usize = 256;

/// Bytes of the text of one message or one task.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a host's or an agent's name.
pub const NAME_BYTES_MAX: usize = 64;

/// Addresses one node may advertise.
pub const ADDRESSES_MAX: usize = 8;

/// Agents one node may advertise in its directory record.
pub const ADVERTISED_AGENTS_MAX: usize = 64;

const _: () =
    assert!(BODY_BYTES_MAX * 2 < PARCEL_FRAME_BYTES_MAX, "two bodies and their frame fit in one parcel");
