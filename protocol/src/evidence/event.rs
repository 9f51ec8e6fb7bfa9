//! One event of a job, and the bytes its hash is taken of.
//!
//! The hash of an event is the SHA-256 of these bytes, all integers big-endian:
//!
//! ```text
//!   16  the ASCII text "mesh-job-event" and two zero bytes
//!    8  hash_version = 1
//!    8  length of the job id, then the job id in UTF-8
//!    8  seq, 1 for a job's first event
//!    8  ts_ms, Unix time in milliseconds by the node's wall clock
//!    8  length of the kind, then the kind in ASCII
//!    8  length of the data, then the data in canonical JSON
//!    8  length of prev_hash: 0 for the first event, else 32, then its 32 bytes
//! ```
//!
//! Lengths go before every part of variable size, so no two events share these bytes. What makes events a chain, and
//! what breaks one, is in [`super::chain`].

use serde::{Deserialize, Serialize};

use super::canonical::Value;
use super::digest::Digest;

/// The version of the preimage above.
pub const HASH_VERSION: u64 = 1;

const DOMAIN: &[u8; 16] = b"mesh-job-event\0\0";

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// The job was accepted; the first event of a complete chain.
    Accepted,
    /// The sandbox was started for it.
    Started,
    /// A record the job wrote to standard output.
    Stdout,
    /// A record the job wrote to standard error.
    Stderr,
    /// The job broke a rule.
    Violation,
    /// Output was dropped from here on because a bound was reached.
    Truncated,
    /// An output file was collected.
    Artifact,
    /// The job reached a terminal status; always the last event.
    Finished,
}

impl EventKind {
    /// The kind as it is hashed and written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Started => "started",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Violation => "violation",
            Self::Truncated => "truncated",
            Self::Artifact => "artifact",
            Self::Finished => "finished",
        }
    }
}

/// One event of a job. Every member is covered by `event_hash`, so an unknown member is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Place in the job's chain, from 1.
    pub seq: u64,
    /// Unix time in milliseconds.
    pub ts_ms: u64,
    /// What happened.
    pub kind: EventKind,
    /// Its particulars.
    pub data: Value,
    /// `event_hash` of the event before; `null` for the first.
    pub prev_hash: Option<Digest>,
    /// The hash of this event.
    pub event_hash: Digest,
    /// [`HASH_VERSION`].
    pub hash_version: u64,
}

impl Event {
    /// The event at place `seq` of a job's chain, with its hash.
    pub(super) fn new(
        job_id: &str,
        seq: u64,
        ts_ms: u64,
        kind: EventKind,
        data: Value,
        prev_hash: Option<Digest>,
    ) -> Self {
        let blank = Digest::from_bytes([0; 32]);
        let mut event =
            Self { seq, ts_ms, kind, data, prev_hash, event_hash: blank, hash_version: HASH_VERSION };
        event.event_hash = Digest::of(&event.preimage(job_id));
        event
    }

    /// The bytes whose SHA-256 is `event_hash`: everything but that hash itself.
    #[must_use]
    pub fn preimage(&self, job_id: &str) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        bytes.extend(self.hash_version.to_be_bytes());
        push_sized(&mut bytes, job_id.as_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ts_ms.to_be_bytes());
        push_sized(&mut bytes, self.kind.as_str().as_bytes());
        push_sized(&mut bytes, self.data.to_canonical().as_bytes());
        push_sized(&mut bytes, self.prev_hash.as_ref().map_or(&[], |hash| hash.as_bytes()));
        bytes
    }
}

fn push_sized(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend((part.len() as u64).to_be_bytes());
    bytes.extend(part);
}
