//! Programs that do not end by themselves, and the processes they start.

use std::path::Path;
use std::task::Poll;
use std::time::{Duration, Instant};

use mesh_harness::limits::{DRAIN_TIME, STOP_GRACE};
use mesh_harness::{CommandEngine, CommandSpec, Engine, FailureReason, RunOutcome};
use tokio_util::sync::CancellationToken;

use super::shell::{PATIENCE, failure, gone, is_running, process_in, reply, run, script, task};

/// Writes a child's number into `child`, then waits for it.
const PARENT: &str = "sleep 1000 & echo $! > child; wait";

/// Like it, and neither it nor its child lets itself be asked to end.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $! > child; while :; do wait; sleep 1; done";

/// Starts a run in the background and cancels it once its child is there.
async fn cancel_when_started(home: &Path, text: &str) -> (RunOutcome, u32, Duration) {
    let engine = CommandEngine::new(script(home, text)).unwrap();
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let under_way = tokio::spawn(async move { engine.run(task(""), token).await });

    let child = process_in(&home.join("child")).await;
    assert!(is_running(child));
    let start = Instant::now();
    cancel.cancel();
    let outcome = tokio::time::timeout(PATIENCE, under_way).await.expect("the run hangs").unwrap();
    (outcome, child, start.elapsed())
}

#[tokio::test]
async fn a_time_limit_ends_the_whole_tree() {
    let home = tempfile::tempdir().unwrap();
    // Enough for a shell to write its child's number, on a machine that does much else.
    let limit = Duration::from_secs(4);
    let spec = script(home.path(), PARENT).with_time_limit(PATIENCE);
    let failure = failure(run(spec, task("").with_time_limit(limit)).await);
    assert!(
        matches!(failure.reason, FailureReason::TimedOut { limit: told } if told == limit),
        "{failure:?}"
    );
    gone(process_in(&home.path().join("child")).await).await;
}

#[tokio::test]
async fn a_task_cannot_ask_for_more_time_than_the_engine_gives() {
    let limit = Duration::from_millis(50);
    let spec = CommandSpec::new("sleep", "/").with_arguments(["1000"]).with_time_limit(limit);
    let failure = failure(run(spec, task("").with_time_limit(PATIENCE * 10)).await);
    assert!(
        matches!(failure.reason, FailureReason::TimedOut { limit: told } if told == limit),
        "{failure:?}"
    );
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree() {
    let home = tempfile::tempdir().unwrap();
    let (outcome, child, _) = cancel_when_started(home.path(), PARENT).await;
    assert!(matches!(outcome, RunOutcome::Cancelled), "{outcome:?}");
    gone(child).await;
}

#[tokio::test]
async fn a_tree_that_ignores_the_request_is_killed_after_its_grace() {
    let home = tempfile::tempdir().unwrap();
    let (outcome, child, took) = cancel_when_started(home.path(), STUBBORN).await;
    assert!(matches!(outcome, RunOutcome::Cancelled), "{outcome:?}");
    assert!(took >= STOP_GRACE, "killed after {took:?}");
    gone(child).await;
}

#[tokio::test]
async fn a_child_may_use_its_grace_after_its_parent_has_ended() {
    let home = tempfile::tempdir().unwrap();
    // It takes a small part of its grace: a machine that does much else needs the rest.
    let parent = "sh -c 'trap \"sleep 0.2; echo saved > state; exit\" TERM; echo $$ > child; \
                  while :; do sleep 0.05; done'; :";
    let (outcome, child, _) = cancel_when_started(home.path(), parent).await;
    assert!(matches!(outcome, RunOutcome::Cancelled), "{outcome:?}");
    assert_eq!(std::fs::read_to_string(home.path().join("state")).unwrap(), "saved\n");
    gone(child).await;
}

#[tokio::test]
async fn a_run_cancelled_before_it_started_starts_nothing() {
    let home = tempfile::tempdir().unwrap();
    let engine = CommandEngine::new(script(home.path(), "echo started > file; echo answer")).unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(matches!(engine.run(task(""), cancel).await, RunOutcome::Cancelled));
    assert!(!home.path().join("file").exists());
}

#[tokio::test]
async fn dropping_a_run_kills_its_tree() {
    let home = tempfile::tempdir().unwrap();
    let engine = CommandEngine::new(script(home.path(), STUBBORN)).unwrap();
    let file = home.path().join("child");
    let child = tokio::select! {
        outcome = engine.run(task(""), CancellationToken::new()) => panic!("ended: {outcome:?}"),
        child = process_in(&file) => child,
    };
    gone(child).await;
}

#[tokio::test]
async fn what_a_finished_program_left_behind_is_killed_and_adds_nothing_to_its_reply() {
    let home = tempfile::tempdir().unwrap();
    let text = "(sleep 20; echo late; exec sleep 1000) & echo $! > child; echo answer";
    assert_eq!(reply(run(script(home.path(), text), task("")).await), "answer");
    gone(process_in(&home.path().join("child")).await).await;
}

#[tokio::test]
async fn a_program_that_finished_before_it_was_cancelled_has_answered() {
    for _ in 0..8 {
        let home = tempfile::tempdir().unwrap();
        let engine = CommandEngine::new(script(home.path(), "echo answer; echo $$ > child")).unwrap();
        let cancel = CancellationToken::new();
        let mut under_way = engine.run(task(""), cancel.clone());
        // Starts the program, and then does not look until both have happened.
        let started = std::future::poll_fn(|context| Poll::Ready(under_way.as_mut().poll(context))).await;
        assert!(started.is_pending(), "{started:?}");
        gone(process_in(&home.path().join("child")).await).await;
        cancel.cancel();
        assert_eq!(reply(under_way.await), "answer");
    }
}

#[tokio::test]
async fn a_process_that_left_the_group_cannot_hold_up_the_run() {
    let home = tempfile::tempdir().unwrap();
    // It leaves on its own account, so the script waits until it has.
    let escape = "setsid sh -c 'echo $$ > child; exec sleep 1000' & \
                  while ! [ -s child ]; do sleep 0.05; done; echo answer";
    let start = Instant::now();
    assert_eq!(reply(run(script(home.path(), escape), task("")).await), "answer");
    assert!((DRAIN_TIME..PATIENCE / 2).contains(&start.elapsed()), "{:?}", start.elapsed());

    let escaped = process_in(&home.path().join("child")).await;
    assert!(is_running(escaped), "it was in reach after all");
    let escaped = rustix::process::Pid::from_raw(i32::try_from(escaped).unwrap()).unwrap();
    rustix::process::kill_process(escaped, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_program_that_closes_its_outputs_is_still_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let text = "echo answer; exec >&- 2>&-; sleep 0.3; echo done > file";
    assert_eq!(reply(run(script(home.path(), text), task("")).await), "answer");
    assert!(home.path().join("file").exists());
}
