//! Nothing is done or answered before it is durable, nothing that was answered is lost, and no event takes others down.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails where it unwraps")]

#[path = "writer/crash.rs"]
mod crash;
#[path = "writer/machine.rs"]
mod machine;

use std::sync::{Arc, Barrier};

use machine::{Disk, Event, Machine, NO_ROOM, Recorder, core, core_on, core_over, value};
use mesh_node::clock::ClockRow;
use mesh_node::limits::{LANE_EVENTS_MAX, QUARANTINE_ROWS_MAX, RECOVERY_TRIES_MAX};
use mesh_node::storage::Database;
use mesh_node::writer::{Cause, Quarantined, Queued, SubmitError, Writer, WriterError, WriterHandle, start};
use mesh_node_core::time::NodeTime;
use tokio::task::JoinSet;

fn post(event: Event) -> Queued<Machine> {
    Queued::post(event, 100)
}

fn wait_at(barrier: &Arc<Barrier>) -> Event {
    Event::Wait(Arc::clone(barrier))
}

/// A writer's thread, stuck in one event until the barrier is passed a second time.
fn stuck() -> (WriterHandle<Machine>, Writer<Machine>, Arc<Barrier>) {
    let (core, ..) = core();
    let (handle, writer) = start(core).unwrap();
    let barrier = Arc::new(Barrier::new(2));
    handle.try_post(wait_at(&barrier), 1).unwrap();
    barrier.wait();
    (handle, writer, barrier)
}

#[test]
fn actions_and_replies_come_after_the_commit_and_in_order() {
    let (mut core, database, recorder) = core();
    let (first, mut first_reply) = Queued::submit(Event::Add(1, 10), 100);
    core.run_batch(vec![first, post(Event::Add(2, 20)), post(Event::Add(1, 5))]).unwrap();
    // The recorder reads the database at the moment of each action.
    assert_eq!(recorder.performed(), [(1, Some(15)), (2, Some(20)), (1, Some(15))]);
    assert_eq!(first_reply.try_recv().unwrap().unwrap(), 10);
    assert_eq!(database.commits().unwrap(), 1);
}

#[test]
fn an_event_sees_what_came_before_it_in_the_batch() {
    let (mut core, database, _) = core();
    core.run_batch((0..10).map(|_| post(Event::Add(7, 1))).collect()).unwrap();
    assert_eq!(value(&database, 7), Some(10));
}

#[test]
fn an_unreadable_row_leaves_no_trace_of_its_event_and_the_others_stand() {
    let (mut core, database, recorder) = core();
    let (bad, mut reply) = Queued::submit(Event::WriteThenFail(2), 100);
    core.run_batch(vec![post(Event::Add(1, 1)), bad, post(Event::Add(3, 3))]).unwrap();
    assert!(matches!(reply.try_recv().unwrap(), Err(SubmitError::Unreadable(_))));
    assert_eq!([value(&database, 1), value(&database, 2), value(&database, 3)], [Some(1), None, Some(3)]);
    assert_eq!(recorder.quarantined(), ["write then fail"]);
    assert_eq!(core.handler().aborted, 1);
    let rows = Quarantined::all(&database.snapshot().unwrap()).unwrap();
    assert_eq!(rows[0].1.cause, Cause::Unreadable);
}

#[test]
fn a_panic_takes_only_its_own_event_and_is_recorded() {
    let (mut core, database, recorder) = core();
    let (bad, mut bad_reply) = Queued::submit(Event::WriteThenPanic(2), 100);
    let (good, mut good_reply) = Queued::submit(Event::Add(3, 3), 100);
    core.run_batch(vec![post(Event::Add(1, 1)), bad, good]).unwrap();
    assert!(matches!(bad_reply.try_recv().unwrap(), Err(SubmitError::Quarantined)));
    assert_eq!(good_reply.try_recv().unwrap().unwrap(), 3);
    assert_eq!([value(&database, 1), value(&database, 2), value(&database, 3)], [Some(1), None, Some(3)]);
    // The first attempt's actions were never performed: each good event has exactly one.
    assert_eq!(recorder.performed(), [(1, Some(1)), (3, Some(3))]);
    assert_eq!(recorder.quarantined(), ["write then panic"]);
    let rows = Quarantined::all(&database.snapshot().unwrap()).unwrap();
    assert_eq!((rows.len(), rows[0].1.kind.as_str(), rows[0].1.cause), (1, "write then panic", Cause::Panic));
    // Once for the batch, once for the culprit alone.
    assert_eq!(core.handler().aborted, 2);
}

