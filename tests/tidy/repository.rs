//! The files of this repository as the rules read them.
//!
//! What is read is the folder and not git's index, so that the rules also hold in an archive of the sources. What
//! `.gitignore` names at the top level is left out.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// One file.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the top, with slashes.
    pub(crate) path: String,
    /// What it says; empty for what is not UTF-8.
    pub(crate) text: String,
}

impl File {
    /// The name without folders and `.rs`.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".rs").unwrap_or(name)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The folder that holds the workspace.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Every file, sorted by path.
pub(crate) fn files() -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    for name in top_level()? {
        collect(&top(), &name, &mut files)?;
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(
        files.len() > 100,
        "only {} files were found: the rules would hold for want of files",
        files.len()
    );
    Ok(files)
}

/// Every Rust file, sorted by path.
pub(crate) fn rust_files() -> anyhow::Result<Vec<File>> {
    Ok(files()?.into_iter().filter(File::is_rust).collect())
}

/// The names at the top level, without what git ignores.
pub(crate) fn top_level() -> anyhow::Result<Vec<String>> {
    let ignored = read(".gitignore")?;
    let is_ignored =
        |name: &str| name == ".git" || ignored.lines().any(|line| line.trim_matches('/') == name);
    Ok(names(&top())?.into_iter().filter(|name| !is_ignored(name)).collect())
}

/// The text of one file, named from the top.
pub(crate) fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(top().join(path)).with_context(|| format!("cannot read {path}"))
}

/// Fails the test with every line of `broken`, under the rule that was broken.
#[track_caller]
pub(crate) fn none(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}\n  {}\n", broken.join("\n  "));
}

fn collect(top: &Path, path: &str, files: &mut Vec<File>) -> anyhow::Result<()> {
    let place = top.join(path);
    if !place.is_dir() {
        let bytes = fs::read(&place).with_context(|| format!("cannot read {path}"))?;
        files.push(File { path: path.to_owned(), text: String::from_utf8(bytes).unwrap_or_default() });
        return Ok(());
    }
    for name in names(&place)? {
        collect(top, &format!("{path}/{name}"), files)?;
    }
    Ok(())
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
