//! The rows of the journal in memory: what was committed since the tree was last made durable.
//!
//! A removed row is remembered only where the tree may have one: what lives and dies between two rounds of the journal,
//! as most messages do, leaves nothing here and never costs the tree anything. A row that was not here when it was removed
//! leaves a mark, whether the tree has it or not.
//!
//! While a round is on its way into the tree, what is written after it is also kept apart ([`Since`]): that is what stays
//! on top once the tree has the round.
//!
//! A clone shares everything with its original and neither sees what is later written to the other.

use std::ops::Bound;

use bytes::Bytes;
use rpds::RedBlackTreeMapSync;

/// Rows by their key on disk; `None` where the tree's row is gone.
#[derive(Clone, Default)]
pub(super) struct Recent(RedBlackTreeMapSync<Bytes, Option<Bytes>>);

/// A row, or that the tree's is gone.
type Found<'a> = (&'a Bytes, &'a Option<Bytes>);

impl Recent {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.0.get(key)
    }

    /// Puts a row, or removes one that the tree may have as well, or has not.
    pub(super) fn write(&mut self, key: Bytes, value: Option<Bytes>, in_tree: bool) {
        if value.is_some() || in_tree {
            self.0.insert_mut(key, value);
        } else {
            self.0.remove_mut(&key);
        }
    }

    /// All rows, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = Found<'_>> {
        self.0.iter()
    }

    /// Those of a range, in the order of their keys.
    pub(super) fn range<'a>(
        &'a self,
        range: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    ) -> impl DoubleEndedIterator<Item = Found<'a>> {
        self.0.range::<[u8], _>(range)
    }
}

/// What was written since the journal turned.
#[derive(Clone)]
pub(super) struct Since {
    /// The round before, which the tree will have.
    round: Recent,
    rows: Recent,
}

impl Since {
    /// Nothing yet, after this round.
    pub(super) fn new(round: Recent) -> Self {
        Self { round, rows: Recent::default() }
    }

    /// Puts a row, or removes one that the tree now may have, or has not.
    pub(super) fn write(&mut self, key: Bytes, value: Option<Bytes>, in_tree: bool) {
        let will_be = self.round.get(&key).map_or(in_tree, Option::is_some);
        self.rows.write(key, value, will_be);
    }

    /// What is not in the tree that has the round.
    pub(super) fn into_rows(self) -> Recent {
        self.rows
    }
}
