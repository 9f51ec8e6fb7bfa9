//! One digest for a whole directory tree.
//!
//! SHA-256 over one line for every entry in byte order of its path relative to the root:
//! `d <path>`, `l <path>` NUL `<target>`, `f <mode in octal> <sha256> <path>`, `o <path>` for anything else;
//! each ends with NUL and newline. Times and owners do not count.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::runtime::sha256_of_file;

/// The digest of the tree at `root`, in hex.
pub fn tree_sha256(root: &Path) -> io::Result<String> {
    let mut paths = Vec::new();
    collect(root, &mut paths)?;
    paths.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    let mut hash = Sha256::new();
    for path in paths {
        let name = path.strip_prefix(root).unwrap_or(&path).as_os_str().as_bytes();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            hash.update(b"d ");
            hash.update(name);
        } else if metadata.is_symlink() {
            hash.update(b"l ");
            hash.update(name);
            hash.update(b"\0");
            hash.update(fs::read_link(&path)?.as_os_str().as_bytes());
        } else if metadata.is_file() {
            let mode = metadata.permissions().mode() & 0o7777;
            hash.update(format!("f {mode:o} {} ", sha256_of_file(&path)?));
            hash.update(name);
        } else {
            hash.update(b"o ");
            hash.update(name);
        }
        hash.update(b"\0\n");
    }
    Ok(hex(&hash.finalize()))
}

/// Every path below `dir`, in no particular order. Symbolic links are not followed.
fn collect(dir: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant(root: &Path, order: &[&str]) {
        fs::create_dir(root.join("b")).unwrap();
        for name in order {
            fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("b/x", root.join("link")).unwrap();
    }

    #[test]
    fn equal_trees_have_equal_digests_whatever_the_order_of_writing() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        plant(one.path(), &["a", "b/x", "c"]);
        plant(two.path(), &["c", "b/x", "a"]);
        assert_eq!(tree_sha256(one.path()).unwrap(), tree_sha256(two.path()).unwrap());
    }

    #[test]
    fn contents_names_modes_and_link_targets_all_count() {
        let tree = tempfile::tempdir().unwrap();
        plant(tree.path(), &["a", "b/x"]);
        let mut seen = vec![tree_sha256(tree.path()).unwrap()];
        let mut changed = |what: &str| {
            let digest = tree_sha256(tree.path()).unwrap();
            assert!(!seen.contains(&digest), "{what} does not count");
            seen.push(digest);
        };
        fs::write(tree.path().join("a"), "other").unwrap();
        changed("contents");
        fs::rename(tree.path().join("a"), tree.path().join("z")).unwrap();
        changed("a name");
        fs::set_permissions(tree.path().join("z"), fs::Permissions::from_mode(0o4755)).unwrap();
        changed("a mode");
        fs::remove_file(tree.path().join("link")).unwrap();
        std::os::unix::fs::symlink("elsewhere", tree.path().join("link")).unwrap();
        changed("a link's target");
    }
}
