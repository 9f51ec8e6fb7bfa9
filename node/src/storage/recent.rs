//! The rows of the journal in memory: what was committed since the tree was last made durable.
//!
//! A removed row is remembered only where the tree has one: what lives and dies between two rounds of the journal, as
//! most messages do, leaves nothing here and never costs the tree anything.
//!
//! A clone shares everything with its original and neither sees what is later written to the other.

use std::ops::Bound;

use rpds::RedBlackTreeMapSync;

/// Rows by their key on disk; `None` where the tree's row is gone.
#[derive(Clone, Default)]
pub(super) struct Recent(RedBlackTreeMapSync<Vec<u8>, Option<Vec<u8>>>);

/// A row, or that the tree's is gone.
type Found<'a> = (&'a Vec<u8>, &'a Option<Vec<u8>>);

impl Recent {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.0.get(key)
    }

    pub(super) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.0.insert_mut(key, Some(value));
    }

    /// Removes a row that the tree has as well, or has not.
    pub(super) fn remove(&mut self, key: Vec<u8>, in_tree: bool) {
        if in_tree {
            self.0.insert_mut(key, None);
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
