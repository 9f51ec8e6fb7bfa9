//! The journal beside the tree: one flush a commit, read again to its last whole frame, and never where it does not
//! belong.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use mesh_node::storage::Database;
use mesh_node_core::store::{Change, Scan, Store, Table};
use mesh_simulations::disk::{Disk, Image};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redb::StorageBackend;

/// Two halves of eight; a round is four.
const JOURNAL_BYTES: u64 = 16 * 1024;

fn open(disk: &Disk) -> Database {
    let disk = disk.clone();
    Database::open_backends(move || disk.backends(JOURNAL_BYTES)).unwrap()
}

fn keep(database: &Database, row: u8, bytes: usize, wait: bool) {
    let mut batch = database.begin().unwrap();
    let value = Some(vec![row; bytes]);
    batch.apply(vec![Change { table: Table::Jobs, key: vec![row], value }]).unwrap();
    if wait { batch.commit().unwrap() } else { batch.commit_without_waiting().unwrap() }
}

fn rows(database: &Database) -> Vec<u8> {
    let rows = database.snapshot().unwrap().scan(Table::Jobs, &Scan::prefix(&[], 1_000)).unwrap();
    rows.into_iter()
        .map(|(key, value)| {
            assert!(value.iter().all(|byte| *byte == key[0]), "a row is as it was written");
            key[0]
        })
        .collect()
}

/// What a machine would find that lost its power now and kept nothing but what was synced.
fn after_a_cut(disk: &Disk) -> Vec<u8> {
    rows(&open(&Disk::with(disk.durable())))
}

/// What a machine would have in its tree alone.
fn in_the_tree(disk: &Disk) -> Vec<u8> {
    let tree = Disk::with(disk.durable());
    tree.journal().set_len(0).unwrap();
    rows(&open(&tree))
}

#[test]
fn a_commit_takes_one_write_and_one_flush_and_a_round_goes_into_the_tree_a_little_later() {
    let disk = Disk::new();
    let database = open(&disk);
    let begun = disk.counts();
    for row in 0..5 {
        keep(&database, row, 1_000, true);
        assert_eq!(after_a_cut(&disk), (0..=row).collect::<Vec<_>>());
        assert!(in_the_tree(&disk).is_empty());
    }
    let (writes, syncs) = (disk.counts().writes - begun.writes, disk.counts().syncs - begun.syncs);
    // The tree's file grew once, which it syncs by itself.
    assert!(writes == 5 && syncs <= 6, "{writes} writes, {syncs} syncs");
    keep(&database, 5, 1_000, true);
    assert_eq!(in_the_tree(&disk), (0..4).collect::<Vec<_>>(), "a round, and not what came after it");
    assert_eq!(after_a_cut(&disk), (0..=5).collect::<Vec<_>>());
}

#[test]
fn any_number_of_rounds_is_read_again_whichever_half_is_older() {
    let disk = Disk::new();
    let database = open(&disk);
    for row in 0..60 {
        keep(&database, row, 900, row % 3 != 0);
        let durable = row + u8::from(row % 3 != 0);
        let found = after_a_cut(&disk);
        assert!(found.len() >= usize::from(durable), "{found:?} of {durable}");
        assert_eq!(found, (0..u8::try_from(found.len()).unwrap()).collect::<Vec<_>>());
        assert_eq!(rows(&database), (0..=row).collect::<Vec<_>>());
    }
}

#[test]
fn a_round_that_could_not_be_settled_is_not_lost_and_nothing_is_kept_until_it_is() {
    let disk = Disk::new();
    let database = open(&disk);
    disk.set_full(true);
    let refused = (0..20).find(|row| {
        let mut batch = database.begin().unwrap();
        let value = Some(vec![*row; 1_000]);
        batch.apply(vec![Change { table: Table::Jobs, key: vec![*row], value }]).unwrap();
        batch.commit().is_err()
    });
    let refused = refused.expect("the tree has no room for a round");
    assert!(database.begin().is_err(), "closed");
    assert_eq!(after_a_cut(&disk), (0..refused).collect::<Vec<_>>());
    assert!(database.reopen().is_err(), "there is still no room");
    disk.set_full(false);
    database.reopen().unwrap();
    assert_eq!(rows(&database), (0..refused).collect::<Vec<_>>());
    keep(&database, refused, 1_000, true);
    assert_eq!(after_a_cut(&disk), (0..=refused).collect::<Vec<_>>());
}

#[test]
fn a_batch_that_no_journal_could_hold_is_kept_in_the_tree() {
    let disk = Disk::new();
    let database = open(&disk);
    keep(&database, 1, 100_000, true);
    assert_eq!(after_a_cut(&disk), [1]);
}

