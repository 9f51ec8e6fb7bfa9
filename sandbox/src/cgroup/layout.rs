//! Where the control group trees are: read from `/proc/self/mountinfo` and `/proc/self/cgroup`. Pure.

use std::path::{Path, PathBuf};

use super::CgroupKind;

/// One directory per role; in a v2 layout `unified` plays all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) memory: Option<PathBuf>,
    pub(super) cpuacct: Option<PathBuf>,
    pub(super) pids: Option<PathBuf>,
    pub(super) freezer: Option<PathBuf>,
    pub(super) unified: Option<PathBuf>,
}

impl Layout {
    /// This process's own group in every tree, from the two files' texts (proc(5), cgroups(7)).
    pub(super) fn parse(mountinfo: &str, own_cgroup: &str) -> Self {
        let mut layout = Self::default();
        for line in own_cgroup.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if controllers.is_empty() {
                layout.unified = locate(mountinfo, "cgroup2", None, path);
            }
            for controller in controllers.split(',') {
                let slot = match controller {
                    "memory" => &mut layout.memory,
                    "cpuacct" => &mut layout.cpuacct,
                    "pids" => &mut layout.pids,
                    "freezer" => &mut layout.freezer,
                    _ => continue,
                };
                *slot = locate(mountinfo, "cgroup", Some(controller), path);
            }
        }
        layout
    }

    /// Replaces every directory by what `change` makes of it (told whether it is the unified one).
    pub(super) fn keep(&mut self, mut change: impl FnMut(&Path, bool) -> Option<PathBuf>) {
        for slot in [&mut self.memory, &mut self.cpuacct, &mut self.pids, &mut self.freezer] {
            *slot = slot.take().and_then(|dir| change(&dir, false));
        }
        self.unified = self.unified.take().and_then(|dir| change(&dir, true));
    }

    pub(super) fn kind(&self) -> CgroupKind {
        match (self.memory.is_some() || self.freezer.is_some(), self.unified.is_some()) {
            (true, true) => CgroupKind::Hybrid,
            (true, false) => CgroupKind::V1,
            (false, true) => CgroupKind::V2,
            (false, false) => CgroupKind::None,
        }
    }

    /// The directories in every tree.
    pub(super) fn dirs(&self) -> Vec<PathBuf> {
        self.controllers().into_iter().chain(self.unified.clone()).collect()
    }

    /// The directories in the trees of single controllers.
    pub(super) fn controllers(&self) -> Vec<PathBuf> {
        let slots = [&self.memory, &self.cpuacct, &self.pids, &self.freezer];
        let mut dirs: Vec<PathBuf> = slots.into_iter().flatten().cloned().collect();
        // Controllers mounted together (cpu,cpuacct) share a directory.
        dirs.dedup();
        dirs
    }
}

/// Whether the process is in the v1 tree of the memory controller: the one this crate cannot do without.
pub(super) fn has_v1_controllers(own_cgroup: &str) -> bool {
    own_cgroup
        .lines()
        .filter_map(|line| line.split(':').nth(1))
        .any(|names| names.split(',').any(|name| name == "memory"))
}

/// The directory of group `path` in the tree of `kind` that has `controller` among its mount options.
fn locate(mountinfo: &str, kind: &str, controller: Option<&str>, path: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut filesystem = filesystem.split(' ');
        if filesystem.next()? != kind {
            return None;
        }
        let options = filesystem.nth(1).unwrap_or("");
        if controller.is_some_and(|name| !options.split(',').any(|option| option == name)) {
            return None;
        }
        let mut fields = mount.split(' ');
        let (root, mountpoint) = (fields.nth(3)?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(mountpoint).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
        31 24 0:27 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 24 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n\
        33 24 0:29 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
        34 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn own_groups_are_found_in_every_tree_of_a_hybrid_machine() {
        let layout = Layout::parse(HYBRID, "8:pids:/docker/abc/x\n4:memory:/a/b\n2:cpu,cpuacct:/\n0::/\n");
        assert_eq!(layout.memory.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/a/b")));
        assert_eq!(layout.cpuacct.as_deref(), Some(Path::new("/sys/fs/cgroup/cpuacct")));
        assert_eq!(
            layout.pids.as_deref(),
            Some(Path::new("/sys/fs/cgroup/pids/x")),
            "the mount's root is cut off"
        );
        assert_eq!(layout.freezer, None);
        assert_eq!(layout.kind(), CgroupKind::Hybrid);
    }

    #[test]
    fn a_unified_machine_has_one_directory() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let layout = Layout::parse(mounts, "0::/system.slice/mesh.service\n");
        assert_eq!(layout.dirs(), [Path::new("/sys/fs/cgroup/system.slice/mesh.service")]);
        assert_eq!(layout.kind(), CgroupKind::V2);
    }

    #[test]
    fn a_group_outside_the_visible_mount_is_not_guessed() {
        let mounts = "33 24 0:29 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        assert_eq!(Layout::parse(mounts, "8:pids:/elsewhere\n").kind(), CgroupKind::None);
    }

    #[test]
    fn nonsense_is_no_group() {
        assert_eq!(Layout::parse("x - \n - cgroup\n", "::\nmemory\n1:memory\n").kind(), CgroupKind::None);
    }
}
