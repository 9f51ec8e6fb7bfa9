//! Where things are, what they are called and how long they may be.

use std::collections::BTreeSet;

use crate::repository::{none, rust_files, top_level};

/// Everything at the top level.
const TOP_LEVEL: &[&str] = &[
    ".ci",
    ".config",
    ".gitignore",
    "AGENTS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "clippy.toml",
    "deny.toml",
    "docs",
    "mesh-cli",
    "node",
    "protocol",
    "rustfmt.toml",
    "sandbox",
    "simulations",
    "tests",
];

/// Names that say nothing about what is inside, so everything ends up there.
const EMPTY_NAMES: &[&str] =
    &["common", "helper", "helpers", "manager", "misc", "shared", "types", "util", "utilities", "utils"];

/// Lines a file may have; above that it does more than one thing.
const LINES_MAX: usize = 500;

/// Lines a file of [`LONG_FILES`] may have.
const LINES_MAX_EVER: usize = 800;

/// Files above [`LINES_MAX`], each with the reason, which its header tells too.
const LONG_FILES: &[(&str, &str)] = &[];

#[test]
fn the_top_level_holds_exactly_what_was_agreed() -> anyhow::Result<()> {
    let found: BTreeSet<String> = top_level()?.into_iter().collect();
    let agreed: BTreeSet<String> = TOP_LEVEL.iter().map(|&name| name.to_owned()).collect();
    let extra = found.difference(&agreed).map(|name| format!("{name} is not agreed"));
    let missing = agreed.difference(&found).map(|name| format!("{name} is missing"));
    none(&extra.chain(missing).collect::<Vec<_>>(), "the top level is a table of contents");
    Ok(())
}

#[test]
fn every_rust_file_opens_by_saying_what_it_is_for() -> anyhow::Result<()> {
    let silent = |text: &str| {
        !text.lines().next().is_some_and(|line| line.len() > "//! ".len() && line.starts_with("//! "))
    };
    let broken: Vec<String> =
        rust_files()?.into_iter().filter(|file| silent(&file.text)).map(|file| file.path).collect();
    none(&broken, "the first line is `//!` and a sentence");
    Ok(())
}

#[test]
fn no_file_does_so_much_that_it_is_long() -> anyhow::Result<()> {
    let mut broken = Vec::new();
    let mut excused = BTreeSet::new();
    for file in rust_files()? {
        let lines = file.text.lines().count();
        let excuse = LONG_FILES.iter().find(|(path, _)| *path == file.path);
        if lines > LINES_MAX && excuse.is_some() {
            excused.insert(file.path.clone());
        }
        if lines > LINES_MAX_EVER || (lines > LINES_MAX && excuse.is_none()) {
            broken.push(format!("{}: {lines} lines", file.path));
        }
    }
    let idle = LONG_FILES.iter().filter(|(path, _)| !excused.contains(*path));
    broken.extend(idle.map(|(path, reason)| format!("{path} needs no exception any more ({reason})")));
    none(&broken, "a file has at most 500 lines, or 800 and a reason");
    Ok(())
}

#[test]
fn names_say_what_is_inside() -> anyhow::Result<()> {
    let mut broken = Vec::new();
    for file in rust_files()? {
        let folders = file.path.split('/').rev().skip(1);
        if file.stem() == "mod" {
            broken.push(format!("{}: the parent of foo/ is foo.rs", file.path));
        }
        if folders.chain([file.stem()]).any(|name| EMPTY_NAMES.contains(&name)) {
            broken.push(format!("{}: named after nothing it does", file.path));
        }
    }
    none(&broken, "one noun a file");
    Ok(())
}
