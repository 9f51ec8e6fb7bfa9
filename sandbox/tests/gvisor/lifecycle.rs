//! How jobs end before their time, and what is left of them: nothing.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mesh_sandbox::{
    Cancel, Job, KilledBy, Language, Outcome, RequestedLimits, Sandbox, SandboxConfig, SandboxError,
};

use crate::fixture::{Log, cgroups_naming, open, processes_naming, wait_until_armed};
use crate::hostile::HOSTILE;

const STUBBORN: &str = "trap '' TERM INT HUP; (while :; do sleep 1; done) & while :; do sleep 1; done";

/// Names the directory of the process that is to be killed.
const VICTIM: &str = "MESH_SANDBOX_VICTIM";

#[test]
fn cancelling_ends_the_whole_tree_within_a_second() {
    let Some(fixture) = open() else { return };
    // The best of five: a machine that does much else may take its time once.
    let within_a_second = (0..5).any(|_| {
        let cancel = Cancel::new().unwrap();
        let handle = cancel.clone();
        let mut log = Log::on_ready(move || handle.cancel());
        let started = Instant::now();
        let report = fixture.sandbox.run(&Job::new(Language::Bash, STUBBORN), &cancel, &mut log).unwrap();
        let took = started.elapsed();
        assert_eq!((report.outcome, report.killed_by), (Outcome::Cancelled, Some(KilledBy::Cancelled)));
        assert!(processes_naming(&fixture.config.home).is_empty());
        took < Duration::from_millis(report.resource_usage.boot_time_ms + 1000)
    });
    assert!(within_a_second);
}

#[test]
fn a_job_cancelled_before_it_starts_never_becomes_ready() {
    let Some(fixture) = open() else { return };
    let cancel = Cancel::new().unwrap();
    cancel.cancel();
    let mut log = Log::default();
    let report = fixture.sandbox.run(&Job::new(Language::Bash, "echo ran"), &cancel, &mut log).unwrap();
    assert_eq!((report.outcome, log.ready, log.out()), (Outcome::Cancelled, 0, ""));
    assert_eq!(report.posture, None, "what was never ready has no observed class");
}

#[test]
fn what_a_job_printed_before_it_was_ended_is_not_lost() {
    let Some(fixture) = open() else { return };
    // Time enough to print on a busy machine.
    let limits = RequestedLimits { wall_seconds: Some(3), ..RequestedLimits::default() };
    for (language, code) in [
        (Language::Python, "import time; print('seen'); time.sleep(60)"),
        (Language::Node, "console.log('seen'); setTimeout(() => {}, 60000)"),
        (Language::Bash, "echo seen; sleep 60"),
    ] {
        let (report, log) = fixture.run_limited(language, code, limits);
        assert_eq!((report.outcome, log.out()), (Outcome::TimedOut, "seen\n"), "{language}");
    }
}

#[test]
fn cancelling_a_job_that_has_ended_changes_nothing() {
    let Some(fixture) = open() else { return };
    let cancel = Cancel::new().unwrap();
    let report = fixture.sandbox.run(&Job::new(Language::Bash, "true"), &cancel, &mut ()).unwrap();
    cancel.cancel();
    assert_eq!(report.outcome, Outcome::Succeeded);
}

#[test]
fn mixed_hostile_jobs_side_by_side_leave_no_process_group_directory_or_descriptor() {
    let Some(fixture) = open() else { return };
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    std::thread::scope(|scope| {
        for lane in 0..3 {
            let fixture = &fixture;
            scope.spawn(move || {
                for hostile in HOSTILE.iter().skip(lane).step_by(3) {
                    let (report, _) = fixture.run_job(&hostile.job());
                    assert!(hostile.is_right(&report), "{}: {report:?}", hostile.name);
                }
            });
        }
    });
    assert_eq!(fixture.job_dirs(), Vec::<std::path::PathBuf>::new());
    assert!(processes_naming(&fixture.config.home).is_empty());
    assert!(
        cgroups_naming("job-").iter().all(|path| !path.to_string_lossy().contains(&fixture.config.instance))
    );
    assert_eq!(descriptors(), before);
}

