//! Why a connection ended, as this end knows it.

use mesh_protocol::close::CloseCode;
use quinn::ConnectionError;
use thiserror::Error;

/// Bytes of a peer's own words that are kept.
const REASON_BYTES_MAX: usize = 200;

/// Why a connection ended.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// This end closed it.
    #[error("closed here: {0}")]
    Here(CloseCode),
    /// The other end closed it.
    #[error("closed by the peer: {code}")]
    There {
        /// Its code.
        code: CloseCode,
        /// Its own words, cut and without control characters.
        text: String,
    },
    /// Nothing was heard for the idle time.
    #[error("nothing was heard from the peer")]
    TimedOut,
    /// The peer's process does not know the connection: it restarted.
    #[error("the peer restarted")]
    Restarted,
    /// One end broke QUIC's rules, or TLS failed.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl CloseReason {
    /// From the library's error, which does not keep what this end closed with.
    pub(super) fn new(error: &ConnectionError, closed_here: Option<CloseCode>) -> Self {
        match error {
            ConnectionError::LocallyClosed => Self::Here(closed_here.unwrap_or(CloseCode::Leaving)),
            ConnectionError::ApplicationClosed(close) => Self::There {
                code: CloseCode::from_number(close.error_code.into_inner()),
                text: foreign_text(&close.reason),
            },
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::Reset => Self::Restarted,
            other => Self::Broken(foreign_text(other.to_string().as_bytes())),
        }
    }
}

/// A peer's words as text for people: bounded, and nothing a terminal would act on.
fn foreign_text(bytes: &[u8]) -> String {
    let cut = bytes.get(..REASON_BYTES_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(cut).chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_words_are_cut_and_cleaned() {
        assert_eq!(foreign_text(b"\x1b[2Jbye\n"), "[2Jbye");
        assert_eq!(foreign_text(&[b'a'; 500]).len(), REASON_BYTES_MAX);
        assert_eq!(foreign_text(&[0xff]), "\u{fffd}");
    }
}
