//! The capability surface: guards and the one capability of the kernel.

use std::os::unix::fs::symlink;
use std::path::Path;

use mesh_harness::capability::{CapabilityScope, deny_cross_workspace, write_file};
use serde_json::{Value, json};

use crate::stand_ins::object;

fn scope(workdir: &Path) -> CapabilityScope {
    CapabilityScope { workspace_id: "w1".into(), workdir: workdir.to_owned() }
}

async fn write(workdir: &Path, input: Value) -> Result<Value, String> {
    let tool = write_file(&scope(workdir));
    (tool.handler)(object(input)).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_file_is_written_below_the_working_directory_with_its_parents() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let done = write(dir.path(), json!({"path": "a/b/c.txt", "content": "héllo"})).await;
    assert_eq!(done, Ok(json!({"path": "a/b/c.txt", "bytes": 6})));
    assert_eq!(std::fs::read_to_string(dir.path().join("a/b/c.txt"))?, "héllo");
    write(dir.path(), json!({"path": "a/b/c.txt", "content": "x", "workspace_id": "w1"}))
        .await
        .expect("again");
    assert_eq!(std::fs::read_to_string(dir.path().join("a/b/c.txt"))?, "x");
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_elsewhere() -> anyhow::Result<()> {
    let outside = tempfile::tempdir()?;
    let dir = tempfile::tempdir()?;
    symlink(outside.path(), dir.path().join("link"))?;
    std::fs::write(outside.path().join("target"), "untouched")?;
    symlink(outside.path().join("target"), dir.path().join("alias"))?;
    for path in ["../x", "/tmp/x", "a/../../x", "link/x", "alias", "", "."] {
        assert!(write(dir.path(), json!({"path": path, "content": "x"})).await.is_err(), "{path}");
    }
    assert_eq!(std::fs::read_dir(outside.path())?.count(), 1);
    assert_eq!(std::fs::read_to_string(outside.path().join("target"))?, "untouched");
    Ok(())
}

#[tokio::test]
async fn arguments_that_are_missing_wrong_or_too_large_are_refused_in_words() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let large = "x".repeat(mesh_harness::limits::WRITE_FILE_BYTES + 1);
    for (input, word) in [
        (json!({"content": "x"}), "path"),
        (json!({"path": 7, "content": "x"}), "path"),
        (json!({"path": "a"}), "content"),
        (json!({"path": "a", "content": ["x"]}), "content"),
        (json!({"path": "a", "content": large}), "bytes"),
        (json!({"path": "a", "content": "x", "workspaceId": "w2"}), "workspaceId"),
    ] {
        let error = write(dir.path(), input).await.expect_err("it is wrong");
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
    Ok(())
}

#[test]
fn another_workspace_is_denied_however_it_is_spelled_and_never_advertised() {
    let scope = scope(Path::new("/nowhere"));
    for field in ["workspace_id", "workspaceId"] {
        for other in [json!("w2"), json!(""), json!(7), Value::Null] {
            let mut input = object(json!({}));
            input.insert(field.into(), other);
            assert!(deny_cross_workspace(&scope, &input).is_err(), "{input:?}");
        }
        let mut input = object(json!({}));
        input.insert(field.into(), json!("w1"));
        assert!(deny_cross_workspace(&scope, &input).is_ok());
    }
    assert!(deny_cross_workspace(&scope, &object(json!({}))).is_ok());
    let schema = write_file(&scope).spec.input_schema.to_string();
    assert!(!schema.contains("workspace"), "{schema}");
}
