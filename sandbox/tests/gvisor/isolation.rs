//! Jobs that try to get out, or to look out; and runtimes that do not deserve trust.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::channel;

use mesh_sandbox::{
    Cancel, Job, KilledBy, Language, Outcome, Preflight, RuntimeError, Sandbox, SandboxConfig, SandboxError,
};

use crate::fixture::{Log, config, open, open_with, processes_naming};

#[test]
fn nothing_can_be_reached_over_a_network() {
    let Some(fixture) = open() else { return };
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let (_, log) = fixture.python(&format!(
        "import socket
for family, kind, address in [
    (socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {port})),
    (socket.AF_INET, socket.SOCK_STREAM, ('169.254.169.254', 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53)),
    (socket.AF_INET6, socket.SOCK_STREAM, ('2001:db8::1', 443)),
]:
    s = socket.socket(family, kind)
    s.settimeout(2)
    try:
        s.connect(address)
        if kind == socket.SOCK_DGRAM: s.send(b'x')
        print('reached', address)
    except OSError as error: print('refused')
try: socket.getaddrinfo('example.invalid', 80); print('resolved')
except OSError: print('refused')
for family, kind in [(socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)]:
    try: socket.socket(family, kind); print('opened')
    except OSError: print('refused')
"
    ));
    assert_eq!(log.out(), "refused\n".repeat(7), "{}", log.err());
    host.set_nonblocking(true).unwrap();
    assert!(host.accept().is_err(), "the host heard from the job");
}

#[test]
fn the_hosts_files_and_processes_are_not_there() {
    let Some(fixture) = open() else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    let paths = [
        "/etc/shadow",
        "/etc/hostname",
        "/root",
        "/home",
        "/var/run/docker.sock",
        "/usr/bin/su",
        "/usr/bin/gcc",
        secret.path().to_str().unwrap(),
        fixture.config.home.to_str().unwrap(),
    ];
    let (_, log) = fixture.bash(&format!(
        "for path in {}; do [ -e $path ] && echo $path; done; ls /proc | grep -c '^[0-9]'; find / -xdev -perm /6000 -type f 2> /dev/null",
        paths.join(" ")
    ));
    let processes: u32 = log.out().trim().parse().unwrap_or_else(|_| panic!("visible: {}", log.out()));
    assert!(processes <= 4, "{processes} processes are visible");
}

#[test]
fn only_memory_can_be_written() {
    let Some(fixture) = open() else { return };
    let (_, log) = fixture.bash(
        "for dir in / /usr /usr/bin /etc /boot /job /work/input /proc /dev; do (echo x > $dir/x) 2> /dev/null && echo $dir; done
         for dir in /tmp /work /work/output; do echo x > $dir/x || echo not $dir; done; echo end",
    );
    assert_eq!(log.out(), "end\n");
}

#[test]
fn the_environment_is_the_fixed_list() {
    let Some(fixture) = open() else { return };
    let (_, log) =
        fixture.python("import os\nfor name in sorted(os.environ): print(name + '=' + os.environ[name])");
    let mut expected: Vec<String> =
        mesh_sandbox::ENVIRONMENT.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    expected.sort();
    assert_eq!(log.out(), expected.concat());
    let (_, log) = fixture.bash("echo ${BASH_ENV-unset}");
    assert_eq!(log.out(), "unset\n");
}

#[test]
fn dangerous_system_calls_are_refused() {
    let Some(fixture) = open() else { return };
    let (_, log) = fixture.python(
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    if result != -1 or ctypes.get_errno() != 1: print(name, result, ctypes.get_errno())
call('unshare', 0x10000000)
call('mount', b'none', b'/tmp', b'tmpfs', 0, None)
call('chroot', b'/tmp')
call('ptrace', 0, 0, 0, 0)
call('setuid', 0)
call('sethostname', b'x', 1)
call('mknod', b'/tmp/node', 0o20666, 0x103)
if os.uname().machine == 'x86_64': call('syscall', 321, 0, 0, 0)  # bpf
call('syscall', 425, 8, 0)  # io_uring_setup
print(os.getuid(), os.getgid(), os.getgroups())",
    );
    assert_eq!(log.out(), "65534 65534 []\n", "{}", log.err());
}

