//! Control groups: the memory, processor time and process ceilings that are enforced from outside a sandbox,
//! and the one sure way to end everything in it.
//!
//! Four shapes of machine are told apart by looking, then proven by doing (see [`crate::preflight`]):
//!
//! ```text
//! v2      one unified tree with memory and pids controllers (systemd with Delegate=yes, or root)
//! v1      one tree per controller; ended by freezing and killing
//! hybrid  v1 controllers beside a unified tree without any, which still offers cgroup.kill
//! none    nothing writable; only the process group and a dying parent end a job
//! ```
//!
//! A sandbox is started inside its group by the child itself, between fork and exec, so nothing of it ever runs
//! outside. gVisor is told to ignore control groups: what limits it is not its own to undo.
//!
//! See cgroups(7), and in the kernel's documentation admin-guide/cgroup-v1 and admin-guide/cgroup-v2.

mod group;
mod layout;

pub(crate) use group::{Ceilings, Group, Usage};
use layout::Layout;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// The leaf this process steps into where a group with children may hold no processes itself.
const SUPERVISOR_LEAF: &str = "mesh-supervisor";

/// Which kind of control groups this machine offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupKind {
    /// One unified tree.
    V2,
    /// One tree per controller.
    V1,
    /// One tree per controller, with a unified tree for ending groups.
    Hybrid,
    /// None that this process may use.
    None,
}

/// The groups of one node: a parent in every tree, and a child of it per job.
#[derive(Debug)]
pub(crate) struct Cgroups {
    layout: Layout,
}

impl Cgroups {
    /// Makes the parent groups called `name` below this process's own. Trees that cannot be written are left
    /// out, so the result may be [`CgroupKind::None`].
    pub(crate) fn establish(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut layout = Layout::parse(&mounts, &own);
        layout.keep(|at, unified| {
            // Having stepped aside before, this process is one level too deep.
            let dir = if at.ends_with(SUPERVISOR_LEAF) { at.parent()? } else { at };
            if unified && !layout::has_v1_controllers(&own) {
                enable_controllers(dir);
            }
            let parent = dir.join(name);
            match fs::create_dir(&parent) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => None,
                _ if unified => {
                    enable_controllers(&parent);
                    Some(parent)
                }
                _ => Some(parent),
            }
        });
        // Where the unified tree can both stop and end, a group in the freezer's is one more to make and remove.
        let able = |dir: &PathBuf| dir.join("cgroup.freeze").exists() && dir.join("cgroup.kill").exists();
        if layout.unified.as_ref().is_some_and(able)
            && let Some(parent) = layout.freezer.take()
        {
            let _ = fs::remove_dir(parent);
        }
        Self { layout }
    }

    /// What was found.
    pub(crate) fn kind(&self) -> CgroupKind {
        self.layout.kind()
    }

    /// The parent groups, one path per tree.
    pub(crate) fn parents(&self) -> Vec<PathBuf> {
        self.layout.dirs()
    }

    /// Makes the groups of one job.
    pub(crate) fn create(&self, job: &str) -> io::Result<Group> {
        Group::create(&self.layout, job)
    }
}

/// The parents go with the node; one that still has a job in it stays for the next sweep.
impl Drop for Cgroups {
    fn drop(&mut self) {
        for parent in self.parents() {
            if let Err(error) = fs::remove_dir(&parent) {
                tracing::debug!(parent = %parent.display(), %error, "a control group stays");
            }
        }
    }
}

/// Lets children of the unified group `dir` use the controllers this crate needs. A group with processes may
/// not do that (the "no internal processes" rule), so this process steps into a leaf of its own if it must.
fn enable_controllers(dir: &Path) {
    let available = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    let wanted: Vec<&str> = ["memory", "pids", "cpu"]
        .into_iter()
        .filter(|name| available.split_whitespace().any(|have| have == *name))
        .collect();
    let enable = || {
        wanted.iter().try_for_each(|name| fs::write(dir.join("cgroup.subtree_control"), format!("+{name}")))
    };
    if wanted.is_empty() || enable().is_ok() {
        return;
    }
    let leaf = dir.join(SUPERVISOR_LEAF);
    let _ = fs::create_dir(&leaf);
    if fs::write(leaf.join("cgroup.procs"), "0").is_ok()
        && let Err(error) = enable()
    {
        tracing::debug!(dir = %dir.display(), %error, "control group controllers cannot be delegated");
    }
}

/// Ends whatever is left in the children of the parent group `parent`, and removes them and it. Returns how
/// many children there were. `parent` in other trees has to be swept by its own call.
pub(crate) fn sweep_parent(parent: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut count = 0;
    for entry in entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir()) {
        count += 1;
        group::end_tree(&entry.path());
        group::remove_when_empty(&entry.path())?;
    }
    group::remove_when_empty(parent)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;
    use crate::spawn::{Birth, Offspring, Spawner};

    /// Groups of this test's own, or why there are none.
    fn establish(purpose: &str) -> Option<Cgroups> {
        let cgroups = Cgroups::establish(&format!("mesh-sandbox-{purpose}-{}", std::process::id()));
        if cgroups.kind() == CgroupKind::None {
            eprintln!("SKIPPED: no control groups here");
            return None;
        }
        Some(cgroups)
    }

    fn sleeper(spawner: &Spawner, group: &Group) -> Offspring {
        let mut command = Command::new("sleep");
        command.arg("60");
        spawner.spawn(Birth { command, joins: group.joins().unwrap(), keeps: Vec::new() }).unwrap()
    }

    #[test]
    fn a_sweep_ends_what_a_crashed_node_left_running_and_removes_its_groups() {
        let Some(cgroups) = establish("sweep") else { return };
        let spawner = Spawner::start().unwrap();
        let group = cgroups.create("orphan").unwrap();
        let mut child = sleeper(&spawner, &group);
        let parents = cgroups.parents();
        // A process that is killed drops nothing.
        std::mem::forget(group);
        std::mem::forget(cgroups);
        for parent in &parents {
            assert_eq!(sweep_parent(parent).unwrap(), 1);
            assert!(!parent.exists());
            assert_eq!(sweep_parent(parent).unwrap(), 0);
        }
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn every_tree_alone_can_end_its_group() {
        let Some(cgroups) = establish("end") else { return };
        let spawner = Spawner::start().unwrap();
        for (index, parent) in cgroups.parents().iter().enumerate() {
            let job = format!("job-{index}");
            let group = cgroups.create(&job).unwrap();
            let mut child = sleeper(&spawner, &group);
            group::end_tree(&parent.join(&job));
            assert_eq!(child.wait().unwrap().signal(), Some(9), "{}", parent.display());
        }
    }

    #[test]
    fn a_process_born_into_a_group_is_in_every_tree_from_its_first_instruction() {
        let Some(cgroups) = establish("birth") else { return };
        let group = cgroups.create("born-here").unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("cat");
        command.arg("/proc/self/cgroup").stdout(writer);
        let joins = group.joins().unwrap();
        let trees = joins.tasks.len() + usize::from(joins.unified.is_some());
        let spawner = Spawner::start().unwrap();
        let _child = spawner.spawn(Birth { command, joins, keeps: Vec::new() }).unwrap();
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said.lines().filter(|line| line.ends_with("/born-here")).count(), trees, "{said}");
    }
}
