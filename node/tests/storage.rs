//! The database keeps the core's contract, survives a crash while it is made, and refuses what it should.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::fs;
use std::path::Path;

use mesh_node::storage::{Backends, Database, DatabaseError, SCHEMA_VERSION};
use mesh_node_core::store::conformance::{Writable, check_all};
use mesh_node_core::store::{Change, OrderedStore, Row, Scan, Store, StoreError, Table};
use proptest::prelude::*;
use redb::backends::InMemoryBackend;
use redb::{ReadableDatabase, TableDefinition};
use tempfile::TempDir;

/// The committed state as the suite's store: every apply is a batch, every read a fresh snapshot.
struct Committed(Database);

impl Store for Committed {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.snapshot()?.get(table, key)
    }

    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError> {
        self.0.snapshot()?.scan(table, scan)
    }
}

impl Writable for Committed {
    fn apply(&mut self, changes: Vec<Change>) {
        let mut batch = self.0.begin().unwrap();
        batch.apply(changes).unwrap();
        batch.commit().unwrap();
    }
}

/// A database of its own, with a journal of this length.
fn in_memory(journal_bytes: u64) -> Database {
    let backends =
        move || Backends { tree: InMemoryBackend::new(), journal: InMemoryBackend::new(), journal_bytes };
    Database::open_backends(backends).unwrap()
}

/// Room for all that a test here writes, for some of it, and for nothing.
const ROOMS: [u64; 3] = [1 << 20, 1_200, 64];

fn put(key: &[u8], value: &[u8]) -> Vec<Change> {
    vec![Change { table: Table::Jobs, key: key.to_vec(), value: Some(value.to_vec()) }]
}

fn create(directory: &TempDir) -> (Database, std::path::PathBuf) {
    let path = directory.path().join("mesh.redb");
    (Database::create_file(&path).unwrap(), path)
}

fn leftover(path: &Path) -> std::path::PathBuf {
    path.with_file_name("mesh.redb.tmp")
}

#[test]
fn snapshots_are_a_store_wherever_the_rows_are() {
    for journal_bytes in ROOMS {
        check_all(|| Committed(in_memory(journal_bytes)));
    }
}

#[test]
fn a_batch_reads_what_was_committed_before_it_and_nothing_of_its_own() {
    let mut database = Committed(in_memory(ROOMS[0]));
    database.apply(put(b"k", b"old"));
    let mut batch = database.0.begin().unwrap();
    batch.apply(put(b"k", b"new")).unwrap();
    assert_eq!(batch.get(Table::Jobs, b"k").unwrap().unwrap(), b"old");
    assert_eq!(batch.scan(Table::Jobs, &Scan::prefix(&[], 9)).unwrap(), [(b"k".to_vec(), b"old".to_vec())]);
    batch.commit().unwrap();
    assert_eq!(database.get(Table::Jobs, b"k").unwrap().unwrap(), b"new");
}

#[test]
fn a_snapshot_does_not_change_while_batches_are_committed() {
    for journal_bytes in ROOMS {
        let mut database = Committed(in_memory(journal_bytes));
        database.apply(put(b"k", b"old"));
        let before = database.0.snapshot().unwrap();
        database.apply(put(b"k", b"new"));
        assert_eq!(before.get(Table::Jobs, b"k").unwrap().unwrap(), b"old");
        assert_eq!(database.get(Table::Jobs, b"k").unwrap().unwrap(), b"new");
    }
}

#[test]
fn of_two_batches_begun_together_the_first_to_be_committed_is_kept() {
    let database = in_memory(ROOMS[0]);
    let (mut first, mut second) = (database.begin().unwrap(), database.begin().unwrap());
    first.apply(put(b"k", b"first")).unwrap();
    second.apply(put(b"k", b"second")).unwrap();
    first.commit().unwrap();
    assert!(matches!(second.commit(), Err(DatabaseError::Overtaken)));
    assert_eq!(database.snapshot().unwrap().get(Table::Jobs, b"k").unwrap().unwrap(), b"first");
    // And more is taken.
    database.begin().unwrap().commit().unwrap();
    assert_eq!(database.commits().unwrap(), 2);
}