#[test]
fn the_ready_channel_is_closed_before_the_job_runs() {
    let Some(fixture) = open() else { return };
    let (_, log) = fixture.bash("(echo READY >&3) 2> /dev/null || echo closed");
    assert_eq!(log.out(), "closed\n");
    for (language, code) in [
        (
            Language::Python,
            "import os\nfor fd in range(3, 32):\n  try: os.fstat(fd); print('open', fd, os.readlink(f'/proc/self/fd/{fd}'))\n  except OSError: pass",
        ),
        (Language::Node, "const fs = require('fs'); try { fs.writeSync(3, 'READY\\n') } catch {} "),
    ] {
        let (report, log) = fixture.run(language, code);
        assert_eq!((report.outcome, log.ready, log.out()), (Outcome::Succeeded, 1, ""), "{language}");
    }
}

#[test]
fn a_job_finds_nothing_of_the_job_before() {
    let Some(fixture) = open() else { return };
    fixture.bash("echo secret | tee /tmp/mark /work/mark /work/output/mark > /dev/null");
    let (_, log) = fixture.bash("find /tmp /work -type f");
    assert_eq!(log.out(), "");
}

/// A job that does not end before its observer has looked: only then it gets its input.
fn waiting() -> Job {
    Job { stdin: b"go on\n".to_vec(), ..Job::new(Language::Bash, "read -r line") }
}

#[test]
fn gvisor_itself_holds_no_privilege_on_the_host_while_a_job_runs() {
    let Some(fixture) = open() else { return };
    let jobs = fixture.config.home.join("jobs");
    let (tell, told) = channel();
    let mut log = Log::on_ready(move || {
        let mut sentries = Vec::new();
        for pid in processes_naming(&jobs) {
            let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if arguments.split('\0').any(|argument| argument == "boot") {
                sentries.push(fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default());
            }
        }
        tell.send(sentries).unwrap();
    });
    fixture.sandbox.run(&waiting(), &Cancel::new().unwrap(), &mut log).unwrap();
    let sentries = told.recv().unwrap();
    assert_eq!(sentries.len(), 1, "{sentries:?}");
    let field = |name: &str| {
        let line = sentries[0].lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    };
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_eq!(field("Seccomp:"), "2");
    assert!(!field("Uid:").starts_with("0\t"), "{}", field("Uid:"));
}

#[test]
fn no_process_with_access_to_files_stands_behind_a_job() {
    let Some(fixture) = open() else { return };
    let jobs = fixture.config.home.join("jobs");
    let (tell, told) = channel();
    let mut log = Log::on_ready(move || {
        let names = processes_naming(&jobs).into_iter().map(|pid| {
            let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
            let files =
                open.filter_map(|entry| fs::read_link(entry.path()).ok()).filter(|to| to.starts_with("/"));
            (arguments.split('\0').next().unwrap_or_default().to_owned(), files.collect::<Vec<_>>())
        });
        tell.send(names.collect::<Vec<_>>()).unwrap();
    });
    fixture.sandbox.run(&waiting(), &Cancel::new().unwrap(), &mut log).unwrap();
    let processes = told.recv().unwrap();
    assert!(processes.iter().all(|(name, _)| !name.contains("gofer")), "{processes:?}");
    let (_, files) = processes.iter().find(|(name, _)| name.contains("sandbox")).unwrap();
    let in_memory = |path: &&std::path::PathBuf| {
        path.starts_with("/dev") || path.to_string_lossy().starts_with("/memfd:")
    };
    let mut on_disk: Vec<_> =
        files.iter().filter(|path| !in_memory(path)).filter_map(|path| path.file_name()).collect();
    on_disk.sort();
    assert_eq!(on_disk, ["image", "runsc.log"], "{files:?}");
}

