//! The node's database and writer on a disk that forgets: what was answered is there, and creation is all or nothing.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::sync::Arc;

use mesh_node::clock::SetClock;
use mesh_node::storage::{Database, DatabaseError};
use mesh_node::writer::{Perform, Queued, WriterCore};
use mesh_node_core::handler::{Handled, Handler};
use mesh_node_core::store::{Change, Overlay, Store, StoreError, Table};
use mesh_simulations::disk::Disk;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Keeps each event as a row, and answers with its number.
struct Keeper;

impl Handler for Keeper {
    type Event = u8;
    type Action = ();
    type Reply = u8;

    fn handle(
        &mut self,
        tx: &mut Overlay<'_>,
        _: mesh_node_core::time::Now,
        _: &mut dyn Rng,
        event: &u8,
    ) -> Result<Handled<(), u8>, StoreError> {
        tx.write_raw(vec![Change {
            table: Table::Jobs,
            key: vec![*event],
            value: Some(vec![*event; 3_000]),
        }]);
        Ok(Handled::reply(*event))
    }

    fn describe(_: &u8) -> &'static str {
        "keep"
    }
}

struct Nothing;

impl Perform<Keeper> for Nothing {
    fn perform(&mut self, (): ()) {}
}

/// A database whose journal takes two answers and no third.
fn on(disk: Disk) -> Result<Database, DatabaseError> {
    Database::open_backends(move || disk.backends(8 * 1024))
}

fn open(disk: &Disk) -> Arc<Database> {
    let disk = disk.clone();
    Arc::new(on(disk).unwrap())
}

fn writer(database: &Arc<Database>) -> WriterCore<Keeper> {
    let clock = Arc::new(SetClock::default());
    let rng = Box::new(ChaCha8Rng::seed_from_u64(1));
    WriterCore::new(Arc::clone(database), Keeper, clock, rng, Box::new(Nothing))
}

/// Gives the writer one event, and says whether it was answered.
fn answers(writer: &mut WriterCore<Keeper>, event: u8) -> bool {
    let (queued, mut reply) = Queued::submit(event, 0);
    let _ = writer.run_batch(vec![queued]);
    matches!(reply.try_recv(), Ok(Ok(_)))
}

fn has(database: &Database, event: u8) -> bool {
    database.snapshot().unwrap().get(Table::Jobs, &[event]).unwrap().is_some()
}

#[test]
fn what_was_answered_survives_a_power_cut_that_keeps_nothing_unsynced() {
    let disk = Disk::new();
    let database = open(&disk);
    let mut writer = writer(&database);
    for event in 0..20 {
        assert!(answers(&mut writer, event));
        // All that a disk must keep, and nothing it need not.
        let left = open(&Disk::with(disk.durable()));
        assert!((0..=event).all(|event| has(&left, event)), "event {event}");
    }
}

#[test]
fn what_a_lying_disk_answered_does_not() {
    let disk = Disk::new();
    let database = open(&disk);
    let mut writer = writer(&database);
    assert!(answers(&mut writer, 0));
    disk.lie_about_sync(true);
    assert!(answers(&mut writer, 1));
    let left = open(&Disk::with(disk.durable()));
    assert!(has(&left, 0) && !has(&left, 1));
}

#[test]
fn power_cuts_at_every_operation_lose_nothing_that_was_answered() {
    let prepared = Disk::new();
    drop(open(&prepared));
    let prepared = prepared.image();
    let (mut operation, mut cuts) = (1, 0);
    loop {
        let disk = Disk::with(prepared.clone());
        disk.die_at(operation);
        let copy = disk.clone();
        let answered = match on(copy) {
            Ok(database) => {
                let mut writer = writer(&Arc::new(database));
                (0..6).take_while(|event| answers(&mut writer, *event)).count()
            }
            Err(_) => 0,
        };
        if !disk.is_dead() {
            break;
        }
        disk.reboot(&mut ChaCha8Rng::seed_from_u64(operation));
        let left = open(&disk);
        assert!((0..answered).all(|event| has(&left, u8::try_from(event).unwrap())), "operation {operation}");
        operation += 1;
        cuts += 1;
    }
    assert!(cuts > 40, "only {cuts} operations");
}

/// Why a database file is made under another name: until its first sync it need not be one. After it, it is.
#[test]
fn a_power_cut_while_a_database_is_created_leaves_none_or_an_empty_one() {
    let (mut refused, mut empty) = (0, 0);
    for operation in 1.. {
        let disk = Disk::new();
        disk.die_at(operation);
        let copy = disk.clone();
        let created = on(copy).is_ok();
        if created && !disk.is_dead() {
            break;
        }
        disk.reboot(&mut ChaCha8Rng::seed_from_u64(operation));
        match on(disk) {
            Ok(database) => {
                assert_eq!(database.commits().unwrap(), 0);
                empty += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && empty > 0, "{refused} refused, {empty} empty");
}

#[test]
fn after_a_commit_that_failed_the_writer_takes_no_work_until_it_opened_again() {
    let disk = Disk::new();
    let database = open(&disk);
    let mut writer = writer(&database);
    assert!(answers(&mut writer, 0));
    disk.fail_at(disk.operations() + 2);
    assert!(!answers(&mut writer, 1));
    assert!(!answers(&mut writer, 2));
    assert_eq!(writer.held(), 2);
    assert!(database.snapshot().is_err(), "nobody reads what may not be so");
    disk.heal();
    writer.recover().unwrap();
    assert_eq!(writer.held(), 0);
    assert!((0..3).all(|event| has(&database, event)));
    assert!(answers(&mut writer, 3));
}

#[test]
fn a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room() {
    let disk = Disk::new();
    let database = open(&disk);
    let mut writer = writer(&database);
    disk.set_full(true);
    let taken = (0..200).take_while(|event| answers(&mut writer, *event)).count();
    assert!(taken < 200, "it never was full");
    disk.set_full(false);
    writer.recover().unwrap();
    assert!((0..=taken).all(|event| has(&database, u8::try_from(event).unwrap())));
}
