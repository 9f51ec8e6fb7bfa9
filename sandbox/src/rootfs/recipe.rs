//! What goes into the root file system: found by asking this machine's own programs.
//!
//! Interpreters are real binaries in the system's directories; the shims of language version managers are not
//! followed, because a tree under one user's home is not this machine's Python.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

use super::RootfsError;
use super::own::{OwnFile, own_files};
use crate::hex;
use crate::language::Language;

/// Raise when the way a tree is built changes, so that old trees are not taken for new ones.
const RECIPE_VERSION: u32 = 4;

/// Where system packages put programs, best first.
const PROGRAM_DIRS: &[&str] = &["/usr/bin", "/bin", "/usr/local/bin"];

/// What scripts expect beside the interpreters. Those that are absent are left out.
const TOOLS: &[&str] = &[
    "awk",
    "base64",
    "basename",
    "bash",
    "cat",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "cut",
    "date",
    "dd",
    "diff",
    "dirname",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "fold",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "id",
    "join",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mktemp",
    "mv",
    "nl",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sha256sum",
    "shuf",
    "sleep",
    "sort",
    "split",
    "stat",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "truncate",
    "uname",
    "uniq",
    "wc",
    "xargs",
    "yes",
];

/// Parts of Python's library that are tests, windows, installers or someone else's packages.
const PYTHON_LEFT_OUT: &[&str] = &[
    "dist-packages",
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "turtledemo",
    "tkinter",
    "lib2to3",
    "ensurepip",
];

/// Everything needed to build one tree.
#[derive(Debug)]
pub(super) struct Recipe {
    /// Host files to copy to the same path; symbolic links are copied together with what they lead to.
    pub(super) files: BTreeSet<PathBuf>,
    /// Files of this crate's own.
    pub(super) own: Vec<OwnFile>,
    /// Canonical path of each interpreter, the same on the host and in the tree.
    pub(super) interpreters: BTreeMap<Language, String>,
}

impl Recipe {
    /// Looks for interpreters and tools and everything they link to.
    pub(super) fn for_this_machine() -> Result<Self, RootfsError> {
        let mut interpreters = BTreeMap::new();
        let mut files = BTreeSet::new();
        for language in Language::ALL {
            let Some(path) = find_binary(language.program()) else { continue };
            let Some(text) = path.to_str() else { continue };
            if language == Language::Python {
                let Some(library) = python_library(&path) else { continue };
                collect_python(&library, &mut files).map_err(RootfsError::at("read", &library))?;
            }
            interpreters.insert(language, text.to_owned());
            files.insert(path.clone());
            files.extend(link_to(language.program()));
        }
        if interpreters.is_empty() {
            return Err(RootfsError::NoInterpreter);
        }
        files.extend(TOOLS.iter().filter_map(|tool| link_to(tool)));
        let linked = linked_libraries(&files);
        files.extend(linked);
        Ok(Self { files, own: own_files(), interpreters })
    }

    /// A name for the tree: changes when any source, or this recipe, does.
    pub(super) fn key(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(RECIPE_VERSION.to_le_bytes());
        for file in &self.own {
            hash.update(format!("{}\0{:o}\0{}\0", file.path, file.mode, file.contents.len()));
            hash.update(&file.contents);
        }
        for path in &self.files {
            let (length, modified) = fs::metadata(path).map_or((0, 0), |metadata| {
                let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                (metadata.len(), modified.map_or(0, |since| since.as_nanos()))
            });
            hash.update(format!("{}\0{length}\0{modified}\0", path.display()));
        }
        hex(hash.finalize().get(..8).unwrap_or_default())
    }
}

/// The path by which `program` is usually called, link or not.
fn link_to(program: &str) -> Option<PathBuf> {
    PROGRAM_DIRS.iter().map(|dir| Path::new(dir).join(program)).find(|path| path.exists())
}

/// The real binary behind `program`; scripts (shims) do not count.
fn find_binary(program: &str) -> Option<PathBuf> {
    let real = link_to(program)?.canonicalize().ok()?;
    is_elf(&real).then_some(real)
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// Where this Python keeps its standard library.
fn python_library(python: &Path) -> Option<PathBuf> {
    let output = Command::new(python)
        .args(["-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.join("os.py").is_file().then_some(path)
}

fn collect_python(library: &Path, files: &mut BTreeSet<PathBuf>) -> std::io::Result<()> {
    let mut pending = vec![library.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            if path.is_dir() {
                if !PYTHON_LEFT_OUT.contains(&name) && !name.starts_with("config-") {
                    pending.push(path);
                }
            } else if path.is_file() && name != "sitecustomize.py" {
                files.insert(path);
            }
        }
    }
    Ok(())
}

/// The shared libraries that the binaries among `files` load, by asking the system's own loader.
fn linked_libraries(files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let binaries: Vec<&PathBuf> = files.iter().filter(|path| is_elf(path)).collect();
    let mut libraries = BTreeSet::new();
    for batch in binaries.chunks(100) {
        let output = Command::new("ldd").args(batch).stdin(Stdio::null()).stderr(Stdio::null()).output();
        if let Ok(output) = output {
            libraries.extend(parse_ldd(&String::from_utf8_lossy(&output.stdout)));
        }
    }
    libraries
}

/// Paths in ldd(1)'s output: `name => /path (address)`, or `/path (address)` for the loader itself.
fn parse_ldd(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter(|line| line.starts_with([' ', '\t']))
        .filter_map(|line| {
            let line = line.split_once("=>").map_or(line, |(_, path)| path);
            let path = line.trim().split(" (").next()?;
            path.starts_with('/').then(|| PathBuf::from(path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_lines_give_libraries_and_the_loader_and_nothing_else() {
        let text = "/usr/bin/a:\n\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/x/libm.so.6 (0x2)\n\
            \tlibz.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n/usr/bin/b:\n\tstatically linked\n";
        assert_eq!(
            parse_ldd(text),
            [Path::new("/lib/x/libm.so.6"), Path::new("/lib64/ld-linux-x86-64.so.2")]
        );
    }

    #[test]
    fn the_key_follows_a_source_and_is_stable_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool");
        fs::write(&file, "one").unwrap();
        let recipe =
            Recipe { files: BTreeSet::from([file.clone()]), own: own_files(), interpreters: BTreeMap::new() };
        let key = recipe.key();
        assert_eq!(recipe.key(), key);
        fs::write(&file, "longer").unwrap();
        assert_ne!(recipe.key(), key);
    }
}
