//! Makes a failing list of operations shorter: whatever can be left out while the same invariant breaks is.

use super::operation::Operation;
use super::run::{operations, play};
use super::scenario::Scenario;

/// A failure with as few operations as were found to be enough.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// The invariant that breaks.
    pub invariant: &'static str,
    /// How it breaks with the short list.
    pub how: String,
    /// The short list: each operation and its place in the seed's own.
    pub operations: Vec<(usize, Operation)>,
    /// How many operations the seed has by itself.
    pub of: usize,
    /// How many lists were played.
    pub tries: usize,
}

/// Shrinks the failure of a seed; `None` when it has none. Plays at most so many lists.
///
/// # Errors
/// When a world itself fails.
pub fn shrink(seed: u64, scenario: &Scenario, tries_max: usize) -> anyhow::Result<Option<Shrunk>> {
    let mut list: Vec<(usize, Operation)> = operations(seed, scenario).into_iter().enumerate().collect();
    let attempt = |list: &[(usize, Operation)]| {
        let operations: Vec<Operation> = list.iter().map(|(_, operation)| operation.clone()).collect();
        play(seed, scenario, &operations)
    };
    let Some(broken) = attempt(&list)?.broken.into_iter().next() else { return Ok(None) };
    let (invariant, mut how, of, mut tries) = (broken.invariant, broken.how, list.len(), 1);
    let mut size = list.len().div_ceil(2).max(1);
    while tries < tries_max {
        let mut at = 0;
        let before = list.len();
        while at < list.len() && tries < tries_max {
            let mut without = list.clone();
            without.drain(at..(at + size).min(list.len()));
            tries += 1;
            let outcome = attempt(&without)?;
            match outcome.broken.into_iter().find(|broken| broken.invariant == invariant) {
                Some(broken) => (list, how) = (without, broken.how),
                None => at += size,
            }
        }
        if size == 1 && list.len() == before {
            break;
        }
        size = size.div_ceil(2).max(1);
    }
    Ok(Some(Shrunk { invariant, how, operations: list, of, tries }))
}
