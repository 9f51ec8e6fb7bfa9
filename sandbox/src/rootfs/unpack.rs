//! Unpacks a layer of an image into a tree, and never anywhere else.
//!
//! An image may be hostile. So every path is resolved by this file and not by the kernel, with the tree as the root:
//! absolute links and `..` lead back into it. Devices, pipes and sockets are left out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tar::{Archive, EntryType};

use super::pack::ENTRIES_MAX;
use super::remove_tree;

/// All files of a pack together, in bytes.
pub(super) const BYTES_MAX: u64 = 8 << 30;
/// Longest chain of symbolic links followed.
const LINKS_MAX: usize = 40;
/// What a file is called that hides one of a lower layer, before the name of that.
const WHITEOUT: &[u8] = b".wh.";
/// What hides everything of the lower layers in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What a pack may still take.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: u64,
    entries: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: BYTES_MAX, entries: ENTRIES_MAX }
    }
}

impl Budget {
    /// Takes an entry of so many bytes.
    pub(super) fn take(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.bytes.checked_sub(bytes).zip(self.entries.checked_sub(1));
        (self.bytes, self.entries) = left.ok_or_else(|| bad("more than a pack may hold"))?;
        Ok(())
    }
}

pub(super) fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Lays one layer over what is in `tree`.
pub(super) fn layer(archive: impl Read, tree: &Path, budget: &mut Budget) -> io::Result<()> {
    let mut archive = Archive::new(archive);
    let mut ours = BTreeSet::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        budget.take(entry.size())?;
        let path = entry.path()?.into_owned();
        let Some(name) = path.file_name().map(ToOwned::to_owned) else { continue };
        let parent = directory(tree, path.parent().unwrap_or_else(|| Path::new("")))?;
        if name.as_bytes() == OPAQUE {
            for below in fs::read_dir(&parent)?.collect::<io::Result<Vec<_>>>()? {
                if !ours.contains(&below.path()) {
                    remove(&below.path())?;
                }
            }
            continue;
        }
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT) {
            let hidden = std::ffi::OsStr::from_bytes(hidden);
            if matches!(Path::new(hidden).components().next(), Some(Component::Normal(_))) {
                remove(&parent.join(hidden))?;
            }
            continue;
        }
        let to = parent.join(name);
        match entry.header().entry_type() {
            EntryType::Directory => {
                if !fs::symlink_metadata(&to).is_ok_and(|metadata| metadata.is_dir()) {
                    remove(&to)?;
                    fs::create_dir(&to)?;
                }
            }
            EntryType::Regular | EntryType::Continuous => {
                remove(&to)?;
                let mut file = File::create_new(&to)?;
                io::copy(&mut entry, &mut file)?;
                let modified = UNIX_EPOCH.checked_add(Duration::from_secs(entry.header().mtime()?));
                file.set_times(FileTimes::new().set_modified(modified.unwrap_or(UNIX_EPOCH)))?;
                let mode = if entry.header().mode()? & 0o111 == 0 { 0o444 } else { 0o555 };
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.ok_or_else(|| bad("a link without a target"))?;
                remove(&to)?;
                symlink(target, &to)?;
            }
            EntryType::Link => {
                let target = entry.link_name()?.ok_or_else(|| bad("a link without a target"))?;
                let target = resolve(tree, &target)?;
                if target != to {
                    remove(&to)?;
                    fs::hard_link(target, &to)?;
                }
            }
            _ => continue,
        }
        ours.insert(to);
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The real place of the directory `path` of the tree, made if it is not there.
fn directory(tree: &Path, path: &Path) -> io::Result<PathBuf> {
    walk(tree, path, true)
}

/// The real place of `path` of the tree, with every link followed. It need not exist.
pub(super) fn resolve(tree: &Path, path: &Path) -> io::Result<PathBuf> {
    walk(tree, path, false)
}

