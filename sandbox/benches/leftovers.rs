//! What there is of a sandbox on this machine: processes, control groups, directories, descriptors, mounts, memory.

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mesh_sandbox::SandboxConfig;

/// A count of everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers {
    processes: usize,
    groups: usize,
    dirs: usize,
    descriptors: usize,
    mounts: usize,
    /// Bytes of this process that are resident.
    rss: u64,
    /// Bytes in the control groups.
    pub(crate) memory: u64,
    /// Bytes of the processes, shared ones split among their users.
    pub(crate) pss: u64,
    /// Processor time used in the control groups so far.
    pub(crate) cpu_usec: u64,
}

impl Leftovers {
    pub(crate) fn of(config: &SandboxConfig) -> Self {
        let needle = config.home.as_os_str().as_bytes();
        let mut found = Self {
            dirs: entries(&config.home.join("jobs")),
            descriptors: entries(Path::new("/proc/self/fd")),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().count(),
            rss: kib("/proc/self/status", "VmRSS:"),
            ..Self::default()
        };
        let mut pids = std::collections::BTreeSet::new();
        for group in groups_naming(&config.instance) {
            found.groups += 1;
            let number = |file: &str| {
                fs::read_to_string(group.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok())
            };
            // A parent counts its children; their own are not added again.
            if group.ends_with(format!("mesh-sandbox-{}", config.instance)) {
                found.memory +=
                    number("memory.usage_in_bytes").or_else(|| number("memory.current")).unwrap_or(0);
                found.cpu_usec += number("cpuacct.usage").map_or(0, |nanoseconds| nanoseconds / 1000);
            }
            let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        for entry in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if arguments.windows(needle.len()).any(|window| window == needle) {
                pids.insert(pid);
            }
        }
        found.processes = pids.len();
        found.pss = pids.iter().map(|pid| kib(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum();
        found
    }

    /// Whether there is not more of anything, and no more memory than noise.
    pub(crate) fn is_no_more_than(&self, before: &Self) -> bool {
        self.processes <= before.processes
            && self.groups <= before.groups
            && self.dirs <= before.dirs
            && self.descriptors <= before.descriptors
            && self.mounts <= before.mounts
            && self.rss <= before.rss + 4 * 1024 * 1024
    }

    /// Whether nothing of the sandbox is there.
    pub(crate) fn is_nothing(&self) -> bool {
        (self.processes, self.groups, self.dirs) == (0, 0, 0)
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, groups, dirs, descriptors, mounts, rss, .. } = self;
        write!(
            formatter,
            "{processes} processes, {groups} groups, {dirs} directories, {descriptors} descriptors, {mounts} mounts, \
             {:.1} MiB of our own memory",
            *rss as f64 / 1024.0 / 1024.0
        )
    }
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

/// A line of a file of proc(5) that counts KiB, in bytes.
fn kib(file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Control groups with `name` in their paths.
fn groups_naming(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.path().to_str().is_some_and(|path| path.contains(name)) {
                    found.push(entry.path());
                }
                pending.push(entry.path());
            }
        }
    }
    found
}