/// A database with a short journal against one map: what is read is the same whatever of it is in the tree, in the
/// journal, removed from the tree, or written again after that.
#[test]
fn reads_are_the_same_wherever_the_rows_are() {
    let key = |n: u8| vec![n % 16];
    let change = (any::<u8>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..40)));
    let batches = prop::collection::vec(prop::collection::vec(change, 0..6), 1..30);
    let scan = (any::<u8>(), prop::option::of(any::<u8>()), any::<bool>(), 0..8_usize).prop_map(
        move |(from, to, backwards, limit)| Scan { from: key(from), to: to.map(key), backwards, limit },
    );
    let scans = prop::collection::vec(scan, 1..20);
    proptest!(|(batches in batches, scans in scans, journal_bytes in 64..4_000_u64)| {
        let database = in_memory(journal_bytes);
        let mut expected = OrderedStore::default();
        for batch in batches {
            let change = |(n, value)| Change { table: Table::Jobs, key: key(n), value };
            let changes: Vec<Change> = batch.into_iter().map(change).collect();
            let mut written = database.begin().unwrap();
            written.apply(changes.clone()).unwrap();
            expected.apply(changes);
            let same = |store: &dyn Store| {
                scans.iter().all(|scan| {
                    store.scan(Table::Jobs, scan).unwrap() == expected.scan(Table::Jobs, scan).unwrap()
                        && store.get(Table::Jobs, &scan.from).unwrap()
                            == expected.get(Table::Jobs, &scan.from).unwrap()
                })
            };
            written.commit().unwrap();
            prop_assert!(same(&database.snapshot().unwrap()), "after it");
        }
    });
}

#[test]
fn a_dropped_batch_leaves_nothing_and_does_not_count() {
    let database = in_memory(ROOMS[0]);
    let mut batch = database.begin().unwrap();
    batch.apply(put(b"k", b"v")).unwrap();
    let number = batch.number();
    drop(batch);
    assert!(database.snapshot().unwrap().get(Table::Jobs, b"k").unwrap().is_none());
    assert_eq!(database.commits().unwrap() + 1, number);
}

#[test]
fn what_was_committed_is_there_after_opening_again() {
    let directory = TempDir::new().unwrap();
    let (database, path) = create(&directory);
    let mut batch = database.begin().unwrap();
    batch.apply(put(b"k", b"v")).unwrap();
    batch.commit().unwrap();
    database.reopen().unwrap();
    assert_eq!(database.snapshot().unwrap().get(Table::Jobs, b"k").unwrap().unwrap(), b"v");
    drop(database);
    let database = Database::open_file(&path).unwrap();
    assert_eq!(database.snapshot().unwrap().get(Table::Jobs, b"k").unwrap().unwrap(), b"v");
    assert_eq!(database.commits().unwrap(), 1);
}

/// More than the journal holds in all, so that several rounds go into the tree while batches are committed and read.
#[test]
fn batches_and_reads_go_on_while_rounds_go_into_the_tree_of_a_file() {
    let directory = TempDir::new().unwrap();
    let (database, path) = create(&directory);
    let mut expected = OrderedStore::default();
    let all = Scan::prefix(&[], 1_000);
    for batch in 0..200_u8 {
        let row = Change { table: Table::Jobs, key: vec![batch], value: Some(vec![batch; 100_000]) };
        // Three of four die, some within the round and some in a later one.
        let removed = |age: u8| batch.checked_sub(age).filter(|key| key % 4 != 0);
        let gone = [1, 30].into_iter().filter_map(removed);
        let gone = gone.map(|key| Change { table: Table::Jobs, key: vec![key], value: None });
        let changes: Vec<Change> = std::iter::once(row).chain(gone).collect();
        let mut written = database.begin().unwrap();
        written.apply(changes.clone()).unwrap();
        written.commit().unwrap();
        expected.apply(changes);
        let rows = database.snapshot().unwrap().scan(Table::Jobs, &all).unwrap();
        assert!(rows == expected.scan(Table::Jobs, &all).unwrap(), "after {batch}");
    }
    drop(database);
    let database = Database::open_file(&path).unwrap();
    let rows = database.snapshot().unwrap().scan(Table::Jobs, &all).unwrap();
    assert!(rows == expected.scan(Table::Jobs, &all).unwrap(), "opened again");
    assert_eq!(database.commits().unwrap(), 200);
}

