//! The weaker class: namespaces of the host's own kernel, where the operator allows it and gVisor does not work.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use mesh_sandbox::{
    IsolationClass, Job, KilledBy, Language, Outcome, PoolConfig, RequestedLimits, Sandbox, SandboxConfig,
    SandboxError,
};
use rustix::process::Gid;

use crate::fixture::{Fixture, HOME, config, input, of, open_with, processes_naming, wait_until_armed};
use crate::hostile::HOSTILE;

/// A user that owns nothing.
const NOBODY: u32 = 61_235;

/// Whether bubblewrap is here.
fn is_possible() -> bool {
    let there = Command::new("bwrap").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("SKIPPED: bubblewrap is not installed");
    }
    there
}

/// A machine without gVisor whose operator allows the weaker class.
fn without_gvisor(config: &mut SandboxConfig) {
    config.runsc = Some(PathBuf::from("/nowhere/runsc"));
    config.shared_kernel = true;
}

#[test]
fn without_the_operators_word_there_is_no_weaker_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    without_gvisor(&mut config);
    config.shared_kernel = false;
    let preflight = Sandbox::preflight(&config);
    assert!(matches!(preflight.sandbox, Err(SandboxError::Runtime(_))));
    assert!(preflight.probes.iter().all(|probe| probe.name != "shared-kernel"));
}

#[test]
fn where_gvisor_works_the_weaker_class_is_not_used_even_if_it_is_allowed() {
    let Some(fixture) = open_with(|config| config.shared_kernel = true) else { return };
    let (report, _) = fixture.bash("true");
    assert_eq!(report.posture.unwrap().isolation_class, IsolationClass::GvisorApplicationKernel);
}

#[test]
fn jobs_run_in_the_weaker_class_and_say_so() {
    if !is_possible() {
        return;
    }
    let Some(fixture) = open_with(without_gvisor) else { return };
    holds(&fixture);
    if rustix::process::geteuid().is_root() {
        let (_, log) = fixture.python("import os\nopen('/work/x', 'w')\nprint(os.stat('/work/x').st_uid, os.stat('/work/input').st_uid)");
        assert_eq!(log.out(), "65534 0\n", "the job and its init are two users");
    }
}

#[test]
fn a_job_is_in_no_group_of_the_nodes() {
    if !is_possible() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can be in a group at will");
        return;
    }
    // Of this thread alone, and of those it starts: the one that starts sandboxes is among them.
    rustix::thread::set_thread_groups(&[Gid::from_raw(0), Gid::from_raw(NOBODY)]).unwrap();
    let Some(fixture) = open_with(without_gvisor) else { return };
    let (report, log) = fixture.python("import os\nprint(os.getgroups(), os.getresuid(), os.getresgid())");
    let nobody = "(65534, 65534, 65534)";
    assert_eq!(log.out(), format!("[] {nobody} {nobody}\n"), "{report:?} {}", log.err());
}

