//! Rows of all tables in ordered maps, as the two stores in memory keep them.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Scan, Table};

/// Something for each row of each table. No table in it is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tables<V>(BTreeMap<Table, BTreeMap<Vec<u8>, V>>);

impl<V> Default for Tables<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> Tables<V> {
    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<&V> {
        self.0.get(&table)?.get(key)
    }

    pub(super) fn insert(&mut self, table: Table, key: Vec<u8>, value: V) {
        self.0.entry(table).or_default().insert(key, value);
    }

    pub(super) fn remove(&mut self, table: Table, key: &[u8]) {
        let Some(rows) = self.0.get_mut(&table) else { return };
        rows.remove(key);
        if rows.is_empty() {
            self.0.remove(&table);
        }
    }

    /// What a scan may visit, in its direction, without its limit.
    pub(super) fn visit<'a>(
        &'a self,
        table: Table,
        scan: &'a Scan,
    ) -> Box<dyn Iterator<Item = (&'a [u8], &'a V)> + 'a> {
        let Some(rows) = self.0.get(&table) else { return Box::new(std::iter::empty()) };
        let to = match &scan.to {
            Some(to) if *to <= scan.from => return Box::new(std::iter::empty()),
            Some(to) => Bound::Excluded(to.as_slice()),
            None => Bound::Unbounded,
        };
        let entries = rows.range::<[u8], _>((Bound::Included(scan.from.as_slice()), to));
        let entries = entries.map(|(key, value)| (key.as_slice(), value));
        if scan.backwards { Box::new(entries.rev()) } else { Box::new(entries) }
    }

    /// All of it, by table and key.
    pub(super) fn into_rows(self) -> impl Iterator<Item = (Table, Vec<u8>, V)> {
        self.0
            .into_iter()
            .flat_map(|(table, rows)| rows.into_iter().map(move |(key, value)| (table, key, value)))
    }
}
