//! Why a connection ends: the application error codes of QUIC's CONNECTION_CLOSE (RFC 9000, section 19.19).
//!
//! Codes are numbers on the wire: never reuse or renumber one. An unknown code closes a connection like any other.

use std::fmt;

/// Why one end closed a connection that both had, or were about to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// The node is shutting down; it will be back.
    Leaving,
    /// A better connection between the same nodes is in use.
    Superseded,
    /// The other end was revoked.
    Revoked,
    /// This end's operator wants nothing to do with the other.
    Blocked,
    /// No common version.
    Incompatible,
    /// No Hello, or no answer to it, in time.
    NoHello,
    /// The Hello names another node than the certificate, or another mesh.
    FalseHello,
    /// The other end broke the protocol.
    Protocol,
    /// This end has all the connections it will hold.
    Busy,
    /// Nothing used the connection for long enough.
    Idle,
    /// What carried the connection's packets is gone.
    PathLost,
    /// A code this build does not know, as it came.
    Other(u32),
}

impl CloseCode {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Leaving => 1,
            Self::Superseded => 2,
            Self::Revoked => 3,
            Self::Blocked => 4,
            Self::Incompatible => 5,
            Self::NoHello => 6,
            Self::FalseHello => 7,
            Self::Protocol => 8,
            Self::Busy => 9,
            Self::Idle => 10,
            Self::PathLost => 11,
            Self::Other(number) => number,
        }
    }

    /// The code with this number. Total: what is not known is [`Self::Other`].
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Leaving,
            2 => Self::Superseded,
            3 => Self::Revoked,
            4 => Self::Blocked,
            5 => Self::Incompatible,
            6 => Self::NoHello,
            7 => Self::FalseHello,
            8 => Self::Protocol,
            9 => Self::Busy,
            10 => Self::Idle,
            11 => Self::PathLost,
            other => Self::Other(u32::try_from(other).unwrap_or(u32::MAX)),
        }
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Leaving => "the node is shutting down",
            Self::Superseded => "another connection is in use",
            Self::Revoked => "revoked",
            Self::Blocked => "blocked",
            Self::Incompatible => "no common version",
            Self::NoHello => "no hello in time",
            Self::FalseHello => "the hello does not fit the certificate",
            Self::Protocol => "a broken protocol rule",
            Self::Busy => "too many connections",
            Self::Idle => "nothing to do",
            Self::PathLost => "the relay no longer carries it",
            Self::Other(number) => return write!(f, "code {number}"),
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_is_a_code_and_reads_back(number in 0_u32..200) {
            prop_assert_eq!(CloseCode::from_number(number.into()).number(), number);
        }
    }

    #[test]
    fn a_number_beyond_32_bits_is_some_other_code() {
        assert_eq!(CloseCode::from_number(u64::MAX), CloseCode::Other(u32::MAX));
    }
}
