//! Sandboxes that are started before there is a job for them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mesh_sandbox::limits::ARMED_MIB;
use mesh_sandbox::{Cancel, Job, JobReport, Language, Outcome, PoolConfig, RequestedLimits};
use rustix::event::{Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use crate::fixture::{
    Fixture, Log, all_die, cgroups_naming, hold_processes_naming, input, open, open_with, pause,
    processes_naming, wait_until_armed,
};

/// A sandbox with a full pool, where there can be one.
fn full(armed: usize) -> Option<Fixture> {
    let fixture = open_with(|config| config.pool = PoolConfig { armed, age: LONG, ..PoolConfig::default() })?;
    if !fixture.sandbox.capabilities().keeps_ready {
        eprintln!("SKIPPED: nothing can be stopped here, so nothing is kept ready");
        return None;
    }
    let kinds = fixture.sandbox.capabilities().languages.len();
    wait_until_armed(&fixture.sandbox, armed * kinds);
    Some(fixture)
}

/// Nothing is replaced for its age while a test runs.
const LONG: Duration = Duration::from_secs(600);

/// The directories of all sandboxes, whether they wait, start or serve.
fn dirs(fixture: &Fixture) -> BTreeSet<PathBuf> {
    fixture.job_dirs().into_iter().collect()
}

/// Runs a job in a sandbox that waited for it. Such a one is gone afterwards; how long the job waited would tell as well,
/// but not on a busy machine.
fn run_ready(fixture: &Fixture, job: &Job) -> (JobReport, Log) {
    let waiting = dirs(fixture);
    let (report, log) = fixture.run_job(job);
    let taken = waiting.difference(&dirs(fixture)).count();
    assert_eq!(taken, 1, "{} was not ready: {report:?}", job.language);
    (report, log)
}

#[test]
fn a_job_that_finds_a_sandbox_ready_does_not_wait_for_a_start_and_sees_no_difference() {
    let (Some(fixture), Some(without)) = (full(1), open()) else { return };
    for (language, code) in [
        (
            Language::Python,
            "import sys\nprint(__name__, __file__, sys.argv, sys.stdin.read(), open('input/x').read())\n\
             print(sorted(name for name in globals() if not name.startswith('__')))\nraise ValueError('mine')",
        ),
        (
            Language::Node,
            "const fs = require('fs'); console.log(require.main === module, __filename, process.argv.slice(1),\
             fs.readFileSync(0, 'utf8'), fs.readFileSync('input/x', 'utf8')); throw new Error('mine')",
        ),
        (
            Language::Bash,
            "read -r line; echo $0 $# ${BASH_ENV-unset} ${REPLY-unset} $BASH_SOURCE $line $(cat input/x); nonsense",
        ),
    ] {
        let job =
            Job { stdin: b"typed".to_vec(), inputs: vec![input("x", b"given")], ..Job::new(language, code) };
        let (warm, warm_log) = run_ready(&fixture, &job);
        let (cold, cold_log) = without.run_job(&job);
        assert_eq!((warm.outcome, warm.exit_code), (cold.outcome, cold.exit_code), "{language}");
        assert_eq!((warm_log.out(), warm_log.err()), (cold_log.out(), cold_log.err()), "{language}");
        assert_eq!(warm.posture, cold.posture);
    }
}

#[test]
fn what_waits_uses_no_processor_time() {
    let Some(fixture) = full(2) else { return };
    let used = || -> u64 {
        let groups = cgroups_naming(&fixture.config.instance);
        let read = |name: &str| {
            groups.iter().filter_map(|group| fs::read_to_string(group.join(name)).ok()).next_back()
        };
        let nanoseconds = read("cpuacct.usage").and_then(|text| text.trim().parse().ok());
        let micros = || {
            read("cpu.stat")?
                .lines()
                .find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<u64>().ok())
        };
        nanoseconds.or_else(|| Some(micros()? * 1000)).unwrap()
    };
    let (before, armed) = (used(), fixture.sandbox.armed());
    let pause = Timespec::try_from(Duration::from_secs(2)).unwrap();
    poll(&mut [], Some(&pause)).unwrap();
    let core = (used() - before) as f64 / 2e9;
    assert!(core <= 0.001, "{armed} waiting sandboxes use {:.3} % of a core", core * 100.0);
}

#[test]
fn no_sandbox_serves_two_jobs() {
    let Some(fixture) = full(2) else { return };
    let seen = Mutex::new(BTreeSet::new());
    for _ in 0..5 {
        let (report, log) = fixture.python(
            "import os, random\nprint(os.path.exists('/tmp/mark'), hasattr(os, 'mark'), open('/proc/sys/kernel/random/boot_id').read() if os.path.exists('/proc/sys/kernel/random/boot_id') else '', random.random(), hash('x'))\n\
             os.mark = True\nopen('/tmp/mark', 'w').write('x')",
        );
        assert_eq!(report.outcome, Outcome::Succeeded, "{}", log.err());
        assert!(log.out().starts_with("False False"), "{}", log.out());
        assert!(seen.lock().unwrap().insert(log.out().to_owned()), "chance was repeated: {}", log.out());
    }
}

