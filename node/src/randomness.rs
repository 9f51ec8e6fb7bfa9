//! Where a node's chance comes from: the system, or a seed in a simulation.
//!
//! Everything random that a node decides by is a stream of its own, named by its purpose, so that one more draw in one
//! place changes nothing in another. Keys are not drawn here: they always come from the system.

use rand::SeedableRng;
use rand::rngs::StdRng;
use sha2::{Digest, Sha256};

/// The source of all of a node's chance but its keys.
#[derive(Clone, Copy, Default)]
pub struct Randomness(Option<[u8; 32]>);

/// A seed is as good as everything drawn from it, so it is not shown.
impl std::fmt::Debug for Randomness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Randomness(seeded)" } else { "Randomness(system)" })
    }
}

impl Randomness {
    /// The system's: nobody can tell what comes.
    pub const SYSTEM: Self = Self(None);

    /// Repeatable, for simulations: the same seed gives the same draws. Every start of a node needs a seed of its own,
    /// as no two processes draw the same.
    #[must_use]
    pub const fn seeded(seed: [u8; 32]) -> Self {
        Self(Some(seed))
    }

    /// The draws for one purpose.
    #[must_use]
    pub fn stream(&self, purpose: &str) -> StdRng {
        self.seed(purpose).map_or_else(rand::make_rng, StdRng::from_seed)
    }

    /// A seed for one purpose; `None` when the system is to be asked.
    #[must_use]
    pub fn seed(&self, purpose: &str) -> Option<[u8; 32]> {
        let seed = self.0?;
        Some(Sha256::new().chain_update(seed).chain_update(purpose).finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn a_seed_repeats_itself_and_its_purposes_differ() {
        let chance = Randomness::seeded([7; 32]);
        let draw = |purpose| chance.stream(purpose).next_u64();
        assert_eq!(draw("writer"), draw("writer"));
        assert_ne!(draw("writer"), draw("delivery"));
        assert_ne!(draw("writer"), Randomness::seeded([8; 32]).stream("writer").next_u64());
    }

    #[test]
    fn the_system_does_not_repeat_itself() {
        let draw = || Randomness::SYSTEM.stream("writer").next_u64();
        assert_ne!(draw(), draw());
    }
}
