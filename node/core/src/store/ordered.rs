//! A store of ordered maps in memory: for simulations and tests. It forgets everything when dropped.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Change, Row, Scan, Store, StoreError, Table};

/// Rows by table and key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderedStore {
    rows: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
}

impl OrderedStore {
    /// Applies the changes of one event, or of one batch, all at once.
    pub fn apply(&mut self, changes: Vec<Change>) {
        for Change { table, key, value } in changes {
            match value {
                Some(value) => self.rows.insert((table, key), value),
                None => self.rows.remove(&(table, key)),
            };
        }
    }

    /// How many rows there are, in all tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Store for OrderedStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rows.get(&(table, key.to_vec())).cloned())
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        Ok(visit(&self.rows, table, scan).map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }
}

/// An entry of a map of rows.
type Entry<'a, V> = (&'a (Table, Vec<u8>), &'a V);

/// The entries of one table a scan visits, in its direction, at most its limit.
pub(super) fn visit<'a, V>(
    rows: &'a BTreeMap<(Table, Vec<u8>), V>,
    table: Table,
    scan: &Scan,
) -> Box<dyn Iterator<Item = Entry<'a, V>> + 'a> {
    if scan.to.as_ref().is_some_and(|to| *to <= scan.from) {
        return Box::new(std::iter::empty());
    }
    let from = Bound::Included((table, scan.from.clone()));
    let to = match &scan.to {
        Some(to) => Bound::Excluded((table, to.clone())),
        None => Bound::Unbounded,
    };
    let entries = rows.range((from, to));
    // The range may run on into later tables: forwards it stops at the first of them, backwards it skips them.
    if scan.backwards {
        Box::new(entries.rev().skip_while(move |((found, _), _)| *found != table).take(scan.limit))
    } else {
        Box::new(entries.take_while(move |((found, _), _)| *found == table).take(scan.limit))
    }
}
