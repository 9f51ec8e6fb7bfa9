//! The directory in which a sandbox keeps its running jobs, and the sweep that clears what a crash left there.
//!
//! ```text
//! <home>/lock            held while a sandbox is open: two nodes never share a home
//! <home>/cgroups         the parent control groups in use, written before the first is filled
//! <home>/jobs/<id>/      one running job, mode 0700: bundle, code, input, gVisor's state and log
//! ```
//!
//! Invariant: everything outside this directory that a job needs is named in it, so a later process can find
//! and end it all, even from another control group or session.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::cgroup;
use crate::limits::KILL_DEADLINE;
use crate::rootfs::remove_tree;
use crate::sandbox::SandboxError;
use crate::wait::pause;

/// What a sweep found and cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Control groups of jobs that were ended and removed; one job has several.
    pub cgroups: usize,
    /// Processes outside any control group that were killed.
    pub processes: usize,
    /// Job directories that were removed.
    pub job_dirs: usize,
}

/// A locked home.
#[derive(Debug)]
pub(crate) struct Home {
    dir: PathBuf,
    _lock: File,
}

impl Home {
    /// Creates the directory if needed and takes its lock, which the kernel gives back whatever happens to this
    /// process.
    pub(crate) fn open(dir: &Path) -> Result<Self, SandboxError> {
        let jobs = dir.join("jobs");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&jobs)
            .map_err(SandboxError::at("create", &jobs))?;
        let dir = dir.canonicalize().map_err(SandboxError::at("find", dir))?;
        let path = dir.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(SandboxError::at("open", &path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| SandboxError::InUse { home: dir.clone() })?;
        Ok(Self { dir, _lock: lock })
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.dir.join("jobs")
    }

    /// Notes the parent control groups, durably, before a job enters one.
    pub(crate) fn record_cgroups(&self, parents: &[PathBuf]) -> Result<(), SandboxError> {
        let path = self.dir.join("cgroups");
        let mut text = Vec::new();
        for parent in parents {
            text.extend_from_slice(parent.as_os_str().as_bytes());
            text.push(b'\n');
        }
        File::create(&path)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .map_err(SandboxError::at("write", &path))
    }

    /// Ends and removes everything an earlier owner of this home left behind. `name` is the parent groups' own.
    pub(crate) fn sweep(&self, name: &str) -> Result<SweepReport, SandboxError> {
        let mut report = SweepReport::default();
        let listed = fs::read_to_string(self.dir.join("cgroups")).unwrap_or_default();
        for parent in listed.lines().map(Path::new).filter(|parent| is_our_cgroup(parent, name)) {
            report.cgroups += cgroup::sweep_parent(parent).map_err(SandboxError::at("sweep", parent))?;
        }
        let jobs = self.jobs();
        report.processes = end_processes_naming(&jobs);
        for entry in fs::read_dir(&jobs).map_err(SandboxError::at("read", &jobs))?.filter_map(Result::ok) {
            let path = entry.path();
            remove_tree(&path).map_err(SandboxError::at("remove", &path))?;
            report.job_dirs += 1;
        }
        Ok(report)
    }
}

/// Guards against a damaged list: only a group of our own name, in a place where groups are.
fn is_our_cgroup(path: &Path, name: &str) -> bool {
    path.is_absolute()
        && path.file_name().is_some_and(|last| last == name)
        && path.join("cgroup.procs").is_file()
}

/// Kills the processes whose command line names a path below `jobs` (gVisor's all do), and waits for them.
fn end_processes_naming(jobs: &Path) -> usize {
    let started = Instant::now();
    let mut killed = std::collections::BTreeSet::new();
    loop {
        let found = processes_naming(jobs);
        if found.is_empty() || started.elapsed() > KILL_DEADLINE {
            return killed.len();
        }
        for pid in found {
            killed.insert(pid.as_raw_nonzero());
            let _ = kill_process(pid, Signal::KILL);
        }
        pause(Duration::from_millis(5));
    }
}

/// gVisor's processes whose command line names a path below `dir`.
pub(crate) fn processes_naming(dir: &Path) -> Vec<Pid> {
    let needle = [dir.as_os_str().as_bytes(), b"/"].concat();
    let own = rustix::process::getpid();
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter(|&pid| pid != own)
        .filter(|pid| {
            let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            let is_runsc = arguments.split(|&byte| byte == 0).next().is_some_and(|program| {
                program.starts_with(b"runsc") || program.ends_with(b"/runsc") || program.ends_with(b"/exe")
            });
            is_runsc && arguments.windows(needle.len()).any(|window| window == needle.as_slice())
        })
        .collect()
}

/// The directory of one running job, removed when dropped.
#[derive(Debug)]
pub(crate) struct JobDir(PathBuf);

impl JobDir {
    /// Makes `<jobs>/<id>`, which must be new.
    pub(crate) fn create(jobs: &Path, id: &str) -> io::Result<Self> {
        let path = jobs.join(id);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The sandbox's name.
    pub(crate) fn id(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

impl Drop for JobDir {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a job's directory stays until the next sweep");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_open_once_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        assert!(matches!(Home::open(dir.path()), Err(SandboxError::InUse { .. })));
        drop(home);
        assert!(Home::open(dir.path()).is_ok());
    }

    #[test]
    fn a_sweep_touches_no_directory_that_is_not_our_control_group() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let bystander = dir.path().join("bystander");
        fs::create_dir(&bystander).unwrap();
        fs::write(bystander.join("cgroup.procs"), "1\n").unwrap();
        home.record_cgroups(&[bystander.clone(), PathBuf::from("ours"), dir.path().join("ours")]).unwrap();
        assert_eq!(home.sweep("ours").unwrap(), SweepReport::default());
        assert!(bystander.exists());
    }

    #[test]
    fn a_sweep_removes_job_directories() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        fs::create_dir_all(home.jobs().join("x/bundle")).unwrap();
        assert_eq!(home.sweep("ours").unwrap().job_dirs, 1);
        assert_eq!(home.sweep("ours").unwrap(), SweepReport::default());
    }
}
