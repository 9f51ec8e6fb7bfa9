//! A node that is not root and has no control group: it isolates all the same, and says what it cannot enforce.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use mesh_sandbox::{CgroupKind, IsolationClass, KilledBy, Language, Outcome, RequestedLimits};

use crate::fixture::{Fixture, HOME, open, open_in};

/// A user that owns nothing.
const NOBODY: u32 = 61_234;

#[test]
fn a_node_without_root_runs_jobs_and_claims_no_more_than_it_enforces() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    if open().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Others may not be able to reach the build directory.
    let program = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let output = Command::new(&program)
        .args(["--exact", "without_root::holds_without_root", "--ignored", "--nocapture"])
        .env(HOME, dir.path())
        .env("TMPDIR", dir.path())
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "the other half of the test above, which starts it as another user"]
fn holds_without_root() {
    let fixture = open_in(PathBuf::from(std::env::var_os(HOME).unwrap())).unwrap();
    let capabilities = fixture.sandbox.capabilities();
    assert_eq!(capabilities.isolation_class, IsolationClass::GvisorApplicationKernel);
    if capabilities.cgroups == CgroupKind::None {
        let enforced = capabilities.limit_enforcement;
        assert!(!enforced.mem_mb && !enforced.cpu_seconds && enforced.wall_seconds);
    }
    let (report, log) = fixture.bash("id -u; (echo x > /usr/x) 2> /dev/null || echo read-only");
    assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "65534\nread-only\n"));
    ends_what_takes_too_much(&fixture);
    assert!(fixture.job_dirs().is_empty());
}

fn ends_what_takes_too_much(fixture: &Fixture) {
    let limits = RequestedLimits { wall_seconds: Some(20), mem_mb: Some(64), ..RequestedLimits::default() };
    let bomb = "x = []\nwhile True: x.append(bytearray(1 << 20))";
    let (report, _) = fixture.run_limited(Language::Python, bomb, limits);
    assert_eq!((report.outcome, report.killed_by), (Outcome::OomKilled, Some(KilledBy::Memory)));
    let limits = RequestedLimits { wall_seconds: Some(1), ..RequestedLimits::default() };
    let (report, _) =
        fixture.run_limited(Language::Bash, "trap '' TERM; while :; do sleep 0.2; done", limits);
    assert_eq!((report.outcome, report.killed_by), (Outcome::TimedOut, Some(KilledBy::Wall)));
}
