//! That the lints hold everywhere: a crate that forgets to inherit them is silently checked for nothing.

use crate::repository::{File, files, none, read};

/// Crates whose results must not depend on when or in which order something is looked at.
const REPRODUCIBLE: &[&str] = &["protocol", "node/core"];

/// What those crates may not call or name, so that a seed replays.
const BANS: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "rand::rng",
    "std::collections::HashMap",
    "std::collections::HashSet",
];

fn manifests() -> anyhow::Result<Vec<File>> {
    let crates: Vec<File> = files()?.into_iter().filter(|file| file.path.ends_with("/Cargo.toml")).collect();
    assert!(crates.len() >= 8, "only {} crates were found", crates.len());
    Ok(crates)
}

#[test]
fn every_crate_inherits_the_lints_of_the_workspace() -> anyhow::Result<()> {
    let broken: Vec<String> = manifests()?
        .iter()
        .filter(|manifest| !manifest.text.contains("\n[lints]\nworkspace = true\n"))
        .map(|manifest| manifest.path.clone())
        .collect();
    none(&broken, "`[lints] workspace = true` is missing");
    Ok(())
}

#[test]
fn a_crates_own_clippy_file_repeats_the_shared_lines() -> anyhow::Result<()> {
    let shared = read("clippy.toml")?;
    let mut broken = Vec::new();
    for own in files()?.iter().filter(|file| file.path.ends_with("/clippy.toml")) {
        let missing = shared.lines().filter(|line| !own.text.lines().any(|other| other == *line));
        broken.extend(missing.map(|line| format!("{}: {line}", own.path)));
    }
    none(
        &broken,
        "clippy reads a crate's clippy.toml instead of the root's, so lines of the root's are lost",
    );
    Ok(())
}

#[test]
fn clocks_randomness_and_unordered_maps_are_banned_where_seeds_must_replay() -> anyhow::Result<()> {
    let mut broken = Vec::new();
    for folder in REPRODUCIBLE {
        let rules = read(&format!("{folder}/clippy.toml"))?;
        let missing = BANS.iter().filter(|ban| !rules.contains(&format!("path = \"{ban}\"")));
        broken.extend(missing.map(|ban| format!("{folder}/clippy.toml does not ban {ban}")));
    }
    none(&broken, "time and randomness are arguments");
    Ok(())
}