#[test]
fn limits_of_a_waiting_sandbox_are_those_of_the_job_it_gets() {
    let Some(fixture) = full(1) else { return };
    let limits = RequestedLimits {
        max_pids: Some(20),
        max_file_mb: Some(1),
        mem_mb: Some(32),
        wall_seconds: Some(20),
        ..RequestedLimits::default()
    };
    let code = "ulimit -u -f; ulimit -u 100 2> /dev/null && echo raised";
    let (_, log) = run_ready(&fixture, &Job { limits, ..Job::new(Language::Bash, code) });
    assert!(log.out().contains(" 20\n") && log.out().contains(" 1024\n"), "{}", log.out());
    assert!(!log.out().contains("raised"), "{}", log.out());
    let bomb = "x = []\nwhile True: x.append(bytearray(1 << 20))";
    let (report, _) = fixture.run_limited(Language::Python, bomb, limits);
    if report.limit_enforcement.mem_mb {
        assert_eq!(report.outcome, Outcome::OomKilled);
        assert!(report.resource_usage.memory_peak_bytes.unwrap() <= (32 + 48 + 4) << 20, "{report:?}");
    } else {
        eprintln!("SKIPPED: memory is not enforced by the kernel here");
    }
}

#[test]
fn a_sandbox_that_died_while_it_waited_is_not_given_a_job() {
    let Some(fixture) = full(1) else { return };
    let waiting = hold_processes_naming(&fixture.config.home);
    assert!(!waiting.is_empty());
    for process in &waiting {
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    assert!(all_die(&waiting), "what was stopped does not die");
    for language in Language::ALL {
        let code = match language {
            Language::Python => "print(1)",
            Language::Node => "console.log(1)",
            Language::Bash => "echo 1",
        };
        let (report, log) = fixture.run(language, code);
        assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "1\n"), "{language}: {report:?}");
    }
}

#[test]
fn what_waited_too_long_is_replaced() {
    // One alone: with several, the first may be too old before the last is started.
    let pool = PoolConfig {
        armed: 1,
        age: Duration::from_millis(1500),
        languages: vec![Language::Bash],
        ..PoolConfig::default()
    };
    let Some(fixture) = open_with(|config| config.pool = pool) else { return };
    if !fixture.sandbox.capabilities().keeps_ready {
        eprintln!("SKIPPED: nothing can be stopped here, so nothing is kept ready");
        return;
    }
    let started = Instant::now();
    let patience = || assert!(started.elapsed() < Duration::from_secs(60), "{:?} are there", dirs(&fixture));
    let mut first = dirs(&fixture);
    while first.is_empty() {
        patience();
        pause();
        first = dirs(&fixture);
    }
    while !dirs(&fixture).is_disjoint(&first) {
        patience();
        pause();
    }
    wait_until_armed(&fixture.sandbox, 1);
}

#[test]
fn a_burst_finds_as_many_ready_the_next_time_and_memory_bounds_them_all() {
    let burst = |fixture: &Fixture, jobs: usize| {
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| assert_eq!(fixture.bash("echo 1").1.out(), "1\n"));
            }
        });
    };
    // Room for three more than the least of all three languages.
    let memory_mb = 6 * ARMED_MIB;
    let Some(fixture) = open_with(|config| {
        config.pool = PoolConfig { armed: 1, memory_mb, ..PoolConfig::default() };
    }) else {
        return;
    };
    if !fixture.sandbox.capabilities().keeps_ready {
        eprintln!("SKIPPED: nothing can be stopped here, so nothing is kept ready");
        return;
    }
    let kinds = fixture.sandbox.capabilities().languages.len();
    wait_until_armed(&fixture.sandbox, kinds);
    burst(&fixture, 10);
    wait_until_armed(&fixture.sandbox, 6);
    let (waiting, jobs) = (dirs(&fixture), 6 - (kinds - 1));
    burst(&fixture, jobs);
    let taken = waiting.difference(&dirs(&fixture)).count();
    assert_eq!(taken, jobs, "the second burst found too few ready");
    // Other languages have not lost their least to it.
    for language in [Language::Python, Language::Node] {
        if fixture.sandbox.capabilities().languages.iter().any(|support| support.language == language) {
            run_ready(&fixture, &Job::new(language, "1"));
        }
    }
    assert!(fixture.sandbox.armed() <= 6);
}

#[test]
fn a_job_cancelled_before_it_starts_is_not_given_to_a_waiting_sandbox() {
    let Some(fixture) = full(1) else { return };
    let cancel = Cancel::new().unwrap();
    cancel.cancel();
    let mut log = Log::default();
    let report = fixture.sandbox.run(&Job::new(Language::Bash, "echo ran"), &cancel, &mut log).unwrap();
    assert_eq!((report.outcome, log.ready, log.out()), (Outcome::Cancelled, 0, ""));
    assert_eq!(report.posture, None);
}

#[test]
fn a_closed_sandbox_leaves_nothing_of_its_pool() {
    let Some(fixture) = full(2) else { return };
    let (home, name) = (fixture.config.home.clone(), fixture.config.instance.clone());
    assert!(!processes_naming(&home).is_empty());
    drop(fixture);
    assert!(processes_naming(&home).is_empty());
    assert!(cgroups_naming(&name).is_empty());
}