#[test]
fn the_quarantine_forgets_the_oldest() {
    let (mut core, database, _) = core();
    for _ in 0..QUARANTINE_ROWS_MAX / 100 + 1 {
        core.run_batch((0..100).map(|_| post(Event::WriteThenFail(1))).collect()).unwrap();
    }
    let rows = Quarantined::all(&database.snapshot().unwrap()).unwrap();
    assert_eq!(rows.len(), QUARANTINE_ROWS_MAX);
    assert_eq!(rows[0].0.1, 100, "the first hundred are gone");
}

#[test]
fn every_commit_has_the_clock() {
    let (mut core, database, _) = core();
    core.run_batch(vec![post(Event::Add(1, 1))]).unwrap();
    let row = ClockRow::read(&database.snapshot().unwrap()).unwrap().unwrap();
    assert_eq!((row.node, row.wall_ms), (NodeTime(5_000), 70_000));
}

/// A journal with room for all that a test here writes.
const ROOM: u64 = 64 * 1024;

/// Two commits cannot have one number. The one that lost is not taken for the one that won: it is run again, and sees it.
#[test]
fn a_batch_that_another_overtook_is_run_again_and_counts_once() {
    let (mut core, database, recorder) = core_on(&Disk::default(), ROOM);
    let barrier = Arc::new(Barrier::new(2));
    let (queued, mut reply) = Queued::submit(Event::Add(1, 5), 100);
    let batch = vec![post(wait_at(&barrier)), queued];
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            core.run_batch(batch).unwrap_err();
            core.recover().unwrap();
        });
        barrier.wait();
        // Another writer of the same database, in the middle of the batch.
        core_over(Arc::clone(&database), recorder.clone()).run_batch(vec![post(Event::Add(1, 10))]).unwrap();
        barrier.wait();
        // And once more, when it is run again.
        barrier.wait();
        barrier.wait();
        writing.join().unwrap();
    });
    assert_eq!(reply.try_recv().unwrap().unwrap(), 15);
    assert_eq!(recorder.performed(), [(1, Some(10)), (1, Some(15))]);
    assert_eq!((database.commits().unwrap(), core.handler().aborted), (2, 1));
}

/// Which flush of a commit fails decides whether the batch was kept; recovery finds out and each event counts once.
#[test]
fn after_a_failed_commit_each_event_is_kept_exactly_once() {
    let failing = |journal_bytes: u64, failing_flush: u64| {
        let disk = Disk::default();
        let (mut core, database, recorder) = core_on(&disk, journal_bytes);
        // The second commit enlarges the file and flushes that too; those after it do not.
        core.run_batch(vec![post(Event::Add(9, 1))]).unwrap();
        core.run_batch(vec![post(Event::Add(1, 1))]).unwrap();
        disk.fail_at_flush(failing_flush);
        let (queued, mut reply) = Queued::submit(Event::Add(1, 10), 100);
        core.run_batch(vec![queued, post(Event::Add(2, 2))]).unwrap_err();
        assert_eq!(recorder.performed().len(), 2, "nothing is performed before it is known to be durable");
        assert!(reply.try_recv().is_err(), "nor answered");
        disk.heal();
        core.recover().unwrap();
        assert_eq!(reply.try_recv().unwrap().unwrap(), 11);
        assert_eq!(recorder.performed()[2..], [(1, Some(11)), (2, Some(2))]);
        assert_eq!((value(&database, 1), value(&database, 2)), (Some(11), Some(2)));
        core.handler().aborted == 1
    };
    assert!(failing(NO_ROOM, 1), "only pages were written: it is run again");
    assert!(!failing(NO_ROOM, 2), "the new root was written: it was kept");
    assert!(!failing(ROOM, 1), "the frame was written: it was kept");
}

