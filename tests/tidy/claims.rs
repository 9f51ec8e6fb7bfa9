//! That the tables of what is promised name, for each promise, the tests that prove it, and that these are there.
//!
//! Such a table is in a document: its first column is the promise's number and is headed `id` or `rule`, its last is
//! headed `tests` and has the tests' names in backquotes. A row without a test says [`NOT_BUILT`] or [`NOT_HERE`] and
//! why, and a document may have only as many of these as is agreed here.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::{none, read, rust_files};

/// What a row says that promises something nobody has built.
const NOT_BUILT: &str = "not built yet";

/// What a row says whose promise no test can show on the machines the tests run on.
const NOT_HERE: &str = "not proven here";

/// The numbers of a document's promises.
enum Ids {
    /// `1` and so on.
    Count(usize),
    /// `MS-1` and so on for each area, and some that came between.
    Areas(&'static [(&'static str, usize)], &'static [&'static str]),
}

impl Ids {
    fn all(&self) -> BTreeSet<String> {
        match self {
            Self::Count(count) => (1..=*count).map(|number| number.to_string()).collect(),
            Self::Areas(areas, between) => {
                let numbered =
                    areas.iter().flat_map(|(area, count)| (1..=*count).map(move |n| format!("{area}-{n}")));
                numbered.chain(between.iter().map(|&id| id.to_owned())).collect()
            }
        }
    }
}

/// The documents with such a table, the numbers in it, and how many of its rows may have no test, or not all they need.
/// Lower that with each that does not any more.
const TABLES: &[(&str, Ids, usize)] = &[
    ("docs/executor.md", Ids::Count(85), 1),
    ("docs/harness.md", HARNESS, 0),
    ("docs/mesh.md", Ids::Count(86), 2),
];

const HARNESS: Ids = Ids::Areas(
    &[
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
    ],
    &["EN-8b"],
);

/// A row of a table.
struct Row {
    id: String,
    tests: Vec<String>,
    is_open: bool,
}

/// The rows of every table of promises in a document.
fn rows(document: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        let cells: Vec<&str> = line
            .trim_matches(['|', ' '])
            .split(" | ")
            .map(str::trim)
            .filter(|_| line.starts_with('|'))
            .collect();
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            inside = false;
            continue;
        };
        if matches!(*first, "id" | "rule") && *last == "tests" {
            inside = true;
        } else if inside && !first.starts_with("---") {
            rows.push(Row {
                id: (*first).to_owned(),
                tests: last.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
                is_open: last.contains(NOT_BUILT) || last.contains(NOT_HERE),
            });
        }
    }
    rows
}

/// The names of all tests in a source, also of halves that another test starts: `source.rs` sees to it that there is no
/// other test which is not run by itself.
fn tests_in(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        is_test |= line.starts_with("#[") && (line.contains("test]") || line.contains("test("));
        let declared = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(name) = declared.and_then(|rest| rest.split(['(', '<']).next()) {
            if is_test {
                found.insert(name.to_owned());
            }
            is_test = false;
        }
    }
    found
}

/// What is wrong with a document's rows.
fn faults(rows: &[Row], ids: &Ids, open: usize, tests: &BTreeSet<String>) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *times.entry(&row.id).or_default() += 1);
    let ids = ids.all();
    let unknown =
        times.keys().filter(|id| !ids.contains(**id)).map(|id| format!("{id}: nothing is numbered so"));
    let absent =
        ids.iter().filter(|id| !times.contains_key(id.as_str())).map(|id| format!("{id}: has no row"));
    let twice =
        times.iter().filter(|(_, times)| **times > 1).map(|(id, times)| format!("{id}: has {times} rows"));
    let mut faults: Vec<String> = unknown.chain(absent).chain(twice).collect();
    for row in rows {
        let missing = row.tests.iter().filter(|test| !tests.contains(*test));
        faults.extend(missing.map(|test| format!("{}: there is no test {test}", row.id)));
        if row.tests.is_empty() && !row.is_open {
            faults.push(format!("{}: is proved by nothing", row.id));
        }
    }
    let found = rows.iter().filter(|row| row.is_open).count();
    if found > open {
        faults.push(format!("{found} rows are open, where {open} are agreed"));
    }
    faults
}

#[test]
fn every_promise_has_one_row_and_names_tests_that_exist_or_says_that_it_is_open() -> anyhow::Result<()> {
    let mut tests = BTreeSet::new();
    rust_files()?.iter().for_each(|file| tests.append(&mut tests_in(&file.text)));
    assert!(tests.len() > 700, "only {} tests were found", tests.len());
    let mut broken = Vec::new();
    for (document, ids, open) in TABLES {
        let faults = faults(&rows(&read(document)?), ids, *open, &tests);
        broken.extend(faults.into_iter().map(|fault| format!("{document}, {fault}")));
    }
    none(&broken, "what is promised is proved by tests that a reader can find");
    Ok(())
}

#[test]
fn a_row_that_is_missing_doubled_unproved_or_made_up_is_noticed() {
    let source = "#[test]\nfn one_holds() {}\n#[tokio::test]\nasync fn two_holds() {}\nfn no_test() {}";
    let tests = tests_in(source);
    assert_eq!(tests, ["one_holds", "two_holds"].map(str::to_owned).into());
    let said = |table: &str, open| {
        faults(&rows(&format!("| id | what | tests |\n|---|---|---|\n{table}")), &Ids::Count(2), open, &tests)
            .join("; ")
    };
    let first = "| 1 | one | `one_holds` |\n";
    assert_eq!(said(&format!("{first}| 2 | two | `two_holds`, `one_holds` |"), 0), "");
    assert_eq!(said(&format!("{first}| 2 | two | not proven here: no such machine |"), 1), "");
    assert_eq!(said(first, 0), "2: has no row");
    assert_eq!(said(&format!("{first}{first}| 2 | two | `two_holds` |"), 0), "1: has 2 rows");
    assert_eq!(said(&format!("{first}| 2 | two | by care |"), 0), "2: is proved by nothing");
    assert_eq!(said(&format!("{first}| 2 | two | `no_test` |"), 0), "2: there is no test no_test");
    assert_eq!(
        said(&format!("{first}| 2 | two | not built yet |"), 0),
        "1 rows are open, where 0 are agreed"
    );
    let three = format!("{first}| 2 | two | `two_holds` |\n| 3 | three | `two_holds` |");
    assert_eq!(said(&three, 0), "3: nothing is numbered so");
}
