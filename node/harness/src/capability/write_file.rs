//! The one capability of the kernel: writing a file below the working directory of the run.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{CapabilityError, CapabilityHandler, CapabilityScope, CapabilityTool, deny_cross_workspace};
use crate::beneath::{PathBeneath, Tree};
use crate::limits::WRITE_FILE_BYTES;
use crate::message::{JsonObject, ToolSpec};

/// Writes a file below the working directory of this run; makes the directories it lies in.
#[must_use]
pub fn write_file(scope: &CapabilityScope) -> CapabilityTool {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "relative to the working directory"},
            "content": {"type": "string"},
        },
        "required": ["path", "content"],
    });
    let spec = ToolSpec::new("write_file", "Write a text file below the working directory.", schema);
    let scope = scope.clone();
    let handler: CapabilityHandler = Arc::new(move |input| {
        let scope = scope.clone();
        Box::pin(async move {
            deny_cross_workspace(&scope, &input)?;
            let (path, content) = arguments(&input)?;
            let workdir = scope.workdir;
            let writing = tokio::task::spawn_blocking(move || write(workdir, &path, &content));
            writing.await.map_err(|_| CapabilityError("the write was given up".into()))?
        })
    });
    CapabilityTool { spec, handler }
}

fn arguments(input: &JsonObject) -> Result<(PathBeneath, String), CapabilityError> {
    let text = |field: &str| {
        let value = input.get(field).and_then(Value::as_str);
        value.ok_or_else(|| CapabilityError(format!("{field} is missing or no text")))
    };
    let path = PathBeneath::parse(text("path")?).map_err(|error| CapabilityError(error.to_string()))?;
    let content = text("content")?;
    if content.len() > WRITE_FILE_BYTES {
        return Err(CapabilityError(format!("content has more than {WRITE_FILE_BYTES} bytes")));
    }
    Ok((path, content.to_owned()))
}

fn write(workdir: PathBuf, path: &PathBeneath, content: &str) -> Result<Value, CapabilityError> {
    let written = Tree::open(&workdir).and_then(|tree| {
        tree.create_parents(path)?;
        tree.write(path, content.as_bytes())
    });
    match written {
        Ok(()) => Ok(json!({"path": path.to_string(), "bytes": content.len()})),
        Err(error) => Err(CapabilityError(format!("cannot write {path}: {error}"))),
    }
}
