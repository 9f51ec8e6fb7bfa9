//! The first process of a sandbox: a hostile job beside it, in the full combination that every job runs in (user 0
//! with three capabilities, the system call filter, an image instead of files of the host, a passed control socket).

use mesh_sandbox::{Job, Language, Outcome};

use crate::fixture::open;

/// Tries everything a job could do to its init; prints what succeeded.
const ATTACK: &str = r"
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def must_fail(name, act):
    try: result = act()
    except (OSError, ValueError): return
    print(name, result)
for signal_ in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP):
    must_fail('kill', lambda: os.kill(1, signal_))
must_fail('kill all', lambda: os.kill(1, 0))
def ptrace(): 
    if libc.ptrace(16, 1, 0, 0) == -1: raise OSError(ctypes.get_errno())
must_fail('ptrace', ptrace)
must_fail('memory', lambda: open('/proc/1/mem', 'r+b').read(1))
must_fail('control', lambda: os.open('/proc/1/fd/3', os.O_RDWR))
must_fail('program', lambda: open('/boot/init', 'r+b'))
must_fail('limit', lambda: __import__('resource').prlimit(1, __import__('resource').RLIMIT_NOFILE, (0, 0)))
must_fail('own limit', lambda: __import__('resource').setrlimit(__import__('resource').RLIMIT_NPROC, (4096, 4096)))
must_fail('setuid', lambda: os.setuid(0))
must_fail('setgid', lambda: os.setgid(0))
must_fail('setgroups', lambda: os.setgroups([0]))
must_fail('code', lambda: open('/job/main.py', 'a'))
must_fail('code removed', lambda: os.remove('/job/main.py'))
must_fail('work moved', lambda: os.rename('/work/output', '/work/x'))
import socket
for fd in range(3, 256):
    try: os.fstat(fd)
    except OSError: continue
    print('descriptor', fd)
status = dict(line.split(':\t', 1) for line in open('/proc/self/status').read().splitlines() if ':\t' in line)
print(status['CapEff'], status['CapPrm'], status['CapInh'], status['Seccomp'], os.getresuid(), os.getresgid(), os.getgroups())
print('init', [line.split()[1] for line in open('/proc/1/status') if line.startswith(('Uid', 'CapEff', 'CapBnd'))])
open('output/done', 'w').write('done')
os._exit(7)
";

#[test]
fn a_job_can_neither_end_nor_trace_nor_impersonate_its_init() {
    let Some(fixture) = open() else { return };
    let job = Job { outputs: vec!["done".to_owned()], ..Job::new(Language::Python, ATTACK) };
    let (report, log) = fixture.run_job(&job);
    // CAP_KILL is 5, CAP_SETGID 6, CAP_SETUID 7.
    let expected = "0000000000000000 0000000000000000 0000000000000000 2 \
         (65534, 65534, 65534) (65534, 65534, 65534) []\n\
         init ['0', '00000000000000e0', '00000000000000e0']\n";
    assert_eq!(log.out(), expected, "{}", log.err());
    assert_eq!((report.outcome, report.exit_code), (Outcome::Failed, Some(7)), "{report:?}");
    assert_eq!(report.artifacts.len(), 1, "the init still does its work");
}

#[test]
fn a_job_that_kills_everything_it_may_kills_only_itself() {
    let Some(fixture) = open() else { return };
    let (report, _) = fixture.python(
        "import os, signal\nif os.fork() == 0:\n  try: os.kill(-1, signal.SIGKILL)\n  finally: os._exit(0)\n\
         os.wait()\nos.kill(os.getpid(), signal.SIGKILL)",
    );
    assert_eq!((report.outcome, report.exit_code), (Outcome::Failed, Some(137)), "{report:?}");
}

#[test]
fn what_a_job_leaves_running_ends_with_it_at_once() {
    let Some(fixture) = open() else { return };
    for code in [
        "setsid sleep 60 & disown; echo done",
        "exec 3>&1; (trap '' TERM HUP; sleep 60) & echo done; exit 0",
        "for i in 1 2 3 4 5; do (sleep 60 &) ; done; echo done",
    ] {
        let (report, log) = fixture.bash(code);
        assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "done\n"), "{code}");
        assert!(report.resource_usage.wall_time_ms < 10_000, "{code}: {report:?}");
    }
}

#[test]
fn a_job_that_closes_its_streams_or_says_nothing_ends_as_any_other() {
    let Some(fixture) = open() else { return };
    for (language, code) in [
        (Language::Python, "import os\nfor fd in (0, 1, 2): os.close(fd)\nos._exit(0)"),
        (Language::Node, "process.exitCode = 0"),
        (Language::Bash, "exec <&- >&- 2>&-"),
    ] {
        let (report, log) = fixture.run(language, code);
        assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, ""), "{language}: {report:?}");
    }
}
