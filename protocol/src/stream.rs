//! What a stream between two nodes is for: its first byte, and why it is given up.
//!
//! All streams are bidirectional. After the kind byte come frames ([`crate::codec::frame`]); each kind has its own
//! longest frame.

use crate::limits::{CONTROL_FRAME_BYTES_MAX, PARCEL_FRAME_BYTES_MAX, QUESTION_FRAME_BYTES_MAX};
use crate::relay::RELAY_FRAME_BYTES_MAX;

/// What a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StreamKind {
    /// Hello, and word of leaving.
    Control = 1,
    /// One direction's durable messages, and their acknowledgements back.
    Outbox = 2,
    /// One question and its answer.
    Question = 3,
    /// Records of members.
    Sync = 4,
    /// One large body.
    Bulk = 5,
    /// A request, its answer, and then packets of a connection between two other ends: on a carrier only.
    Relay = 6,
}

impl StreamKind {
    /// The kind with this first byte; `None` for one this build does not know.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Control,
            2 => Self::Outbox,
            3 => Self::Question,
            4 => Self::Sync,
            5 => Self::Bulk,
            6 => Self::Relay,
            _ => return None,
        })
    }

    /// The first byte of such a stream.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Bytes of the longest frame on such a stream.
    #[must_use]
    pub const fn frame_bytes_max(self) -> usize {
        match self {
            Self::Control | Self::Sync => CONTROL_FRAME_BYTES_MAX,
            Self::Outbox => PARCEL_FRAME_BYTES_MAX,
            Self::Question | Self::Bulk => QUESTION_FRAME_BYTES_MAX,
            Self::Relay => RELAY_FRAME_BYTES_MAX,
        }
    }
}

/// Why one end gave a stream up: the application error codes of RESET_STREAM and STOP_SENDING (RFC 9000, sections
/// 19.4 and 19.5). The connection stays. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum StopCode {
    /// Whoever wanted it no longer does.
    Cancelled = 1,
    /// The first byte is no kind this build knows.
    UnknownKind = 2,
    /// A frame is longer than its kind may be.
    FrameTooLong = 3,
    /// What came is not what this stream is for.
    Malformed = 4,
    /// The first byte did not come in time.
    NoKind = 5,
    /// This end does not take such a stream now.
    Busy = 6,
}

impl StopCode {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The code with this number; `None` for one this build does not know.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Cancelled,
            2 => Self::UnknownKind,
            3 => Self::FrameTooLong,
            4 => Self::Malformed,
            5 => Self::NoKind,
            6 => Self::Busy,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_codes_read_back_from_their_numbers() {
        let kinds: Vec<StreamKind> = (0..=255).filter_map(StreamKind::from_byte).collect();
        assert_eq!(kinds.len(), 6);
        assert!(kinds.iter().all(|kind| StreamKind::from_byte(kind.byte()) == Some(*kind)));
        let codes: Vec<StopCode> = (0..=255).filter_map(StopCode::from_number).collect();
        assert_eq!(codes.len(), 6);
        assert!(codes.iter().all(|code| StopCode::from_number(code.number().into()) == Some(*code)));
    }
}