#[test]
fn while_the_disk_fails_waiters_hear_that_the_outcome_is_unknown_and_events_stay() {
    let disk = Disk::default();
    let (mut core, database, _) = core_on(&disk, NO_ROOM);
    disk.fail_at_flush(1);
    let (queued, mut reply) = Queued::submit(Event::Add(1, 1), 100);
    core.run_batch(vec![queued, post(Event::Add(2, 2))]).unwrap_err();
    core.recover().unwrap_err();
    assert!(matches!(reply.try_recv().unwrap(), Err(SubmitError::StorageUnavailable)));
    core.run_batch(vec![post(Event::Add(3, 3))]).unwrap_err();
    assert_eq!(core.held(), 3);
    assert!(database.snapshot().is_err(), "no reader is told old state as if it were well");
    disk.heal();
    core.recover().unwrap();
    assert_eq!([value(&database, 2), value(&database, 3)], [Some(2), Some(3)]);
    assert_eq!(core.held(), 0);
}

#[test]
fn a_failing_disk_during_a_quarantine_loses_nothing() {
    let disk = Disk::default();
    let (mut core, database, recorder) = core_on(&disk, NO_ROOM);
    disk.fail_at_flush(Disk::FLUSHES_OF_A_COMMIT + 1);
    let batch = vec![post(Event::Add(1, 1)), post(Event::WriteThenPanic(2)), post(Event::Add(3, 3))];
    core.run_batch(batch).unwrap_err();
    disk.heal();
    core.recover().unwrap();
    assert_eq!(recorder.performed(), [(1, Some(1)), (3, Some(3))]);
    assert_eq!(recorder.quarantined(), ["write then panic"]);
    assert_eq!((value(&database, 1), value(&database, 3)), (Some(1), Some(3)));
}

#[tokio::test]
async fn submits_that_wait_together_are_one_commit() {
    let (handle, _writer, barrier) = stuck();
    let before = handle.counts();
    let mut submits = JoinSet::new();
    for n in 0..200 {
        let handle = handle.clone();
        submits.spawn(async move { handle.submit(Event::Add(n, 1), 100).await });
        // One thread: the submit has queued its event when this returns.
        tokio::task::yield_now().await;
    }
    barrier.wait();
    for reply in submits.join_all().await {
        assert_eq!(reply.unwrap(), 1);
    }
    let after = handle.counts();
    assert_eq!(after.commits - before.commits, 2, "one for the stuck event, one for all that waited");
    assert_eq!(after.events - before.events, 201);
}

#[tokio::test]
async fn a_full_queue_refuses_commands_holds_back_peers_and_loses_nothing() {
    let (handle, mut writer, barrier) = stuck();
    for _ in 1..LANE_EVENTS_MAX {
        handle.try_post(Event::Add(1, 1), 1).unwrap();
    }
    let refused = handle.try_post(Event::Add(1, 1), 1).unwrap_err();
    assert!(matches!((refused.event, refused.reason), (Event::Add(1, 1), SubmitError::Full)));
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.post(Event::Add(1, 1), 1).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    // The other queue has room of its own, until it is full as well.
    let mut submits = JoinSet::new();
    for _ in 0..LANE_EVENTS_MAX {
        let handle = handle.clone();
        submits.spawn(async move { handle.submit(Event::Add(2, 1), 1).await });
        tokio::task::yield_now().await;
    }
    assert!(matches!(handle.submit(Event::Add(2, 1), 1).await, Err(SubmitError::Full)));

    barrier.wait();
    waiting.await.unwrap().unwrap();
    assert!(submits.join_all().await.iter().all(Result::is_ok));
    handle.stop();
    writer.ended().await.unwrap();
    assert_eq!(handle.counts().events, 2 * LANE_EVENTS_MAX as u64 + 1);
    assert!(matches!(handle.submit(Event::Add(1, 1), 1).await, Err(SubmitError::Stopped)));
    assert!(matches!(handle.post(Event::Add(1, 1), 1).await, Err(SubmitError::Stopped)));
}

#[tokio::test]
async fn a_stopped_writer_first_runs_what_it_accepted() {
    let (handle, mut writer, barrier) = stuck();
    let submit = tokio::spawn({
        let handle = handle.clone();
        async move { handle.submit(Event::Add(1, 1), 1).await }
    });
    tokio::task::yield_now().await;
    handle.stop();
    barrier.wait();
    assert_eq!(submit.await.unwrap().unwrap(), 1);
    writer.ended().await.unwrap();
}

