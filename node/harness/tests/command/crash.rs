//! What a killed owner leaves, and what the next start makes of it.

#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use mesh_harness::run_file::Fate;
use mesh_harness::{CommandEngine, Engine, FailureReason, RunName, RunOutcome, Task, sweep};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio_util::sync::CancellationToken;

use super::shell::{eventually, failure, gone, is_running, process_in, reply, run, script, task};

/// Where an owner that is to be killed runs its program.
const OWNER_HOME: &str = "HARNESS_TEST_OWNER_HOME";

/// Starts an owner in a process of its own, kills it once its program has a child, and returns that child.
async fn kill_an_owner(home: &Path) -> u32 {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::owns_a_run_until_it_is_killed", "--ignored"])
        .env(OWNER_HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = process_in(&home.join("child")).await;
    eventually("the run is recorded", || {
        std::fs::read_to_string(home.join("lost.run")).ok().filter(|text| text.contains("\ngroup "))
    })
    .await;
    owner.kill().unwrap();
    owner.wait().unwrap();
    child
}

#[tokio::test]
#[ignore = "started by other tests, which kill it"]
async fn owns_a_run_until_it_is_killed() {
    let home = std::env::var_os(OWNER_HOME).unwrap();
    let text = "trap '' TERM; sleep 1000 & echo $! > child; wait";
    let spec = script(Path::new(&home), text).with_run_directory(&home);
    let task = Task::new(RunName::new("lost").unwrap(), "").unwrap();
    let outcome = CommandEngine::new(spec).unwrap().run(task, CancellationToken::new()).await;
    panic!("it ended: {outcome:?}");
}

#[tokio::test]
async fn a_sweep_ends_what_a_killed_owner_left() {
    let home = tempfile::tempdir().unwrap();
    let child = kill_an_owner(home.path()).await;
    assert!(is_running(child), "nothing was left to sweep");

    let report = sweep(home.path()).unwrap();
    let [swept] = report.runs.as_slice() else { panic!("{report:?}") };
    assert_eq!(swept.run.as_str(), "lost");
    assert!(matches!(swept.fate, Fate::Killed), "{swept:?}");
    gone(child).await;
    assert!(sweep(home.path()).unwrap().runs.is_empty(), "the file is still there");
}

#[tokio::test]
async fn a_sweep_leaves_a_process_alone_that_only_has_the_number() {
    let home = tempfile::tempdir().unwrap();
    let child = kill_an_owner(home.path()).await;
    let file = home.path().join("lost.run");
    let real = std::fs::read_to_string(&file).unwrap();

    let (before, started) = real.trim_end().rsplit_once(' ').unwrap();
    let later = started.parse::<u64>().unwrap() + 1;
    for other in [format!("{before} {later}\n"), real.replace("\nboot ", "\nboot 0")] {
        std::fs::write(&file, other).unwrap();
        let report = sweep(home.path()).unwrap();
        assert!(matches!(report.runs.as_slice(), [swept] if matches!(swept.fate, Fate::Ended)), "{report:?}");
        assert!(is_running(child), "a stranger was killed");
    }

    std::fs::write(&file, real).unwrap();
    sweep(home.path()).unwrap();
    gone(child).await;
}

#[tokio::test]
async fn a_sweep_reports_a_group_without_its_leader_until_it_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let mut leader = Command::new("/bin/sh")
        .args(["-c", "sleep 1000 & echo $! > child"])
        .current_dir(home.path())
        .process_group(0)
        .spawn()
        .unwrap();
    leader.wait().unwrap();
    let child = process_in(&home.path().join("child")).await;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let record = format!("mesh-run 1\nboot {}\ngroup {} 1\n", boot.trim(), leader.id());
    std::fs::write(home.path().join("lost.run"), record).unwrap();
    let fate = || sweep(home.path()).unwrap().runs.pop().map(|swept| swept.fate);

    for _ in 0..2 {
        assert!(matches!(fate(), Some(Fate::LeaderGone { group }) if group.unsigned_abs() == leader.id()));
        assert!(is_running(child));
    }
    let group = Pid::from_raw(i32::try_from(leader.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    eventually("the group is gone", || (test_kill_process_group(group) == Err(Errno::SRCH)).then_some(()))
        .await;
    assert!(matches!(fate(), Some(Fate::Ended)));
    assert!(fate().is_none(), "the file is still there");
}

#[test]
fn a_start_that_was_not_finished_is_told_and_other_files_stay() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("early.run"), "mesh-run 1\nboot ").unwrap();
    std::fs::write(home.path().join("broken.run"), "mesh-run 1\nboot b\ngroup 1 1\n").unwrap();
    std::fs::write(home.path().join("notes.txt"), "mine").unwrap();

    let report = sweep(home.path()).unwrap();
    let found: Vec<_> = report.runs.iter().map(|swept| (swept.run.as_str(), &swept.fate)).collect();
    assert!(matches!(found[..], [("broken", Fate::Unreadable), ("early", Fate::NotRecorded)]), "{found:?}");
    let left = ["broken.run", "early.run", "notes.txt"].map(|name| home.path().join(name).exists());
    assert_eq!(left, [true, false, true]);
}

#[tokio::test]
async fn a_run_is_recorded_while_it_runs_and_not_after() {
    let home = tempfile::tempdir().unwrap();
    // The record may be a moment later than the program, so the program waits for its line.
    let text = "while ! grep -q ^group run.run; do sleep 0.05; done; grep ^group run.run; echo $$";
    let spec = script(home.path(), text).with_run_directory(home.path());
    let seen = reply(run(spec, task("")).await);
    let words: Vec<&str> = seen.split_ascii_whitespace().collect();
    assert!(matches!(words[..], ["group", group, _, leader] if group == leader), "{seen}");
    assert!(!home.path().join("run.run").exists());
}

#[tokio::test]
async fn a_run_that_cannot_be_recorded_does_not_start() {
    let home = tempfile::tempdir().unwrap();
    let spec = || script(home.path(), "echo started > file; echo answer");
    let no_directory = failure(run(spec().with_run_directory("/no/such/directory"), task("")).await);
    assert!(matches!(no_directory.reason, FailureReason::RunFile(_)), "{no_directory:?}");

    std::fs::write(home.path().join("run.run"), "").unwrap();
    let outcome = run(spec().with_run_directory(home.path()), task("")).await;
    assert!(matches!(outcome, RunOutcome::Failed(_)), "{outcome:?}");
    assert!(!home.path().join("file").exists());
    assert!(home.path().join("run.run").exists(), "another run's record was removed");
}