/// What a job sees and cannot do.
fn holds(fixture: &Fixture) {
    let class = IsolationClass::LinuxSharedKernel;
    assert_eq!(fixture.sandbox.capabilities().isolation_class, class);
    for (language, code) in [
        (Language::Python, "print(open('input/x').read(), __name__); open('output/y', 'w').write('left')"),
        (
            Language::Node,
            "const fs = require('fs'); console.log(fs.readFileSync('input/x', 'utf8'), '__main__'); fs.writeFileSync('output/y', 'left')",
        ),
        (Language::Bash, "echo $(cat input/x) __main__; printf left > output/y"),
    ] {
        let outputs = vec!["y".to_owned()];
        let job = Job { inputs: vec![input("x", b"given")], outputs, ..Job::new(language, code) };
        let (report, log) = fixture.run_job(&job);
        assert_eq!(
            (report.outcome, log.out()),
            (Outcome::Succeeded, "given __main__\n"),
            "{report:?} {}",
            log.err()
        );
        assert_eq!(report.artifacts[0].contents, b"left");
        let posture = report.posture.unwrap();
        assert_eq!((posture.isolation_class, posture.seccomp.as_str()), (class, "bpf-deny-list"));
    }
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let home = fixture.config.home.display();
    let (_, log) = fixture.bash(&format!(
        "for at in 127.0.0.1/{port} 169.254.169.254/80; do (exec 4<> /dev/tcp/$at) 2> /dev/null && echo $at; done
         for path in /etc/shadow /root /home {home}; do [ -e $path ] && echo $path; done
         for dir in / /usr /etc /boot /dev /proc /sys; do (echo x > $dir/x) 2> /dev/null && echo $dir; done
         [ $(ls /proc | grep -c '^[0-9]') -le 6 ] || ls /proc; echo $(id -u)",
    ));
    assert_eq!(log.out(), "65534\n", "{}", log.err());
    let (_, log) = fixture.python(
        "import ctypes, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) != -1 or ctypes.get_errno() not in (1, 38): print(name, ctypes.get_errno())
call('unshare', 0x10000000); call('mount', b'none', b'/tmp', b'tmpfs', 0, None); call('ptrace', 16, 1, 0, 0)
call('chroot', b'/tmp'); call('mknod', b'/tmp/node', 0o20666, 0x103); call('personality', 0)
call('setns', 3, 0); call('syscall', 435, 0, 0); call('syscall', 425, 8, 0); call('syscall', 321, 0, 0, 0)
def refuse(name, act):
    try: print(name, act())
    except OSError: pass
refuse('setuid', lambda: os.setuid(0))
refuse('control', lambda: os.open('/proc/1/fd/3', os.O_RDWR))
refuse('memory', lambda: open('/proc/1/mem', 'rb').read(1))
refuse('environment', lambda: open('/proc/1/environ', 'rb').read(1))
refuse('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
refuse('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
refuse('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET))
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
    try: os.kill(1, number)
    except OSError: pass
for fd in range(3, 64):
    try: os.fstat(fd); print('descriptor', fd, os.readlink(f'/proc/self/fd/{fd}'))
    except OSError: pass
print(open('/proc/self/status').read().count('CapEff:\\t0000000000000000'))",
    );
    assert_eq!(log.out(), "1\n", "{}", log.err());
}

#[test]
fn hostile_jobs_of_the_weaker_class_are_ended_for_the_right_reason_and_leave_nothing() {
    if !is_possible() {
        return;
    }
    let Some(fixture) = open_with(without_gvisor) else { return };
    if !fixture.sandbox.capabilities().limit_enforcement.mem_mb {
        eprintln!("SKIPPED: memory is not enforced by the kernel here");
        return;
    }
    for hostile in HOSTILE {
        let (report, log) = fixture.run_job(&hostile.job());
        assert!(hostile.is_right(&report), "{}: {report:?} {:?}", hostile.name, log.stderr);
    }
    assert!(fixture.job_dirs().is_empty() && processes_naming(&fixture.config.home).is_empty());
}

#[test]
fn the_weaker_class_is_kept_ready_as_well() {
    if !is_possible() {
        return;
    }
    let pool = PoolConfig { armed: 1, ..PoolConfig::default() };
    let Some(fixture) = open_with(|config| {
        without_gvisor(config);
        config.pool = pool;
    }) else {
        return;
    };
    if !fixture.sandbox.capabilities().keeps_ready {
        eprintln!("SKIPPED: nothing can be stopped here, so nothing is kept ready");
        return;
    }
    wait_until_armed(&fixture.sandbox, 3);
    let (report, log) = fixture.python("print(6 * 7)");
    assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "42\n"));
}

#[test]
fn an_ordinary_user_has_the_weaker_class_too() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    if !is_possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let output = Command::new(&program)
        .args(["--exact", "shared_kernel::holds_for_an_ordinary_user", "--ignored", "--nocapture"])
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
fn holds_for_an_ordinary_user() {
    let dir = PathBuf::from(std::env::var_os(HOME).unwrap());
    let mut config = SandboxConfig::new(&dir, "own");
    without_gvisor(&mut config);
    let fixture = match Sandbox::preflight(&config).sandbox {
        Ok(sandbox) => of(sandbox, config),
        Err(error) => {
            eprintln!("SKIPPED: ordinary users may not make namespaces here: {error}");
            return;
        }
    };
    holds(&fixture);
    let limits = RequestedLimits { mem_mb: Some(64), wall_seconds: Some(20), ..RequestedLimits::default() };
    let bomb = "x = []\nwhile True: x.append(bytearray(1 << 20))";
    let (report, _) = fixture.run_limited(Language::Python, bomb, limits);
    assert_eq!((report.outcome, report.killed_by), (Outcome::OomKilled, Some(KilledBy::Memory)));
    let limits = RequestedLimits { wall_seconds: Some(1), ..RequestedLimits::default() };
    let (report, _) = fixture.run_limited(
        Language::Bash,
        "trap '' TERM; (setsid sleep 60) & while :; do sleep 1; done",
        limits,
    );
    assert_eq!((report.outcome, report.killed_by), (Outcome::TimedOut, Some(KilledBy::Wall)));
    assert!(fixture.job_dirs().is_empty());
}
