//! The one suite every store must pass, as functions over a store under test.
//!
//! An implementation's tests call [`check_all`] with a way to apply changes; a failed claim panics with its name.

#![expect(clippy::expect_used, reason = "a suite of assertions, called by tests only")]

use super::{Change, Overlay, Row, Scan, Store, Table};

/// A store that can also be written to, as the suite needs it.
pub trait Writable: Store {
    /// Applies all changes or none, durably.
    fn apply(&mut self, changes: Vec<Change>);
}

impl Writable for super::OrderedStore {
    fn apply(&mut self, changes: Vec<Change>) {
        Self::apply(self, changes);
    }
}

/// Runs every claim on a fresh store each.
pub fn check_all<S: Writable>(fresh: impl Fn() -> S) {
    what_was_put_is_read_back(&mut fresh());
    tables_do_not_see_each_other(&mut fresh());
    scans_follow_key_order_both_ways(&mut fresh());
    scans_stop_at_their_limit_and_their_end(&mut fresh());
    an_overlay_reads_its_own_writes_and_hides_removed_rows(&mut fresh());
    a_dropped_overlay_leaves_no_trace(&mut fresh());
}

fn put(table: Table, key: &[u8], value: &[u8]) -> Change {
    Change { table, key: key.to_vec(), value: Some(value.to_vec()) }
}

fn remove(table: Table, key: &[u8]) -> Change {
    Change { table, key: key.to_vec(), value: None }
}

fn keys(store: &dyn Store, scan: &Scan) -> Vec<Vec<u8>> {
    let rows: Vec<Row> = store.scan(Table::Jobs, scan).expect("a healthy store scans");
    rows.into_iter().map(|(key, _)| key).collect()
}

fn get(store: &dyn Store, table: Table, key: &[u8]) -> Option<Vec<u8>> {
    store.get(table, key).expect("a healthy store reads")
}

fn check(holds: bool, claim: &str) {
    assert!(holds, "store conformance: {claim}");
}

fn what_was_put_is_read_back(store: &mut impl Writable) {
    store.apply(vec![put(Table::Jobs, b"a", b"1"), put(Table::Jobs, b"", b"empty key")]);
    check(get(store, Table::Jobs, b"a").as_deref() == Some(b"1"), "a put row is read back");
    check(get(store, Table::Jobs, b"").as_deref() == Some(b"empty key"), "the empty key is a key");
    store.apply(vec![put(Table::Jobs, b"a", b"2"), remove(Table::Jobs, b""), remove(Table::Jobs, b"none")]);
    check(get(store, Table::Jobs, b"a").as_deref() == Some(b"2"), "a later put wins");
    check(get(store, Table::Jobs, b"").is_none(), "a removed row is gone");
}

fn tables_do_not_see_each_other(store: &mut impl Writable) {
    store.apply(vec![put(Table::Jobs, b"k", b"job"), put(Table::Executions, b"k", b"execution")]);
    store.apply(vec![remove(Table::Executions, b"k")]);
    check(get(store, Table::Jobs, b"k").as_deref() == Some(b"job"), "a row of another table stays");
    check(keys(store, &Scan::prefix(b"", 10)) == [b"k".to_vec()], "a whole-table scan stays in its table");
}

fn scans_follow_key_order_both_ways(store: &mut impl Writable) {
    for key in [b"b".as_slice(), b"a", b"ab", b"\xff", b"\xff\xff"] {
        store.apply(vec![put(Table::Jobs, key, b"")]);
    }
    let forwards = keys(store, &Scan::prefix(b"", 10));
    check(
        forwards == [b"a".to_vec(), b"ab".to_vec(), b"b".to_vec(), vec![0xff], vec![0xff, 0xff]],
        "key order",
    );
    let mut backwards = keys(store, &Scan::prefix(b"", 10).backwards());
    backwards.reverse();
    check(backwards == forwards, "backwards is the reverse");
    check(keys(store, &Scan::prefix(b"\xff", 10)).len() == 2, "a prefix of ones has an end");
}

fn scans_stop_at_their_limit_and_their_end(store: &mut impl Writable) {
    for key in 0..9_u8 {
        store.apply(vec![put(Table::Jobs, &[key], b"")]);
    }
    let middle = Scan { from: vec![2], to: Some(vec![6]), backwards: false, limit: 3 };
    check(keys(store, &middle) == [vec![2], vec![3], vec![4]], "from is inclusive and the limit holds");
    check(keys(store, &middle.clone().backwards()) == [vec![5], vec![4], vec![3]], "to is exclusive");
    let empty = Scan { from: vec![6], to: Some(vec![2]), backwards: false, limit: 3 };
    check(keys(store, &empty).is_empty(), "a range that ends before it begins is empty");
}

fn an_overlay_reads_its_own_writes_and_hides_removed_rows(store: &mut impl Writable) {
    for key in 0..6_u8 {
        store.apply(vec![put(Table::Jobs, &[key], b"old")]);
    }
    let (seen, first_two, changes) = {
        let mut overlay = Overlay::new(store);
        let writes =
            vec![remove(Table::Jobs, &[0]), remove(Table::Jobs, &[2]), put(Table::Jobs, &[9], b"new")];
        overlay.write_raw(writes);
        let seen = keys(&overlay, &Scan::prefix(b"", 10));
        let first_two = keys(&overlay, &Scan::prefix(b"", 2));
        (seen, first_two, overlay.into_changes())
    };
    check(seen == [vec![1], vec![3], vec![4], vec![5], vec![9]], "own writes are seen");
    check(first_two == [vec![1], vec![3]], "removed rows do not count against the limit");
    store.apply(changes);
    check(keys(store, &Scan::prefix(b"", 10)) == seen, "applied changes are what the overlay showed");
}

fn a_dropped_overlay_leaves_no_trace(store: &mut impl Writable) {
    let mut overlay = Overlay::new(store);
    overlay.write_raw(vec![put(Table::Jobs, b"k", b"v")]);
    drop(overlay);
    check(get(store, Table::Jobs, b"k").is_none(), "nothing is written without apply");
}