fn walk(tree: &Path, path: &Path, make: bool) -> io::Result<PathBuf> {
    let mut names = plain_names(path);
    let mut at = tree.to_owned();
    let mut links = 0;
    while let Some(name) = names.pop() {
        if name == ".." {
            if at != tree {
                at.pop();
            }
            continue;
        }
        let next = at.join(&name);
        match fs::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(bad("links in a circle"));
                }
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    at = tree.to_owned();
                }
                names.extend(plain_names(&target));
                continue;
            }
            Ok(metadata) if make && !metadata.is_dir() => {
                return Err(bad("a file in the place of a directory"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if make {
                    fs::create_dir(&next)?;
                }
            }
            Err(error) => return Err(error),
        }
        at = next;
    }
    Ok(at)
}

/// The names of a path, the last first.
fn plain_names(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    let mut names: Vec<OsString> = path.components().filter_map(name).collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    /// An entry of a hand-made archive: its name is written as it is, however bad.
    fn entry(archive: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, target: &str, contents: &[u8]) {
        let mut header = Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_mtime(7);
        header.set_size(contents.len() as u64);
        if !target.is_empty() {
            header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
        }
        header.set_cksum();
        archive.append(&header, contents).unwrap();
    }

    #[test]
    fn a_hostile_layer_writes_nothing_outside_its_tree() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, tree) = (dir.path().join("outside"), dir.path().join("tree"));
        fs::create_dir(&outside).unwrap();
        fs::create_dir(&tree).unwrap();
        let mut archive = Builder::new(Vec::new());
        let place = outside.to_str().unwrap().to_owned();
        entry(&mut archive, "absolute", EntryType::Symlink, &place, b"");
        entry(&mut archive, "absolute/x", EntryType::Regular, "", b"1");
        entry(&mut archive, "up", EntryType::Symlink, "../outside", b"");
        entry(&mut archive, "up/x", EntryType::Regular, "", b"2");
        entry(&mut archive, "../outside/x", EntryType::Regular, "", b"3");
        entry(&mut archive, "hard", EntryType::Link, "../outside/secret", b"");
        fs::write(outside.join("secret"), "secret").unwrap();
        let result = layer(&*archive.into_inner().unwrap(), &tree, &mut Budget::default());
        assert!(result.is_err(), "what a hard link leads to is not inside");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(fs::read(tree.join("outside/x")).unwrap(), b"3");
    }

    #[test]
    fn a_layer_adds_replaces_hides_and_keeps_no_set_user_id() {
        let tree = tempfile::tempdir().unwrap();
        let at = |name: &str| tree.path().join(name);
        let mut lower = Builder::new(Vec::new());
        entry(&mut lower, "usr/bin/tool", EntryType::Regular, "", b"one");
        entry(&mut lower, "bin", EntryType::Symlink, "usr/bin", b"");
        entry(&mut lower, "etc/gone", EntryType::Regular, "", b"x");
        entry(&mut lower, "opt/old", EntryType::Regular, "", b"x");
        entry(&mut lower, "dev/null", EntryType::Char, "", b"");
        let mut upper = Builder::new(Vec::new());
        entry(&mut upper, "bin/tool", EntryType::Regular, "", b"two");
        entry(&mut upper, "bin/same", EntryType::Link, "usr/bin/tool", b"");
        entry(&mut upper, "etc/.wh.gone", EntryType::Regular, "", b"");
        entry(&mut upper, "opt/new", EntryType::Regular, "", b"y");
        entry(&mut upper, "opt/.wh..wh..opq", EntryType::Regular, "", b"");
        for archive in [lower, upper] {
            layer(&*archive.into_inner().unwrap(), tree.path(), &mut Budget::default()).unwrap();
        }
        assert_eq!(fs::read(at("usr/bin/tool")).unwrap(), b"two");
        assert_eq!(fs::read(at("usr/bin/same")).unwrap(), b"two");
        assert_eq!(fs::metadata(at("usr/bin/tool")).unwrap().permissions().mode() & 0o7777, 0o555);
        for (name, there) in [("etc/gone", false), ("opt/old", false), ("opt/new", true), ("dev/null", false)]
        {
            assert_eq!(at(name).exists(), there, "{name}");
        }
        let mut small = Budget { bytes: 2, entries: 9 };
        let mut large = Builder::new(Vec::new());
        entry(&mut large, "x", EntryType::Regular, "", b"123");
        assert!(layer(&*large.into_inner().unwrap(), tree.path(), &mut small).is_err());
    }
}
