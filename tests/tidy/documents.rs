//! That what the documents tell people to type, and where they send them, exists.
//!
//! A fenced block marked `sh test` in a Markdown file is a promise: each of its commands is one of ours or cargo's, and
//! what it names is there. The commands are not run: that is what the tests behind them do.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, ensure};

use crate::repository::{files, none, read, top};

/// How a block says that its commands are checked.
const FENCE: &str = "```sh test";

/// The two commands a reader starts with.
const FIRST_COMMANDS: &[&str] = &["cargo run --release -p mesh-cli -- demo", "./tests/run"];

/// What follows `cargo` in a checked block.
const CARGO_COMMANDS: &[&str] =
    &["bench", "build", "clippy", "doc", "fmt", "install", "nextest", "run", "test"];

/// The heading of the map of modules in `docs/architecture.md`.
const MAP_HEADING: &str = "### Where things are";

/// A command of a document, and where it stands.
struct Typed {
    place: String,
    words: Vec<String>,
}

/// The commands of every checked block: comments and settings before the program left out, `\` at the end joined.
fn typed() -> anyhow::Result<Vec<Typed>> {
    let mut commands = Vec::new();
    for file in files()?.iter().filter(|file| file.path.ends_with(".md")) {
        let mut inside = false;
        let text = file.text.replace("\\\n", " ");
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with("```") {
                inside = line == FENCE;
            } else if inside {
                let code = line.split(" #").next().unwrap_or_default();
                let words = code.split_whitespace().skip_while(|word| is_setting(word)).map(str::to_owned);
                let words: Vec<String> = words.collect();
                if !code.starts_with('#') && !words.is_empty() {
                    commands.push(Typed { place: format!("{}: {line}", file.path), words });
                }
            }
        }
    }
    Ok(commands)
}

/// Whether this is `NAME=value` before a program.
fn is_setting(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'))
}

/// What is wrong with a command, if anything.
fn check(words: &[String], packages: &BTreeSet<String>) -> anyhow::Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cargo", command, rest @ ..] => {
            ensure!(CARGO_COMMANDS.contains(command), "no such cargo command");
            let package = rest.iter().position(|word| *word == "-p").and_then(|at| rest.get(at + 1));
            if let Some(package) = package {
                ensure!(packages.contains(*package), "no package {package}");
            }
            for pair in rest.windows(2).take_while(|pair| pair.first() != Some(&"--")) {
                if let [option @ ("--example" | "--bench" | "--test"), name] = pair {
                    let package = package.context("a target without its package")?;
                    ensure!(has_target(package, option, name)?, "{package} has no {option} {name}");
                }
            }
            match rest.iter().position(|word| *word == "--") {
                Some(at) if package == Some(&"mesh-cli") => {
                    understood(rest.get(at + 1..).unwrap_or_default())
                }
                _ => Ok(()),
            }
        }
        ["mesh-cli", arguments @ ..] => understood(arguments),
        [program, ..] if program.starts_with("./") => {
            let mode = top().join(program).metadata().context("no such file")?.permissions().mode();
            ensure!(mode & 0o111 != 0, "not executable");
            Ok(())
        }
        _ => anyhow::bail!("neither ours nor cargo's"),
    }
}

/// Whether a package has a target of this kind: a manifest that names it, or a file or folder in its usual place.
fn has_target(package: &str, option: &str, name: &str) -> anyhow::Result<bool> {
    let manifests = files()?.into_iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let line = format!("name = \"{package}\"");
    let manifest = manifests.into_iter().find(|manifest| manifest.text.lines().any(|it| it == line));
    let manifest = manifest.context("no such package")?;
    let kind = option.trim_start_matches('-');
    let head = format!("[[{kind}]]\nname = \"{name}\"");
    let folder = match kind {
        "bench" => "benches".to_owned(),
        kind => format!("{kind}s"),
    };
    let place = top().join(manifest.path.trim_end_matches("Cargo.toml")).join(folder);
    let found = place.join(format!("{name}.rs")).exists() || place.join(name).join("main.rs").exists();
    Ok(found || manifest.text.contains(&head))
}

/// Whether the command line has the command of `arguments` and each of its long options: it is asked for its help.
fn understood(arguments: &[&str]) -> anyhow::Result<()> {
    let words = arguments.split(|word| word.starts_with('-')).next().unwrap_or_default();
    // Two, because of commands like `setup gvisor`; more would be parts of a quoted text.
    let command = words.iter().take(2);
    let program = env!("CARGO_BIN_EXE_mesh-under-test");
    let output = std::process::Command::new(program).args(command).arg("--help").output()?;
    ensure!(output.status.success(), "no such command");
    let help = String::from_utf8_lossy(&output.stdout);
    for option in arguments.iter().filter(|word| word.starts_with("--")) {
        let name = option.split('=').next().unwrap_or_default();
        ensure!(help.split([' ', ',', '\n', '[', '=']).any(|word| word == name), "no option {name}");
    }
    Ok(())
}

