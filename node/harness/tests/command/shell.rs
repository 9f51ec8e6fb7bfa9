//! Shell scripts as agents, and a look at the processes they leave.

use std::path::Path;
use std::time::{Duration, Instant};

use mesh_harness::{CommandEngine, CommandSpec, Engine, Failure, RunName, RunOutcome, Task};
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes on a slow machine; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn script(directory: &Path, script: &str) -> CommandSpec {
    CommandSpec::new("/bin/sh", directory).with_arguments(["-c", script])
}

pub(crate) fn task(text: &str) -> Task {
    Task::new(RunName::new("run").unwrap(), text).unwrap()
}

/// Runs a script in a directory of its own that is gone afterwards.
pub(crate) async fn run_script(text: &str, task: Task) -> RunOutcome {
    let home = tempfile::tempdir().unwrap();
    run(script(home.path(), text), task).await
}

pub(crate) async fn run(spec: CommandSpec, task: Task) -> RunOutcome {
    let engine = CommandEngine::new(spec).unwrap();
    let outcome = engine.run(task, CancellationToken::new());
    tokio::time::timeout(PATIENCE, outcome).await.expect("the run hangs")
}

pub(crate) fn reply(outcome: RunOutcome) -> String {
    match outcome {
        RunOutcome::Completed { reply } => reply,
        other => panic!("no reply: {other:?}"),
    }
}

pub(crate) fn failure(outcome: RunOutcome) -> Failure {
    match outcome {
        RunOutcome::Failed(failure) => failure,
        other => panic!("no failure: {other:?}"),
    }
}

/// Waits for something that another process does.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The process number a script wrote into a file, once it is complete.
pub(crate) async fn process_in(file: &Path) -> u32 {
    eventually("a script writes its process number", || {
        let text = std::fs::read_to_string(file).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    })
    .await
}

pub(crate) async fn gone(process: u32) {
    eventually("the process ends", || (!is_running(process)).then_some(())).await;
}

/// Whether a process runs; one that has ended and waits to be collected does not.
pub(crate) fn is_running(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}