#[test]
fn a_crash_while_creating_leaves_a_file_that_the_next_creation_replaces() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("mesh.redb");
    fs::write(leftover(&path), b"half a header").unwrap();
    assert!(matches!(Database::open_file(&path), Err(DatabaseError::Missing { .. })));
    assert!(!leftover(&path).exists());

    fs::write(leftover(&path), b"half a header").unwrap();
    drop(Database::create_file(&path).unwrap());
    assert!(!leftover(&path).exists());
    Database::open_file(&path).unwrap();
}

#[test]
fn creating_never_replaces_a_database() {
    let directory = TempDir::new().unwrap();
    let (database, path) = create(&directory);
    drop(database);
    assert!(matches!(Database::create_file(&path), Err(DatabaseError::Exists { .. })));
}

#[test]
fn a_damaged_file_is_refused_by_name_and_left_as_it_is() {
    let directory = TempDir::new().unwrap();
    let (database, path) = create(&directory);
    drop(database);
    let mut bytes = fs::read(&path).unwrap();
    bytes[..64].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let error = Database::open_file(&path).unwrap_err();
    assert!(matches!(&error, DatabaseError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("mesh.redb"));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

/// Whichever page is damaged: it opens and all of it reads, or it is refused. Nothing panics, and nothing is made up.
#[test]
fn a_file_with_any_page_damaged_is_read_truly_or_refused() {
    const PAGE: usize = 4_096;
    let directory = TempDir::new().unwrap();
    let (database, path) = create(&directory);
    let mut batch = database.begin().unwrap();
    for key in 0..200_u8 {
        batch.apply(put(&[key], &[key; 300])).unwrap();
    }
    batch.commit().unwrap();
    drop(database);
    let whole = fs::read(&path).unwrap();
    let (mut refused, mut opened) = (0, 0);
    for page in 0..whole.len() / PAGE {
        let from = page * PAGE;
        if whole[from..from + PAGE].iter().all(|byte| *byte == 0) {
            continue;
        }
        for damage in [0x00, 0x5a, 0xff] {
            let mut bytes = whole.clone();
            bytes[from..from + PAGE].fill(damage);
            fs::write(&path, &bytes).unwrap();
            let Ok(database) = Database::open_file(&path) else {
                refused += 1;
                continue;
            };
            let rows = database.snapshot().unwrap().scan(Table::Jobs, &Scan::prefix(&[], 1_000)).unwrap();
            assert!(rows.iter().all(|(key, value)| *value == vec![key[0]; 300]), "page {page}");
            assert_eq!(rows.len(), 200, "page {page}");
            opened += 1;
        }
    }
    assert!(refused > 20, "{refused} refused, {opened} opened");
}

#[test]
fn an_empty_file_is_not_taken_for_a_new_database() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("mesh.redb");
    fs::write(&path, b"").unwrap();
    assert!(Database::open_file(&path).is_err());
}

#[test]
fn a_newer_schema_and_a_foreign_file_are_refused_by_name() {
    let directory = TempDir::new().unwrap();
    let newer = create(&directory).1;
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let raw = redb::Database::open(&newer).unwrap();
    assert!(raw.begin_read().unwrap().open_table(meta).is_ok());
    let write = raw.begin_write().unwrap();
    write.open_table(meta).unwrap().insert("schema", SCHEMA_VERSION + 1).unwrap();
    write.commit().unwrap();
    drop(raw);
    let error = Database::open_file(&newer).unwrap_err();
    assert!(matches!(&error, DatabaseError::NewerSchema { found, .. } if *found == SCHEMA_VERSION + 1));
    assert!(error.to_string().contains("mesh.redb"));

    let foreign = directory.path().join("foreign.redb");
    drop(redb::Database::create(&foreign).unwrap());
    assert!(matches!(Database::open_file(&foreign), Err(DatabaseError::Foreign { .. })));
}

#[test]
fn one_database_is_not_opened_twice() {
    let directory = TempDir::new().unwrap();
    let (_open, path) = create(&directory);
    assert!(matches!(Database::open_file(&path), Err(DatabaseError::Open { .. })));
}
