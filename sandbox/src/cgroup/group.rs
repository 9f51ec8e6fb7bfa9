//! The control groups of one job.
//!
//! ```text
//! created ──set_limits──> limited ──join (by the child)──> running ──end──> empty ──remove──> gone
//! ```
//!
//! `end` may be called in every state and leaves nothing alive. Dropping a group ends and removes it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::CgroupKind;
use super::layout::Layout;
use crate::limits::{FREEZE_DEADLINE, KILL_DEADLINE};
use crate::spawn::Joins;
use crate::wait::pause;

/// What a job has used so far. `None` where no controller accounts for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time in microseconds, gVisor's own included.
    pub(crate) cpu_usec: Option<u64>,
    /// Most memory ever in use, in bytes, gVisor's own included.
    pub(crate) memory_peak: Option<u64>,
    /// Processes the kernel killed for memory.
    pub(crate) oom_kills: Option<u64>,
    /// Times the ceiling on host threads was hit.
    pub(crate) pids_ceiling_hits: Option<u64>,
}

/// What a group may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    /// Memory in bytes, swap excluded where the kernel accounts for it.
    pub(crate) memory_bytes: u64,
    /// Host threads. A backstop only: gVisor crashes when it is hit.
    pub(crate) host_threads: u64,
}

/// One job's groups in every tree.
#[derive(Debug)]
pub(crate) struct Group {
    layout: Layout,
    kind: CgroupKind,
}

