//! The bounds of evidence. They are part of the format: a verifier refuses what exceeds them, so a signer must too.

use super::canonical::Bounds;

/// Nesting of arrays and objects in any document. Ours nest seven deep; the rest is room for a job's own event data.
pub const MAX_DEPTH: usize = 64;

/// Values in an envelope, statement, receipt, artifact or one event's data: what a parser holds in memory at most.
pub const MAX_NODES: usize = 65_536;

/// Bytes of an envelope: base64 of the largest statement (1.34 MiB) and 32 signatures.
pub const MAX_ENVELOPE_BYTES: usize = 2 * 1024 * 1024;

/// Signatures on an envelope. Each costs at most one verification for every trusted key: 1.3 s in all was measured for
/// the worst envelope (1 MiB, 32 forged signatures) against 16 keys, and a sixteenth of it against one.
pub const MAX_SIGNATURES: usize = 32;

/// Keys in a trust set.
pub const MAX_TRUSTED_KEYS: usize = 16;

/// Bytes of a statement, decoded.
pub const MAX_STATEMENT_BYTES: usize = 1024 * 1024;

/// Bytes of a receipt in canonical form. The rest of a statement is its subjects, which repeat the file digests.
pub const MAX_RECEIPT_BYTES: usize = 768 * 1024;

/// Bytes of a result artifact: it holds both output streams of 1 MiB, six bytes each at worst (`\u0001`).
pub const MAX_ARTIFACT_BYTES: usize = 16 * 1024 * 1024;

/// Events of one job. A job that prints more has its output truncated, which is an event too.
pub const MAX_EVENTS: usize = 65_536;

/// Bytes of one event's data in canonical form.
pub const MAX_EVENT_DATA_BYTES: usize = 1024 * 1024;

/// Bytes of a bundle: an envelope, an artifact escaped once more, and the events, which hold the output again.
pub const MAX_BUNDLE_BYTES: usize = 64 * 1024 * 1024;

/// Values in a bundle: sixteen for each of the most events.
pub const MAX_BUNDLE_NODES: usize = 16 * MAX_EVENTS;

/// Bytes of a certificate in a bundle, decoded. Ours are under 1 KiB.
pub const MAX_CERTIFICATE_BYTES: usize = 16 * 1024;

/// What is accepted as an envelope.
pub const ENVELOPE: Bounds = Bounds { bytes: MAX_ENVELOPE_BYTES, depth: MAX_DEPTH, nodes: MAX_NODES };

/// What is accepted as a statement.
pub const STATEMENT: Bounds = Bounds { bytes: MAX_STATEMENT_BYTES, depth: MAX_DEPTH, nodes: MAX_NODES };

/// What is accepted as a receipt.
pub const RECEIPT: Bounds = Bounds { bytes: MAX_RECEIPT_BYTES, depth: MAX_DEPTH, nodes: MAX_NODES };

/// What is accepted as a result artifact.
pub const ARTIFACT: Bounds = Bounds { bytes: MAX_ARTIFACT_BYTES, depth: MAX_DEPTH, nodes: MAX_NODES };

/// What is accepted as the data of one event.
pub const EVENT: Bounds = Bounds { bytes: MAX_EVENT_DATA_BYTES, depth: MAX_DEPTH, nodes: MAX_NODES };

/// What is accepted as a bundle.
pub const BUNDLE: Bounds = Bounds { bytes: MAX_BUNDLE_BYTES, depth: MAX_DEPTH, nodes: MAX_BUNDLE_NODES };