#[tokio::test]
async fn a_running_writer_recovers_by_itself() {
    let disk = Disk::default();
    let (core, database, _) = core_on(&disk, NO_ROOM);
    let (handle, _writer) = start(core).unwrap();
    disk.fail_once();
    assert_eq!(handle.submit(Event::Add(1, 1), 1).await.unwrap(), 1);
    assert_eq!(value(&database, 1), Some(1));
    assert_eq!(handle.counts().recoveries, 1);
}

#[tokio::test]
async fn a_disk_that_stays_broken_ends_the_writer_with_its_error() {
    let disk = Disk::default();
    let (core, ..) = core_on(&disk, NO_ROOM);
    let (handle, mut writer) = start(core).unwrap();
    disk.fail_at_flush(1);
    assert!(matches!(handle.submit(Event::Add(1, 1), 1).await, Err(SubmitError::StorageUnavailable)));
    assert!(matches!(handle.submit(Event::Add(1, 1), 1).await, Err(SubmitError::StorageUnavailable)));
    // Asked to stop, it does not wait for the last try.
    handle.stop();
    let error = writer.ended().await.unwrap_err();
    assert!(matches!(error, WriterError::Storage { tries, .. } if tries < RECOVERY_TRIES_MAX), "{error:?}");
}

#[tokio::test]
async fn a_full_disk_is_waited_for_longer_than_a_broken_one_and_what_was_accepted_is_kept() {
    let disk = Disk::default();
    let (core, ..) = core_on(&disk, NO_ROOM);
    let (handle, _writer) = start(core).unwrap();
    assert_eq!(handle.submit(Event::Add(1, 1), 1).await.unwrap(), 1);
    disk.fill();
    assert!(matches!(handle.submit(Event::Add(1, 2), 1).await, Err(SubmitError::StorageUnavailable)));
    let tries = u64::from(RECOVERY_TRIES_MAX) + 2;
    while handle.counts().recoveries < tries {
        assert!(matches!(handle.submit(Event::Add(1, 4), 1).await, Err(SubmitError::DiskFull)));
        tokio::task::yield_now().await;
    }
    disk.heal();
    // The event that met the full disk is kept; those that were refused are not.
    let last = loop {
        match handle.submit(Event::Add(1, 8), 1).await {
            Err(SubmitError::DiskFull) => tokio::task::yield_now().await,
            answered => break answered.unwrap(),
        }
    };
    assert_eq!(last, 11);
}

#[tokio::test]
async fn a_panic_while_performing_stops_the_writer_and_says_so() {
    let (core, ..) = core();
    let (handle, mut writer) = start(core).unwrap();
    assert!(matches!(handle.submit(Event::PanicInAction, 1).await, Err(SubmitError::Stopped)));
    assert!(matches!(writer.ended().await, Err(WriterError::Panicked)));
}

#[tokio::test]
async fn the_database_is_free_once_the_writer_has_ended() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("mesh.redb");
    let database = Arc::new(Database::create_file(&path).unwrap());
    let recorder = Recorder::new(&database);
    let (handle, mut writer) = start(machine::core_over(database, recorder)).unwrap();
    handle.submit(Event::Add(1, 1), 1).await.unwrap();
    handle.stop();
    writer.ended().await.unwrap();
    let database = Database::open_file(&path).unwrap();
    assert_eq!(value(&database, 1), Some(1));
}

#[test]
fn a_commit_is_one_flush_of_the_journal_or_two_of_the_tree() {
    for (journal_bytes, flushes) in [(ROOM, 1), (NO_ROOM, Disk::FLUSHES_OF_A_COMMIT)] {
        let disk = Disk::default();
        let (mut core, ..) = core_on(&disk, journal_bytes);
        // The first commits enlarge the file, and flush that too.
        core.run_batch(vec![post(Event::Add(1, 1))]).unwrap();
        core.run_batch(vec![post(Event::Add(1, 1))]).unwrap();
        let before = disk.flushes();
        core.run_batch(vec![post(Event::Add(1, 1))]).unwrap();
        assert_eq!(disk.flushes() - before, flushes);
    }
}