#[test]
fn a_runtime_that_cannot_read_an_image_gets_a_directory_and_the_operator_is_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let runsc = dir.path().join("runsc");
    script(
        &runsc,
        "#!/bin/sh\nfor last; do if [ -e \"$last/config.json\" ] && grep -q erofs \"$last/config.json\"; then echo no erofs here >&2; exit 1; fi; done\n\
         exec runsc \"$@\"\n",
    );
    let Some(fixture) = open_with(|config| config.runsc = Some(runsc)) else { return };
    let (report, log) = fixture.bash("echo ran; (echo x > /usr/x) 2> /dev/null || echo safe");
    assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "ran\nsafe\n"));
    let image = |preflight: &Preflight| {
        let probe = preflight.probes.iter().find(|probe| probe.name == "image");
        probe.map(|probe| (probe.ok, probe.finding.clone()))
    };
    // One that works is not complained about.
    let able = Sandbox::preflight(&config(dir.path()));
    assert_eq!(image(&able), None);
    let class = able.sandbox.unwrap().capabilities().isolation_class;
    assert_eq!(report.posture.unwrap().isolation_class, class);
    let unable = SandboxConfig { runsc: fixture.config.runsc.clone(), ..config(dir.path()) };
    let (ok, finding) = image(&Sandbox::preflight(&unable)).expect("it is a finding");
    assert!(!ok && finding.contains("isolation: ") && finding.contains("no erofs here"), "{finding}");
}

#[test]
fn no_runtime_is_an_ordinary_answer_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.runsc = Some(dir.path().join("nowhere"));
    let preflight = Sandbox::preflight(&config);
    let error = preflight.sandbox.err().unwrap();
    assert!(matches!(error, SandboxError::Runtime(RuntimeError::Unusable { .. })));
    assert!(error.hint().contains("runsc"));
    assert_eq!(
        preflight.probes.iter().map(|probe| (probe.name, probe.ok)).collect::<Vec<_>>(),
        [("runtime", false)]
    );
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn an_old_runtime_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    let runsc = dir.path().join("runsc");
    script(&runsc, "#!/bin/sh\necho runsc version 0.0~20221219.0-2\n");
    config.runsc = Some(runsc);
    let error = Sandbox::preflight(&config).sandbox.err().unwrap();
    assert!(matches!(error, SandboxError::Runtime(RuntimeError::TooOld { .. })), "{error:?}");
}

#[test]
fn a_runtime_that_exits_with_zero_without_ready_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    let runsc = dir.path().join("runsc");
    script(
        &runsc,
        "#!/bin/sh\ncase $1 in --version) echo runsc version release-20990101.0;; *) echo hello; exit 0;; esac\n",
    );
    config.runsc = Some(runsc);
    let preflight = Sandbox::preflight(&config);
    let error = preflight.sandbox.err().unwrap();
    assert!(matches!(error, SandboxError::Unproven { probe: "isolation" }), "{error:?}");
}

#[test]
fn a_runtime_that_breaks_later_gives_an_error_that_no_tenant_reads_and_never_a_success() {
    let dir = tempfile::tempdir().unwrap();
    let (runsc, broken) = (dir.path().join("runsc"), dir.path().join("broken"));
    script(
        &runsc,
        &format!(
            "#!/bin/sh\nif [ -e {0} ]; then echo cannot read {0} >&2; exit 0; fi\nexec runsc \"$@\"\n",
            broken.display()
        ),
    );
    let Some(fixture) = open_with(|config| config.runsc = Some(runsc)) else { return };
    fs::write(&broken, "").unwrap();
    let (report, log) = fixture.bash("echo ran");
    assert_eq!((report.outcome, report.killed_by), (Outcome::Error, Some(KilledBy::NotReady)));
    assert_eq!((report.posture, report.exit_code, log.out(), log.err()), (None, None, "", ""));
    assert!(report.diagnostic.unwrap().contains("cannot read"));
}
