//! What may not be written, wherever it stands. Needles are put together from halves, so that this file is not found.

use std::collections::BTreeSet;

use crate::repository::{File, files, none, rust_files, top};

/// The only folder with code that the compiler does not check.
const UNCHECKED_FOLDER: &str = "sandbox/src/";

/// Tests that other tests start in a process of their own, and that are therefore not run by themselves.
const OTHER_HALVES: &[&str] = &[
    "node/harness/tests/command/crash.rs",
    "node/harness/tests/command/environment.rs",
    "node/tests/storage_home.rs",
    "node/tests/writer/crash.rs",
    "sandbox/tests/gvisor/lifecycle.rs",
    "sandbox/tests/gvisor/shared_kernel.rs",
    "sandbox/tests/gvisor/without_root.rs",
];

/// What marks something as unfinished.
const UNFINISHED: &[&str] =
    &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!("), concat!("FIX", "ME")];

/// Hosts of package registries: which one is used is the machine's own setting.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", "."),
    concat!("deb.debian", ".org"),
    concat!("security.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
    concat!("proxy.golang", ".org"),
    concat!("docker", ".io"),
    concat!("ghcr", ".io"),
    concat!("quay", ".io"),
];

/// Homes of people and builds.
const HOMES: &[&str] = &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Cargo writes it, with the registry as its own address.
const LOCK_FILE: &str = "Cargo.lock";

/// The lines of `file` with one of `needles`, as `path:line: needle`.
fn found(file: &File, needles: &[&str]) -> Vec<String> {
    let lines = file.text.lines().enumerate();
    lines
        .flat_map(|(at, line)| {
            needles.iter().filter(|needle| line.contains(**needle)).map(move |needle| (at, needle))
        })
        .map(|(at, needle)| format!("{}:{}: {needle}", file.path, at + 1))
        .collect()
}

/// Whether `word` stands alone in the code of `line`, outside a comment.
fn has_word(line: &str, word: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|part| part == word)
}

#[test]
fn a_word_is_found_in_code_and_not_in_comments_or_longer_words() {
    assert!(has_word("    let x = mark { y };", "mark"));
    assert!(!has_word("#![forbid(mark_code)]", "mark"));
    assert!(!has_word("let x = 1; // a mark", "mark"));
}

#[test]
fn code_the_compiler_does_not_check_is_only_in_the_sandbox() -> anyhow::Result<()> {
    let word = concat!("un", "safe");
    let outside = rust_files()?.into_iter().filter(|file| !file.path.starts_with(UNCHECKED_FOLDER));
    let broken: Vec<String> = outside
        .filter(|file| file.text.lines().any(|line| has_word(line, word)))
        .map(|file| file.path)
        .collect();
    none(&broken, "only the sandbox needs it, between fork and exec");
    Ok(())
}

#[test]
fn nothing_unfinished_is_left() -> anyhow::Result<()> {
    let broken: Vec<String> = rust_files()?.iter().flat_map(|file| found(file, UNFINISHED)).collect();
    none(&broken, "what is not built is said to be not built, in words a user can read");
    Ok(())
}

#[test]
fn only_the_other_half_of_a_test_is_not_run_by_itself() -> anyhow::Result<()> {
    let mark = concat!("#[ign", "ore");
    let ignoring: BTreeSet<String> =
        rust_files()?.into_iter().filter(|file| file.text.contains(mark)).map(|file| file.path).collect();
    let agreed: BTreeSet<String> = OTHER_HALVES.iter().map(|&path| path.to_owned()).collect();
    assert_eq!(
        ignoring, agreed,
        "a test that does not run proves nothing; a half that another test starts is listed"
    );
    let without_reason = concat!("#[ign", "ore]");
    let broken: Vec<String> = rust_files()?.iter().flat_map(|file| found(file, &[without_reason])).collect();
    none(&broken, "say who starts it: = \"...\"");
    Ok(())
}

#[test]
fn no_file_names_the_host_of_a_package_registry() -> anyhow::Result<()> {
    let mut all = files()?;
    all.retain(|file| !file.path.ends_with(LOCK_FILE));
    let broken: Vec<String> = all.iter().flat_map(|file| found(file, REGISTRIES)).collect();
    none(&broken, "which registry is used is for each machine to say");
    Ok(())
}

#[test]
fn no_file_names_a_place_on_the_machine_it_was_written_on() -> anyhow::Result<()> {
    let checkout = top().display().to_string();
    let mut needles = HOMES.to_vec();
    // A checkout directly below the root, such as /src, is an ordinary word.
    if checkout.matches('/').count() > 1 {
        needles.push(&checkout);
    }
    let broken: Vec<String> = files()?.iter().flat_map(|file| found(file, &needles)).collect();
    none(&broken, "the repository may lie anywhere");
    Ok(())
}