impl Group {
    pub(super) fn create(parents: &Layout, job: &str) -> io::Result<Self> {
        let mut layout = parents.clone();
        let mut failure = None;
        layout.keep(|parent, _| {
            let dir = parent.join(job);
            match fs::create_dir(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    failure = Some(error);
                    None
                }
                _ => Some(dir),
            }
        });
        let group = Self { layout, kind: parents.kind() };
        failure.map_or(Ok(group), Err)
    }

    /// Sets the ceilings. Fails when more is in use already than is to be allowed.
    pub(crate) fn set_limits(&self, ceilings: &Ceilings) -> io::Result<()> {
        let (memory, threads) = (ceilings.memory_bytes.to_string(), ceilings.host_threads.to_string());
        if let Some(dir) = &self.layout.memory {
            let (both, own) = (dir.join("memory.memsw.limit_in_bytes"), dir.join("memory.limit_in_bytes"));
            // The ceiling with swap may never be below the one without: one order raises, the other lowers.
            if write_if_there(&both, &memory).is_err() {
                fs::write(&own, &memory)?;
                write_if_there(&both, &memory)?;
            } else {
                fs::write(&own, &memory)?;
            }
        }
        if let Some(dir) = &self.layout.pids {
            fs::write(dir.join("pids.max"), &threads)?;
        }
        if self.kind == CgroupKind::V2
            && let Some(dir) = &self.layout.unified
        {
            write_if_there(&dir.join("memory.max"), &memory)?;
            write_if_there(&dir.join("memory.swap.max"), "0")?;
            write_if_there(&dir.join("memory.oom.group"), "1")?;
            write_if_there(&dir.join("pids.max"), &threads)?;
        }
        Ok(())
    }

    /// Stops everything in the group, and waits until it has. What is stopped can still be ended.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        let (file, frozen): (PathBuf, fn(&str) -> bool) = match (&self.layout.unified, &self.layout.freezer) {
            (Some(dir), _) if dir.join("cgroup.freeze").exists() => {
                fs::write(dir.join("cgroup.freeze"), "1")?;
                (dir.join("cgroup.events"), |text| keyed(text, "frozen") == Some(1))
            }
            (_, Some(dir)) => {
                fs::write(dir.join("freezer.state"), "FROZEN")?;
                (dir.join("freezer.state"), |text| text.trim() == "FROZEN")
            }
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let started = Instant::now();
        while !frozen(&fs::read_to_string(&file)?) {
            if started.elapsed() > FREEZE_DEADLINE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            pause(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets everything in the group go on.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        match (&self.layout.unified, &self.layout.freezer) {
            (Some(dir), _) if dir.join("cgroup.freeze").exists() => fs::write(dir.join("cgroup.freeze"), "0"),
            (_, Some(dir)) => fs::write(dir.join("freezer.state"), "THAWED"),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// What a child needs to be born into this group.
    pub(crate) fn joins(&self) -> io::Result<Joins> {
        let tasks = |dir: PathBuf| OpenOptions::new().write(true).open(dir.join("tasks")).map(OwnedFd::from);
        Ok(Joins {
            tasks: self.layout.controllers().into_iter().map(tasks).collect::<io::Result<_>>()?,
            unified: self.layout.unified.as_ref().map(File::open).transpose()?.map(OwnedFd::from),
        })
    }

    /// Processes the kernel killed for memory; `None` where nobody counts them. Cheaper than [`Group::usage`].
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let (dir, file) = match (&self.layout.memory, &self.layout.unified) {
            (Some(dir), _) => (dir, "memory.oom_control"),
            (None, Some(dir)) if self.kind == CgroupKind::V2 => (dir, "memory.events"),
            _ => return None,
        };
        keyed(&fs::read_to_string(dir.join(file)).ok()?, "oom_kill")
    }

    /// Processor time so far, in microseconds. Cheaper than [`Group::usage`].
    pub(crate) fn cpu_usec(&self) -> Option<u64> {
        match (&self.layout.cpuacct, &self.layout.unified) {
            (Some(dir), _) => {
                number(&fs::read_to_string(dir.join("cpuacct.usage")).ok()?).map(|nanos| nanos / 1000)
            }
            (None, Some(dir)) if self.kind == CgroupKind::V2 => {
                keyed(&fs::read_to_string(dir.join("cpu.stat")).ok()?, "usage_usec")
            }
            _ => None,
        }
    }

    /// What has been used until now.
    pub(crate) fn usage(&self) -> Usage {
        let unified = self.layout.unified.as_deref().filter(|_| self.kind == CgroupKind::V2);
        let in_dir = |dir: &Option<PathBuf>, file: &str| {
            dir.as_ref().and_then(|dir| fs::read_to_string(dir.join(file)).ok())
        };
        let in_unified = |file: &str| unified.and_then(|dir| fs::read_to_string(dir.join(file)).ok());
        Usage {
            cpu_usec: self.cpu_usec(),
            memory_peak: in_dir(&self.layout.memory, "memory.max_usage_in_bytes")
                .and_then(|text| number(&text))
                .or_else(|| number(&in_unified("memory.peak")?)),
            oom_kills: self.oom_kills(),
            pids_ceiling_hits: in_dir(&self.layout.pids, "pids.events")
                .or_else(|| in_unified("pids.events"))
                .and_then(|text| keyed(&text, "max")),
        }
    }

    /// Kills everything in the group. Returns at once; what was killed dies within milliseconds.
    pub(crate) fn end(&self) {
        // The unified directory first: cgroup.kill is atomic. The freezer is the next best.
        match self.layout.unified.as_ref().or(self.layout.freezer.as_ref()) {
            Some(dir) => end_tree(dir),
            None => self.layout.dirs().iter().for_each(|dir| end_tree(dir)),
        }
    }

    /// Removes the emptied group from every tree.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.layout.dirs().iter().try_for_each(|dir| remove_when_empty(dir))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        if let Err(error) = self.remove() {
            tracing::warn!(%error, "a job's control group could not be removed; the next sweep will");
        }
    }
}

/// Kills every process in the group at `dir`, by the best means the tree offers.
pub(super) fn end_tree(dir: &Path) {
    if fs::write(dir.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    // Frozen processes cannot fork past the loop; v1 kills them as they thaw.
    let freezer = dir.join("freezer.state");
    let frozen = fs::write(&freezer, "FROZEN").is_ok();
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in text.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    if frozen {
        let _ = fs::write(&freezer, "THAWED");
    }
}

/// Removes the group at `dir`, waiting for its last processes to be gone and killing latecomers.
pub(super) fn remove_when_empty(dir: &Path) -> io::Result<()> {
    let started = Instant::now();
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if started.elapsed() > KILL_DEADLINE => return Err(error),
            Err(_) => {
                end_tree(dir);
                pause(Duration::from_millis(2));
            }
        }
    }
}

fn write_if_there(path: &Path, text: &str) -> io::Result<()> {
    match fs::write(path, text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The value of `key` in lines of `key value`.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_values_match_whole_keys_only() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(keyed(text, "oom_kill"), Some(3));
        assert_eq!(keyed(text, "oom"), None);
        assert_eq!(keyed("oom_kill x\n", "oom_kill"), None);
    }
}
