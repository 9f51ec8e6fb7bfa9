//! A sandbox of its own for each test, on one shared root file system.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mesh_sandbox::{
    Cancel, InputFile, Job, JobObserver, JobReport, Language, PoolConfig, RequestedLimits, Sandbox,
    SandboxConfig, SandboxError, Stream,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A configuration for a new home below `dir`.
pub(crate) fn config(dir: &Path) -> SandboxConfig {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SandboxConfig {
        home: dir.join(format!("home-{number}")),
        rootfs: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rootfs"),
        // A test that is about the pool says so.
        pool: PoolConfig { armed: 0, ..PoolConfig::default() },
        ..SandboxConfig::new(dir, format!("test-{}-{number}", std::process::id()))
    }
}

/// Where a test that runs as another user finds its directory.
pub(crate) const HOME: &str = "MESH_SANDBOX_TEST_HOME";

/// A sandbox with everything of it, the root file system included, below `dir`.
pub(crate) fn open_in(dir: PathBuf) -> Result<Fixture, SandboxError> {
    let config = SandboxConfig::new(&dir, "own");
    let sandbox = Sandbox::preflight(&config).sandbox?;
    Ok(of(sandbox, config))
}

/// A sandbox whose directory is somebody else's business.
pub(crate) fn of(sandbox: Sandbox, config: SandboxConfig) -> Fixture {
    Fixture { sandbox, config, _dir: tempfile::tempdir().unwrap() }
}

/// An open sandbox and the directory it lives in.
pub(crate) struct Fixture {
    pub(crate) sandbox: Sandbox,
    pub(crate) config: SandboxConfig,
    _dir: tempfile::TempDir,
}

/// Opens a sandbox, or says why the test is skipped.
pub(crate) fn open() -> Option<Fixture> {
    open_with(|_| {})
}

/// Opens a sandbox with a changed configuration, or says why the test is skipped.
pub(crate) fn open_with(change: impl FnOnce(&mut SandboxConfig)) -> Option<Fixture> {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    change(&mut config);
    match Sandbox::preflight(&config).sandbox {
        Ok(sandbox) => Some(Fixture { sandbox, config, _dir: dir }),
        Err(SandboxError::Runtime(why)) if std::env::var_os("MESH_REQUIRE_SANDBOX").is_none() => {
            eprintln!("SKIPPED: {why}; {}", why.hint());
            None
        }
        Err(why) => panic!("{why:?}: {:?}", Sandbox::preflight(&config).probes),
    }
}

/// Waits until so many sandboxes are kept ready.
pub(crate) fn wait_until_armed(sandbox: &Sandbox, count: usize) {
    let started = Instant::now();
    while sandbox.armed() < count {
        assert!(started.elapsed() < Duration::from_secs(60), "{} armed, not {count}", sandbox.armed());
        pause();
    }
}

/// Lets others have the machine for a moment, between two looks at something that nobody tells of.
pub(crate) fn pause() {
    let moment = Timespec::try_from(Duration::from_millis(5)).unwrap();
    poll(&mut [], Some(&moment)).unwrap();
}

/// What an observer saw.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) ready: usize,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) truncated: Vec<Stream>,
    on_ready: Option<Box<dyn FnOnce()>>,
}

impl Log {
    /// Does `act` as soon as the job is ready.
    pub(crate) fn on_ready(act: impl FnOnce() + 'static) -> Self {
        Self { on_ready: Some(Box::new(act)), ..Self::default() }
    }

    pub(crate) fn out(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub(crate) fn err(&self) -> &str {
        std::str::from_utf8(&self.stderr).unwrap()
    }
}

impl JobObserver for Log {
    fn ready(&mut self) {
        self.ready += 1;
        if let Some(act) = self.on_ready.take() {
            act();
        }
    }
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }
    fn truncated(&mut self, stream: Stream) {
        self.truncated.push(stream);
    }
}

impl Fixture {
    pub(crate) fn run_job(&self, job: &Job) -> (JobReport, Log) {
        let mut log = Log::default();
        let report = self.sandbox.run(job, &Cancel::new().unwrap(), &mut log).unwrap();
        (report, log)
    }

    pub(crate) fn run(&self, language: Language, code: &str) -> (JobReport, Log) {
        self.run_job(&Job::new(language, code))
    }

    pub(crate) fn run_limited(
        &self,
        language: Language,
        code: &str,
        limits: RequestedLimits,
    ) -> (JobReport, Log) {
        self.run_job(&Job { limits, ..Job::new(language, code) })
    }

    pub(crate) fn python(&self, code: &str) -> (JobReport, Log) {
        self.run(Language::Python, code)
    }

    pub(crate) fn bash(&self, code: &str) -> (JobReport, Log) {
        self.run(Language::Bash, code)
    }

    /// Names of what is in the directory of running jobs.
    pub(crate) fn job_dirs(&self) -> Vec<PathBuf> {
        let jobs = self.config.home.join("jobs");
        std::fs::read_dir(jobs).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

pub(crate) fn input(path: &str, contents: &[u8]) -> InputFile {
    InputFile { path: path.to_owned(), contents: contents.to_owned() }
}

/// Those processes, each held so that its death can be waited for.
pub(crate) fn hold_processes_naming(needle: &Path) -> Vec<OwnedFd> {
    let pids = processes_naming(needle).into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed()));
    pids.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect()
}

/// Waits for the deaths of all, and says whether they died. Not asked of procfs: a command line is gone before the
/// descriptors of the dying process are.
pub(crate) fn all_die(processes: &[OwnedFd]) -> bool {
    let ten_seconds = Timespec::try_from(Duration::from_secs(10)).unwrap();
    processes.iter().all(|one| poll(&mut [PollFd::new(one, PollFlags::IN)], Some(&ten_seconds)) == Ok(1))
}

/// Host processes whose command line names `needle`.
pub(crate) fn processes_naming(needle: &Path) -> Vec<u32> {
    let needle = needle.to_str().unwrap().as_bytes();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if pid != std::process::id() && arguments.windows(needle.len()).any(|window| window == needle) {
            found.push(pid);
        }
    }
    found
}

/// Control groups anywhere on this machine with `name` in their names.
pub(crate) fn cgroups_naming(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_str().is_some_and(|have| have.contains(name)) {
                    found.push(entry.path());
                }
                pending.push(entry.path());
            }
        }
    }
    found
}
