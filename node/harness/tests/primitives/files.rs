//! `read_file` and `list_files` see what is in the directory, and nothing else.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use mesh_harness::limits::{LISTED_DEPTH, LISTED_FILES, READ_FILE_BYTES};
use mesh_harness::primitive::PrimitiveOptions;
use proptest::prelude::*;
use serde_json::json;

use crate::{call, tool, whole};

async fn read(workdir: &Path, path: &str) -> Result<String, String> {
    let read_file = tool(&PrimitiveOptions::new(workdir), "read_file");
    let read = tokio::time::timeout(Duration::from_secs(10), call(&read_file, json!({"path": path})));
    read.await.expect("reading does not hang").map(|output| output.content).map_err(|error| whole(&error))
}

async fn list(workdir: &Path, input: serde_json::Value) -> Result<String, String> {
    let list_files = tool(&PrimitiveOptions::new(workdir), "list_files");
    call(&list_files, input).await.map(|output| output.content).map_err(|error| whole(&error))
}

/// A directory with files, links of every kind, and a neighbour that must not be seen.
fn workdir() -> (tempfile::TempDir, tempfile::TempDir) {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret"), "canary").unwrap();
    let at = |name: &str| inside.path().join(name);
    std::fs::create_dir_all(at("a/b")).unwrap();
    std::fs::create_dir_all(at(".git/objects")).unwrap();
    std::fs::create_dir_all(at("a/.git")).unwrap();
    std::fs::write(at(".git/objects/x"), "x").unwrap();
    std::fs::write(at("a/.git/x"), "x").unwrap();
    std::fs::write(at("a/b/deep"), "deep").unwrap();
    std::fs::write(at("z"), "zet").unwrap();
    symlink(outside.path(), at("out")).unwrap();
    symlink(outside.path().join("secret"), at("leak")).unwrap();
    symlink("z", at("alias")).unwrap();
    symlink("a", at("same")).unwrap();
    (inside, outside)
}

#[tokio::test]
async fn a_file_is_read_by_its_path_below_the_directory() {
    let (inside, _outside) = workdir();
    assert_eq!(read(inside.path(), "a/b/deep").await.unwrap(), "deep");
    assert_eq!(read(inside.path(), "./z").await.unwrap(), "zet");
    std::fs::write(inside.path().join("odd"), b"a\xffb").unwrap();
    assert_eq!(read(inside.path(), "odd").await.unwrap(), "a\u{fffd}b");
}

#[tokio::test]
async fn a_path_that_leads_out_is_an_error() {
    let (inside, _outside) = workdir();
    for path in ["../x", "/etc/passwd", "a/../../x", ""] {
        assert!(read(inside.path(), path).await.is_err(), "{path:?}");
    }
    assert!(list(inside.path(), json!({"dir": "../"})).await.is_err());
    assert!(list(inside.path(), json!({"dir": "/etc"})).await.is_err());
}

#[tokio::test]
async fn everything_but_a_plain_file_of_a_bounded_size_is_not_found() {
    let (inside, _outside) = workdir();
    let limit = usize::try_from(READ_FILE_BYTES).unwrap();
    std::fs::write(inside.path().join("full"), vec![b'x'; limit]).unwrap();
    std::fs::write(inside.path().join("large"), vec![b'x'; limit + 1]).unwrap();
    let made = std::process::Command::new("mkfifo").arg(inside.path().join("pipe")).status().unwrap();
    assert!(made.success());
    for path in ["missing", "a", "large", "pipe", "leak", "alias", "out/secret", "same/b/deep"] {
        let seen = read(inside.path(), path).await.unwrap();
        assert!(seen.starts_with("not found") && !seen.contains("canary"), "{path}: {seen}");
    }
    assert_eq!(read(inside.path(), "full").await.unwrap().len(), limit);
}

#[tokio::test]
async fn a_listing_is_sorted_and_leaves_out_history_and_links() {
    let (inside, _outside) = workdir();
    assert_eq!(list(inside.path(), json!({})).await.unwrap(), "a/b/deep\nz");
    assert_eq!(list(inside.path(), json!({"dir": "."})).await.unwrap(), "a/b/deep\nz");
    assert_eq!(list(inside.path(), json!({"dir": "a/"})).await.unwrap(), "a/b/deep");
    for dir in ["out", "same", "missing", "z"] {
        assert!(list(inside.path(), json!({"dir": dir})).await.unwrap().starts_with("not found"), "{dir}");
    }
}

#[tokio::test]
async fn a_listing_is_bounded_and_says_so() {
    let inside = tempfile::tempdir().unwrap();
    for number in 0..LISTED_FILES + 5 {
        std::fs::write(inside.path().join(number.to_string()), "").unwrap();
    }
    let text = list(inside.path(), json!({})).await.unwrap();
    assert_eq!(text.lines().count(), LISTED_FILES + 1);
    assert!(text.ends_with("(there are more; list a directory below)"));
}

#[tokio::test]
async fn a_tree_without_a_bottom_is_listed_to_a_depth_and_says_so() {
    let inside = tempfile::tempdir().unwrap();
    let mut deep = inside.path().to_owned();
    for _ in 0..LISTED_DEPTH + 3 {
        deep.push("d");
        std::fs::create_dir(&deep).unwrap();
        std::fs::write(deep.join("f"), "").unwrap();
    }
    let text = list(inside.path(), json!({})).await.unwrap();
    assert_eq!(text.lines().count(), LISTED_DEPTH + 1);
    assert!(text.ends_with("(there are more; list a directory below)"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_path_shows_what_is_outside(parts in prop::collection::vec(
        prop::sample::select(vec!["..", ".", "", "out", "leak", "a", "b", "same", "secret", "etc", "passwd", "/"]), 0..8,
    )) {
        let (inside, outside) = workdir();
        let up = outside.path().file_name().unwrap().to_str().unwrap();
        for path in [parts.join("/"), format!("{}/{up}/secret", parts.join("/"))] {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let read = runtime.block_on(read(inside.path(), &path));
            let listed = runtime.block_on(list(inside.path(), json!({"dir": path})));
            for text in [read, listed].into_iter().flatten() {
                prop_assert!(!text.contains("canary") && !text.contains("root:"), "{} shows {}", path, text);
            }
        }
    }
}