#[test]
fn what_did_not_wait_is_durable_with_the_next_that_does() {
    let disk = Disk::new();
    let database = open(&disk);
    keep(&database, 1, 100, false);
    assert_eq!(rows(&database), [1], "visible at once");
    assert!(after_a_cut(&disk).is_empty(), "and forgotten by a crash");
    keep(&database, 2, 100, true);
    assert_eq!(after_a_cut(&disk), [1, 2]);
}

#[test]
fn removals_are_read_again_too() {
    let disk = Disk::new();
    let database = open(&disk);
    keep(&database, 1, 100, true);
    let mut batch = database.begin().unwrap();
    batch.apply(vec![Change { table: Table::Jobs, key: vec![1], value: None }]).unwrap();
    batch.commit().unwrap();
    assert!(after_a_cut(&disk).is_empty());
}

#[test]
fn a_power_cut_among_batches_that_did_not_wait_leaves_the_first_of_them_and_none_after_a_hole() {
    let mut left = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let disk = Disk::new();
        let database = open(&disk);
        keep(&database, 0, 600, true);
        (1..6).for_each(|row| keep(&database, row, 600, false));
        disk.die();
        drop(database);
        disk.reboot(&mut ChaCha8Rng::seed_from_u64(seed));
        let found = rows(&open(&disk));
        let count = u8::try_from(found.len()).unwrap();
        assert_eq!(found, (0..count).collect::<Vec<_>>(), "seed {seed}");
        left.insert(count);
    }
    assert!(left.len() > 3, "cuts differ: {left:?}");
}

#[test]
fn a_changed_byte_ends_the_journal_and_makes_nothing_up() {
    let disk = Disk::new();
    let database = open(&disk);
    (0..5).for_each(|row| keep(&database, row, 500, true));
    let whole = disk.durable();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut fewer = 0;
    for _ in 0..200 {
        let changed = Disk::with(whole.clone());
        let at = rng.random_range(0..2_700);
        let mut byte = [0];
        changed.journal().read(at, &mut byte).unwrap();
        changed.journal().write(at, &[byte[0] ^ (1 << rng.random_range(0..8))]).unwrap();
        let found = rows(&open(&changed));
        let count = u8::try_from(found.len()).unwrap();
        assert_eq!(found, (0..count).collect::<Vec<_>>(), "byte {at}");
        fewer += usize::from(count < 5);
    }
    assert_eq!(fewer, 200, "every byte of every frame counts");
}

/// The tree of one moment with the journal of another.
fn mixed(tree: &Image, journal: &Image) -> Disk {
    let (disk, from) = (Disk::with(tree.clone()), Disk::with(journal.clone()));
    let mut bytes = vec![0; usize::try_from(JOURNAL_BYTES).unwrap()];
    from.journal().read(0, &mut bytes).unwrap();
    disk.journal().write(0, &bytes).unwrap();
    disk
}

#[test]
fn a_tree_put_back_from_a_backup_takes_nothing_from_a_later_journal() {
    let disk = Disk::new();
    let database = open(&disk);
    keep(&database, 1, 100, true);
    drop(database);
    let backup = disk.image();
    let database = open(&disk);
    keep(&database, 2, 100, true);
    let restored = mixed(&backup, &disk.durable());
    let database = open(&restored);
    assert_eq!(rows(&database), [1]);
    // It now counts its openings as the other did, and commits under the same number.
    assert_eq!(after_a_cut(&restored), [1]);
    keep(&database, 3, 100, true);
    assert_eq!(after_a_cut(&restored), [1, 3]);
}

#[test]
fn a_new_database_takes_nothing_from_a_journal_that_lay_there() {
    let disk = Disk::new();
    keep(&open(&disk), 1, 100, true);
    // As it is created: opened with its journal for the first time.
    assert!(rows(&open(&mixed(&Disk::new().image(), &disk.durable()))).is_empty());
}

#[test]
fn a_journal_that_is_missing_is_an_empty_one() {
    let disk = Disk::new();
    let database = open(&disk);
    keep(&database, 1, 100, true);
    drop(database);
    disk.journal().set_len(0).unwrap();
    assert_eq!(rows(&open(&disk)), [1], "closing made the tree whole");
}

#[test]
fn a_full_disk_does_not_stop_what_has_its_room() {
    let disk = Disk::new();
    let database = open(&disk);
    disk.set_full(true);
    (0..5).for_each(|row| keep(&database, row, 1_000, true));
    assert_eq!(after_a_cut(&disk), (0..5).collect::<Vec<_>>());
}
