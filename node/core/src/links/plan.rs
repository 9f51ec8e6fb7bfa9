//! Which addresses one dial tries, and when.

use std::net::SocketAddr;

/// Addresses one dial tries. A node has up to eight; the next dial goes on where this one stopped.
pub const ATTEMPTS_MAX: usize = 3;
/// Milliseconds between the starts of two attempts (Happy Eyeballs, RFC 8305, uses 100 to 250).
pub const ATTEMPT_SPACING_MS: u64 = 150;
/// How long a dial tries the peer's own addresses alone before it also asks other members to relay, milliseconds: three
/// slow handshakes, and short enough that nobody is judged meanwhile. When the addresses fail sooner, sooner.
pub const DETOUR_AFTER_MS: u64 = 1_000;

/// One address of a dial. The first attempt to finish its handshake wins; the driver drops the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Where to.
    pub address: SocketAddr,
    /// How long after the start of the dial.
    pub after_ms: u64,
}

/// The attempts of the dial that follows `failures` failed ones: the address that last worked, then the others in the
/// order they are advertised, starting further down after each failure so that all get their turn.
#[must_use]
pub fn plan(addresses: &[SocketAddr], last_good: Option<SocketAddr>, failures: usize) -> Vec<Attempt> {
    let good = last_good.filter(|good| addresses.contains(good));
    let others: Vec<SocketAddr> =
        addresses.iter().copied().filter(|address| Some(*address) != good).collect();
    let turns = ATTEMPTS_MAX.saturating_sub(usize::from(good.is_some()));
    let start = failures.saturating_mul(turns).checked_rem(others.len()).unwrap_or(0);
    let rotated = others.iter().skip(start).chain(others.iter().take(start)).copied();
    let chosen = good.into_iter().chain(rotated).take(ATTEMPTS_MAX);
    chosen
        .zip(0_u64..)
        .map(|(address, turn)| Attempt { address, after_ms: turn * ATTEMPT_SPACING_MS })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn ports(attempts: &[Attempt]) -> Vec<u16> {
        attempts.iter().map(|attempt| attempt.address.port()).collect()
    }

    #[test]
    fn the_address_that_worked_is_tried_first_and_every_other_gets_its_turn() {
        let all: Vec<SocketAddr> = (1..=5).map(address).collect();
        assert_eq!(ports(&plan(&all, Some(address(4)), 0)), [4, 1, 2]);
        assert_eq!(ports(&plan(&all, Some(address(4)), 1)), [4, 3, 5]);
        assert_eq!(ports(&plan(&all, Some(address(9)), 0)), [1, 2, 3]);
        assert_eq!(plan(&all, None, 0).last().unwrap().after_ms, 300);
        assert!(plan(&[], Some(address(1)), 7).is_empty());
    }
}
