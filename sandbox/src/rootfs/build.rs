//! Copies a recipe's files into a fresh tree.
//!
//! Modes are normalised (0555 for what can be executed, 0444 otherwise), so no set-user-id bit survives.
//! Modification times are kept, because Python trusts a compiled module only if its source's time matches.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use super::RootfsError;
use super::own::OwnFile;
use super::recipe::Recipe;

/// Directories jobs expect, most of them mount points. Every mount point is made here: gVisor would make a
/// missing one itself, on the host, and thereby change a tree that others rely on.
const DIRS: &[&str] = &["boot", "dev", "etc", "job", "proc", "sys", "tmp", "usr", "var", "var/tmp", "work"];
/// Links of a merged `/usr`, made when the host has them.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64"];
/// Longest chain of symbolic links followed.
const LINKS_MAX: usize = 16;

/// Builds `recipe` in the empty directory `tree`.
pub(super) fn build(recipe: &Recipe, tree: &Path) -> Result<(), RootfsError> {
    for name in MERGED {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            let inside = tree.join(target.strip_prefix("/").unwrap_or(&target));
            fs::create_dir_all(&inside).map_err(RootfsError::at("create", &inside))?;
            let link = tree.join(name);
            symlink(&target, &link).map_err(RootfsError::at("link", &link))?;
        }
    }
    let mut placed = BTreeSet::new();
    for file in &recipe.files {
        place(file, tree, &mut placed)?;
    }
    complete(tree, &recipe.own)
}

/// Adds what every tree needs: mount points, which have to be real directories, and files of ours.
pub(super) fn complete(tree: &Path, own: &[OwnFile]) -> Result<(), RootfsError> {
    for dir in DIRS {
        let path = tree.join(dir);
        let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink());
        if is_link {
            fs::remove_file(&path).map_err(RootfsError::at("remove", &path))?;
        }
        fs::create_dir_all(&path).map_err(RootfsError::at("create", &path))?;
    }
    write_own(own, tree)?;
    open_directories(tree)
}

/// Writes this crate's own files.
fn write_own(files: &[OwnFile], tree: &Path) -> Result<(), RootfsError> {
    for file in files {
        let path = tree.join(&file.path);
        // What a pack has there may be a link, or not to be written to.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RootfsError::at("replace", &path)(error));
            }
            _ => {}
        }
        fs::write(&path, &file.contents).map_err(RootfsError::at("write", &path))?;
        set_mode(&path, file.mode)?;
    }
    Ok(())
}

/// Lets everyone enter every directory, whatever this process's umask made of them.
fn open_directories(tree: &Path) -> Result<(), RootfsError> {
    let mut pending = vec![tree.to_owned()];
    while let Some(dir) = pending.pop() {
        set_mode(&dir, 0o755)?;
        for entry in fs::read_dir(&dir).map_err(RootfsError::at("read", &dir))? {
            let entry = entry.map_err(RootfsError::at("read", &dir))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Copies one host path to the same place in the tree, with every link on the way to the file.
fn place(file: &Path, tree: &Path, placed: &mut BTreeSet<PathBuf>) -> Result<(), RootfsError> {
    let mut source = file.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(real) = with_real_parent(&source) else { return Ok(()) };
        if !placed.insert(real.clone()) {
            return Ok(());
        }
        let destination = tree.join(real.strip_prefix("/").unwrap_or(&real));
        if let Some(parent) = destination.parent() {
            fs::create_dir_all(parent).map_err(RootfsError::at("create", parent))?;
        }
        match fs::read_link(&real) {
            Ok(target) => {
                symlink(&target, &destination).map_err(RootfsError::at("link", &destination))?;
                source = resolve(&real, &target);
            }
            Err(_) => return copy(&real, &destination),
        }
    }
    Ok(())
}

/// The path with its directory's links resolved; the last component stays as it is.
fn with_real_parent(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// Where the link at `link` leads. `..` is taken literally, which is right below a real parent.
fn resolve(link: &Path, target: &Path) -> PathBuf {
    let mut resolved = link.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
    for component in target.components() {
        match component {
            Component::RootDir => resolved = PathBuf::from("/"),
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) => resolved.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    resolved
}

pub(super) fn copy(source: &Path, destination: &Path) -> Result<(), RootfsError> {
    fs::copy(source, destination).map_err(RootfsError::at("copy", source))?;
    let metadata = fs::metadata(source).map_err(RootfsError::at("read", source))?;
    if let Ok(modified) = metadata.modified() {
        // The copy inherits a mode that may forbid writing, so it is opened by its owner first.
        set_mode(destination, 0o644)?;
        let file =
            File::options().write(true).open(destination).map_err(RootfsError::at("open", destination))?;
        file.set_times(FileTimes::new().set_modified(modified))
            .map_err(RootfsError::at("write", destination))?;
    }
    let executable = metadata.permissions().mode() & 0o111 != 0;
    set_mode(destination, if executable { 0o555 } else { 0o444 })
}

fn set_mode(path: &Path, mode: u32) -> Result<(), RootfsError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(RootfsError::at("change the mode of", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_resolve_relative_absolute_and_upwards() {
        let link = Path::new("/usr/bin/awk");
        assert_eq!(resolve(link, Path::new("mawk")), Path::new("/usr/bin/mawk"));
        assert_eq!(resolve(link, Path::new("/etc/alternatives/awk")), Path::new("/etc/alternatives/awk"));
        assert_eq!(resolve(link, Path::new("../lib/./x")), Path::new("/usr/lib/x"));
        assert_eq!(resolve(link, Path::new("../../../../x")), Path::new("/x"));
    }

    #[test]
    fn directories_can_be_entered_whatever_the_umask_was() {
        let tree = tempfile::tempdir().unwrap();
        let inner = tree.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        set_mode(&inner, 0o700).unwrap();
        open_directories(tree.path()).unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o7777, 0o755);
    }

    #[test]
    fn a_copied_file_loses_its_setuid_bit_and_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (source, destination) = (dir.path().join("su"), dir.path().join("copy"));
        fs::write(&source, "x").unwrap();
        fs::set_permissions(&source, fs::Permissions::from_mode(0o4755)).unwrap();
        copy(&source, &destination).unwrap();
        let (before, after) = (fs::metadata(&source).unwrap(), fs::metadata(&destination).unwrap());
        assert_eq!(after.permissions().mode() & 0o7777, 0o555);
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    }
}
