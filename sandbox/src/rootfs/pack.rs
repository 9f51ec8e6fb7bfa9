//! Runtime packs: root file systems that the operator supplies, each with a name.
//!
//! A source is a directory, an OCI image layout, or a tar file of one (as `docker save` and `skopeo` write them, gzip
//! or not). It is copied into a tree of ours, because ours needs the boot files and mount points of a job and its
//! digest has to be of what runs; the source is never run from, and never written to. Modes are normalised, so no
//! set-user-id bit survives, and devices are left out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::own::boot_files;
use super::{RootfsError, build, oci, unpack};
use crate::hex;
use crate::language::Language;

/// Longest name of a pack, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Most entries of a pack.
pub(super) const ENTRIES_MAX: usize = 500_000;
/// Where packs keep their interpreters, best first.
const PROGRAM_DIRS: &[&str] = &["usr/local/bin", "usr/bin", "bin"];
/// Raise when the way a tree is made from a pack changes.
const PACK_VERSION: u32 = 2;

/// A root file system that the operator supplies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimePack {
    /// What jobs call it: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// A directory, an OCI image layout, or a tar file of one.
    pub source: PathBuf,
}

impl RuntimePack {
    /// A name for the tree: changes when the source does.
    pub(super) fn key(&self) -> Result<String, RootfsError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || !self.name.bytes().all(plain) {
            return Err(RootfsError::PackName { name: self.name.clone() });
        }
        let mut hash = Sha256::new();
        hash.update(PACK_VERSION.to_le_bytes());
        for file in boot_files() {
            hash.update(file.path);
            hash.update(file.contents);
        }
        let mut pending = vec![self.source.clone()];
        let mut entries = 0;
        while let Some(path) = pending.pop() {
            entries += 1;
            if entries > ENTRIES_MAX {
                return Err(RootfsError::PackTooLarge { path: self.source.clone() });
            }
            let metadata = fs::symlink_metadata(&path).map_err(RootfsError::at("read", &path))?;
            let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
            hash.update(format!("{}\0{}\0{seconds}.{nanos}\0", path.display(), metadata.len()));
            if metadata.is_dir() {
                let mut inside = Vec::new();
                for entry in fs::read_dir(&path).map_err(RootfsError::at("read", &path))? {
                    inside.push(entry.map_err(RootfsError::at("read", &path))?.path());
                }
                inside.sort();
                pending.extend(inside);
            }
        }
        Ok(hex(hash.finalize().get(..8).unwrap_or_default()))
    }

    /// Makes the tree in the empty directory `tree`; returns its interpreters.
    pub(super) fn build(&self, tree: &Path, aside: &Path) -> Result<BTreeMap<Language, String>, RootfsError> {
        let bad = |source| RootfsError::Pack { path: self.source.clone(), source };
        if self.source.join("oci-layout").is_file() {
            oci::unpack_layout(&self.source, tree).map_err(bad)?;
        } else if self.source.is_file() {
            let layout = aside.join("layout");
            oci::unpack_tarball(&self.source, &layout).map_err(bad)?;
            oci::unpack_layout(&layout, tree).map_err(bad)?;
        } else {
            copy_tree(&self.source, tree)?;
        }
        build::complete(tree, &boot_files())?;
        let interpreters: BTreeMap<Language, String> = Language::ALL
            .into_iter()
            .filter_map(|language| Some((language, interpreter(tree, language)?)))
            .collect();
        if interpreters.is_empty() { Err(RootfsError::NoInterpreter) } else { Ok(interpreters) }
    }
}

/// Copies directories, files and links; nothing else. A link is copied as it is and leads where it leads inside.
fn copy_tree(source: &Path, tree: &Path) -> Result<(), RootfsError> {
    let mut pending = vec![(source.to_owned(), tree.to_owned())];
    while let Some((from, to)) = pending.pop() {
        for entry in fs::read_dir(&from).map_err(RootfsError::at("read", &from))? {
            let entry = entry.map_err(RootfsError::at("read", &from))?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let metadata = fs::symlink_metadata(&from).map_err(RootfsError::at("read", &from))?;
            if metadata.is_dir() {
                fs::create_dir(&to).map_err(RootfsError::at("create", &to))?;
                pending.push((from, to));
            } else if metadata.is_symlink() {
                let target = fs::read_link(&from).map_err(RootfsError::at("read", &from))?;
                symlink(target, &to).map_err(RootfsError::at("link", &to))?;
            } else if metadata.is_file() {
                build::copy(&from, &to)?;
            }
        }
    }
    Ok(())
}

/// The path inside of the program that runs this language.
fn interpreter(tree: &Path, language: Language) -> Option<String> {
    PROGRAM_DIRS.iter().find_map(|dir| {
        let real = unpack::resolve(tree, &Path::new(dir).join(language.program())).ok()?;
        let metadata = fs::symlink_metadata(&real).ok()?;
        let runs = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
        let inside = real.strip_prefix(tree).ok().filter(|_| runs)?;
        Some(format!("/{}", inside.to_str()?))
    })
}
