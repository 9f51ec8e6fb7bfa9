//! The tools every run has: what they do in their directory, and what they refuse outside it.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what a test stands on ends it")]
#![expect(clippy::print_stderr, reason = "a test says why it was skipped")]

mod code;
mod downloading;
mod fetching;
mod files;
mod network;

use mesh_harness::message::JsonObject;
use mesh_harness::primitive::{PrimitiveOptions, primitive_tools};
use mesh_harness::tool::{SharedTool, ToolContext, ToolError, ToolOutput};
use serde_json::Value;

/// One of the primitives.
fn tool(options: &PrimitiveOptions, name: &str) -> SharedTool {
    let mut tools = primitive_tools(options);
    tools.retain(|tool| tool.spec().name == name);
    tools.pop().expect("a primitive of this name")
}

/// Calls it with these arguments.
async fn call(tool: &SharedTool, input: Value) -> Result<ToolOutput, ToolError> {
    call_in(tool, input, &ToolContext::default()).await
}

async fn call_in(tool: &SharedTool, input: Value, context: &ToolContext) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { panic!("arguments are an object") };
    tool.execute(JsonObject::from(input), context).await
}

/// An error and all its causes, as people read it.
fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn only_allowed_tools_are_there() {
    let names = |allowed: Option<&[&str]>| -> Vec<String> {
        let mut options = PrimitiveOptions::new("/");
        options.allowed = allowed.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        primitive_tools(&options).iter().map(|tool| tool.spec().name.clone()).collect()
    };
    assert_eq!(names(None), ["run_code", "read_file", "list_files", "http_fetch"]);
    assert_eq!(names(Some(&["http_fetch", "nonsense", "read_file"])), ["read_file", "http_fetch"]);
    assert!(names(Some(&[])).is_empty());
}
