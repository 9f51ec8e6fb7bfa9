//! A hash over everything that happened in a run: two runs with equal hashes went the same way.

use std::fmt;

/// FNV-1a over 64 bits: not for enemies, but the same in every build and release.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Trace {
    /// Takes one thing that happened into the hash.
    pub fn note(&mut self, what: &str, details: &[u64]) {
        let details = details.iter().flat_map(|detail| detail.to_be_bytes());
        for byte in what.bytes().chain(details) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({self})")
    }
}