fn packages() -> anyhow::Result<BTreeSet<String>> {
    let manifests = files()?.into_iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let name = |text: String| {
        text.lines().find_map(|line| Some(line.strip_prefix("name = \"")?.trim_end_matches('"').to_owned()))
    };
    Ok(manifests.filter_map(|manifest| name(manifest.text)).collect())
}

/// The words in backquotes of a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The map of modules: for each folder at the head of a column, the modules below it.
fn mapped() -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let document = read("docs/architecture.md")?;
    let (_, section) = document.split_once(MAP_HEADING).context("the map has gone")?;
    let mut rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let head: Vec<&str> = rows.next().context("the map has no head")?.split('|').collect();
    let rows: Vec<Vec<&str>> =
        rows.take_while(|line| line.starts_with('|')).map(|line| line.split('|').collect()).collect();
    let columns = head.iter().enumerate().filter_map(|(at, cell)| Some((at, quoted(cell).next()?)));
    let below = |at: usize| rows.iter().filter_map(move |row| row.get(at).copied()).flat_map(quoted);
    Ok(columns.map(|(at, folder)| (folder.to_owned(), below(at).map(str::to_owned).collect())).collect())
}

#[test]
fn the_map_of_the_code_names_every_module_and_only_what_exists() -> anyhow::Result<()> {
    let mapped = mapped()?;
    assert!(mapped.len() >= 3, "{mapped:?}");
    let mut wrong = Vec::new();
    for (folder, named) in &mapped {
        let is_there = |name: &String| {
            top().join(folder).join(format!("{name}.rs")).exists() || top().join(name).is_dir()
        };
        wrong.extend(named.iter().filter(|name| !is_there(name)).map(|name| format!("{folder}: no {name}")));
        for file in files()? {
            let module = file.path.strip_prefix(folder.as_str()).and_then(|path| path.strip_prefix('/'));
            let module = module.and_then(|name| name.strip_suffix(".rs")).filter(|name| !name.contains('/'));
            wrong.extend(
                module.filter(|name| *name != "lib" && !named.contains(*name)).map(|_| file.path.clone()),
            );
        }
    }
    none(&wrong, "a newcomer finds every module in docs/architecture.md");
    Ok(())
}

#[test]
fn what_the_documents_say_to_type_exists() -> anyhow::Result<()> {
    let packages = packages()?;
    let typed = typed()?;
    assert!(typed.len() > 5, "only {} commands were found in `sh test` blocks", typed.len());
    let failed = typed.iter().filter_map(|typed| {
        let error = check(&typed.words, &packages).err()?;
        Some(format!("{} ({error:#})", typed.place))
    });
    none(&failed.collect::<Vec<_>>(), "a command in a document works in a fresh clone");
    Ok(())
}

#[test]
fn a_command_that_is_not_there_is_noticed() -> anyhow::Result<()> {
    let packages = packages()?;
    let refused =
        |line: &str| check(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), &packages).is_err();
    assert!(refused("mesh-cli no-such-command"));
    assert!(refused("mesh-cli ask --no-such-option"));
    assert!(refused("cargo run -p mesh-cli -- no-such-command"));
    assert!(refused("cargo test -p no-such-package"));
    assert!(refused("cargo bench -p mesh-tests --bench no-such-bench"));
    assert!(!refused("cargo bench -p mesh-tests --bench mesh"));
    assert!(!refused("cargo run -p mesh-sandbox --example setup"));
    assert!(refused("./no/such/file"));
    assert!(!refused("./tests/run"));
    Ok(())
}

#[test]
fn the_readme_starts_with_the_two_commands() -> anyhow::Result<()> {
    let readme = read("README.md")?;
    let typed: Vec<&str> = readme.lines().map(str::trim).collect();
    let missing =
        FIRST_COMMANDS.iter().filter(|command| !typed.contains(command)).map(|&command| command.to_owned());
    none(&missing.collect::<Vec<_>>(), "a reader of README.md sees these on lines of their own");
    Ok(())
}

#[test]
fn the_change_log_has_a_place_for_what_comes_next() -> anyhow::Result<()> {
    assert!(read("CHANGELOG.md")?.lines().any(|line| line == "## Unreleased"));
    Ok(())
}

#[test]
fn the_page_for_coding_agents_stays_short() -> anyhow::Result<()> {
    assert!(read("AGENTS.md")?.lines().count() <= 25);
    Ok(())
}
