//! A node that is not root and has no control group: it isolates all the same, and says what it cannot enforce.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use mesh_sandbox::limits::TEXT_BYTES_MAX;
use mesh_sandbox::{CgroupKind, IsolationClass, Job, KilledBy, Language, Outcome, RequestedLimits};

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
        assert!(!capabilities.keeps_ready, "nothing can be stopped here");
    }
    speaks_every_language(&fixture);
    reaches_nothing(&fixture);
    hands_over_what_was_asked_for(&fixture);
    ends_what_takes_too_much(&fixture);
    assert!(fixture.job_dirs().is_empty());
}

/// Output, exit codes, errors and input are as they are for root.
fn speaks_every_language(fixture: &Fixture) {
    let stdin: Vec<u8> = (0..TEXT_BYTES_MAX).map(|index| u8::try_from(index % 251).unwrap()).collect();
    for (language, hello, fails, throws, copies) in [
        (
            Language::Python,
            "import sys; print('hello'); print('wrong', file=sys.stderr)",
            "import sys; sys.exit(3)",
            "raise ValueError('mine')",
            "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())",
        ),
        (
            Language::Node,
            "console.log('hello'); console.error('wrong')",
            "process.exit(3)",
            "throw new Error('mine')",
            "process.stdin.pipe(process.stdout)",
        ),
        (Language::Bash, "echo hello; echo wrong >&2", "exit 3", "echo mine >&2; exit 1", "cat"),
    ] {
        let (report, log) = fixture.run(language, hello);
        assert_eq!((report.outcome, log.out(), log.err()), (Outcome::Succeeded, "hello\n", "wrong\n"));
        let (report, _) = fixture.run(language, fails);
        assert_eq!((report.outcome, report.exit_code), (Outcome::Failed, Some(3)), "{language}");
        let (report, log) = fixture.run(language, throws);
        assert!(report.outcome == Outcome::Failed && log.err().contains("mine"), "{language}: {}", log.err());
        let (_, log) = fixture.run_job(&Job { stdin: stdin.clone(), ..Job::new(language, copies) });
        assert!(log.stdout == stdin, "{language} changed its input");
        let (report, _) = fixture.run_job(&Job { stdin: stdin.clone(), ..Job::new(language, hello) });
        assert_eq!(report.outcome, Outcome::Succeeded, "{language} had to read its input");
    }
}

/// No network, no host, no way to change what is shared, no power over the init.
fn reaches_nothing(fixture: &Fixture) {
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let home = fixture.config.home.display();
    let (report, log) = fixture.bash(&format!(
        "for at in 127.0.0.1/{port} 169.254.169.254/80 192.0.2.1/53; do (exec 4<> /dev/tcp/$at) 2> /dev/null && echo $at; done
         for path in /etc/shadow /root /home {home}; do [ -e $path ] && echo $path; done
         for dir in / /usr /etc /boot /job /work/input; do (echo x > $dir/x) 2> /dev/null && echo $dir; done
         kill -9 1 2> /dev/null && echo killed; id -u",
    ));
    assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "65534\n"), "{}", log.err());
    host.set_nonblocking(true).unwrap();
    assert!(host.accept().is_err(), "the host heard from the job");
    let (_, log) = fixture.python(
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, *arguments in (('mount', b'none', b'/tmp', b'tmpfs', 0, None), ('ptrace', 16, 1, 0, 0), ('setuid', 0),
                         ('mknod', b'/tmp/node', 0o20666, 0x103), ('unshare', 0x10000000)):
    if getattr(libc, name)(*arguments) != -1 or ctypes.get_errno() != 1: print(name, ctypes.get_errno())
try: os.open('/proc/1/fd/3', os.O_RDWR); print('control')
except OSError: print('end')",
    );
    assert_eq!(log.out(), "end\n", "{}", log.err());
}

fn hands_over_what_was_asked_for(fixture: &Fixture) {
    let job =
        Job { outputs: vec!["x".to_owned()], ..Job::new(Language::Bash, "umask 077; echo mine > output/x") };
    let (report, _) = fixture.run_job(&job);
    assert_eq!(report.outcome, Outcome::Succeeded, "{report:?}");
    assert_eq!(report.artifacts[0].contents, b"mine\n");
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
    let limits = RequestedLimits { output_bytes: Some(65_536), ..RequestedLimits::default() };
    let (report, log) = fixture.run_limited(Language::Bash, "yes", limits);
    assert_eq!((report.outcome, report.killed_by), (Outcome::Failed, Some(KilledBy::Output)));
    assert_eq!((log.stdout.len(), report.stdout.truncated), (65_536, true));
}