#[test]
fn a_closed_sandbox_leaves_no_control_group() {
    let Some(fixture) = open() else { return };
    let name = fixture.config.instance.clone();
    fixture.bash("true");
    drop(fixture);
    assert_eq!(cgroups_naming(&name), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_home_serves_one_process_and_a_sweep_respects_that() {
    let Some(fixture) = open() else { return };
    assert!(matches!(Sandbox::sweep(&fixture.config), Err(SandboxError::InUse { .. })));
    assert!(matches!(Sandbox::preflight(&fixture.config).sandbox, Err(SandboxError::InUse { .. })));
}

#[test]
fn a_sweep_of_another_home_does_not_touch_a_running_job() {
    let Some(fixture) = open() else { return };
    let other = SandboxConfig {
        home: fixture.config.home.with_extension("other"),
        instance: format!("{}-other", fixture.config.instance),
        ..fixture.config.clone()
    };
    let mut log = Log::on_ready(move || {
        Sandbox::sweep(&other).unwrap();
    });
    // Its input comes when the sweep is over.
    let job = Job { stdin: b"alive\n".to_vec(), ..Job::new(Language::Bash, "read -r line; echo $line") };
    let report = fixture.sandbox.run(&job, &Cancel::new().unwrap(), &mut log).unwrap();
    assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "alive\n"));
}

#[test]
fn after_its_node_is_killed_a_job_dies_and_a_sweep_removes_the_rest() {
    let Some(fixture) = open() else { return };
    let config = SandboxConfig {
        home: fixture.config.home.with_extension("victim"),
        instance: format!("{}-victim", fixture.config.instance),
        ..fixture.config.clone()
    };
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifecycle::runs_a_stubborn_job_until_it_is_killed", "--ignored", "--nocapture"])
        .env(VICTIM, format!("{}\n{}\n{}", config.home.display(), config.rootfs.display(), config.instance))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the job is running")));
    assert!(!processes_naming(&config.home).is_empty());
    victim.kill().unwrap();
    victim.wait().unwrap();
    let jobs = config.home.join("jobs");
    let left = fs::read_dir(&jobs).unwrap().count();

    let report = Sandbox::sweep(&config).unwrap();
    assert!(report.job_dirs == left && left > 2, "{report:?}: the job, and what was kept ready");
    assert!(processes_naming(&config.home).is_empty());
    assert_eq!(cgroups_naming(&config.instance), Vec::<std::path::PathBuf>::new());
    assert_eq!(fs::read_dir(jobs).unwrap().count(), 0);
    assert_eq!(Sandbox::sweep(&config).unwrap(), mesh_sandbox::SweepReport::default());
}

#[test]
#[ignore = "the other half of the test above, which starts it in a process of its own"]
fn runs_a_stubborn_job_until_it_is_killed() {
    let places = std::env::var(VICTIM).unwrap();
    let [home, rootfs, instance] = places.lines().collect::<Vec<_>>().try_into().unwrap();
    let config = SandboxConfig {
        home: Path::new(home).to_owned(),
        rootfs: Path::new(rootfs).to_owned(),
        ..SandboxConfig::new(Path::new(home), instance)
    };
    let sandbox = Sandbox::preflight(&config).sandbox.unwrap();
    wait_until_armed(&sandbox, 2);
    let mut log = Log::on_ready(|| println!("the job is running"));
    let limits = RequestedLimits { wall_seconds: Some(60), ..RequestedLimits::default() };
    let job = Job { limits, ..Job::new(Language::Bash, STUBBORN) };
    let report = sandbox.run(&job, &Cancel::new().unwrap(), &mut log);
    panic!("outlived its killer: {report:?}");
}
