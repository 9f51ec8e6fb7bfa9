//! That `docs/harness.md` has a row for every rule, and that what a row names is a test.

use std::collections::BTreeSet;
use std::path::Path;

/// The rules, by area: how many each has, and those with a letter.
const RULES: &[(&str, usize)] = &[
    ("MS", 7),
    ("PV", 11),
    ("PO", 12),
    ("US", 4),
    ("LP", 7),
    ("CV", 6),
    ("EV", 6),
    ("CX", 5),
    ("TL", 4),
    ("PR", 5),
    ("CN", 3),
    ("RT", 1),
    ("CT", 1),
    ("SC", 1),
    ("EN", 10),
    ("RE", 6),
    ("GW", 6),
    ("PVT", 3),
    ("PK", 1),
];

/// A row of the table: the rule, and what proves it.
struct Row {
    rule: String,
    tests: Vec<String>,
}

fn rows(document: &str) -> Vec<Row> {
    let is_rule = |cell: &str| {
        let (area, number) = cell.split_once('-').unwrap_or_default();
        let is_area = !area.is_empty() && area.chars().all(|letter| letter.is_ascii_uppercase());
        is_area && number.starts_with(|letter: char| letter.is_ascii_digit())
    };
    let cells = document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?.trim(), cells.last()?))
    });
    cells
        .filter(|(rule, _)| is_rule(rule))
        .map(|(rule, proof)| Row {
            rule: rule.to_owned(),
            tests: proof.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        })
        .collect()
}

fn ids() -> BTreeSet<String> {
    let numbered = RULES.iter().flat_map(|(area, count)| (1..=*count).map(move |n| format!("{area}-{n}")));
    numbered.chain(["EN-8b".to_owned()]).collect()
}

/// The names of all functions in the sources and tests of this crate.
fn functions() -> anyhow::Result<BTreeSet<String>> {
    fn walk(folder: &Path, found: &mut BTreeSet<String>) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(&path, found)?;
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path)?;
                let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
                found.extend(names.map(str::to_owned));
            }
        }
        Ok(())
    }
    let mut found = BTreeSet::new();
    for folder in ["src", "tests"] {
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found)?;
    }
    assert!(found.len() > 300, "only {} functions were found", found.len());
    Ok(found)
}

fn document() -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/harness.md"))?)
}

#[test]
fn every_rule_has_one_row_and_every_row_a_rule() -> anyhow::Result<()> {
    let rows = rows(&document()?);
    let found: BTreeSet<String> = rows.iter().map(|row| row.rule.clone()).collect();
    assert_eq!(found, ids());
    assert_eq!(rows.len(), found.len(), "a rule has two rows");
    Ok(())
}

#[test]
fn a_row_names_tests_that_exist() -> anyhow::Result<()> {
    let functions = functions()?;
    for row in rows(&document()?) {
        let missing: Vec<&String> = row.tests.iter().filter(|test| !functions.contains(*test)).collect();
        assert!(missing.is_empty(), "{}: there is no {missing:?}", row.rule);
        assert!(!row.tests.is_empty(), "{} is proved by nothing", row.rule);
    }
    Ok(())
}
