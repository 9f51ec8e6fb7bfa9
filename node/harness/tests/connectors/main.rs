//! Connectors against real servers: a program on standard input and output, streamable HTTP, and the older HTTP.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what a test stands on ends it")]

mod connecting;
mod programs;
mod servers;

use mesh_harness::Secret;
use mesh_harness::connector::{ConnectedTools, ConnectorAuth, ConnectorConfig, ConnectorOptions};
use mesh_harness::host::HostEnv;
use mesh_harness::message::JsonObject;
use mesh_harness::tool::{SharedTool, ToolContext, ToolError, ToolOutput};
use serde_json::Value;

/// What every connector of these tests shows.
const TOKEN: &str = "connector-canary";

/// A connector behind HTTP with the right token.
fn http(transport: &str, endpoint: &str) -> ConnectorConfig {
    ConnectorConfig {
        name: "notes".into(),
        transport: transport.into(),
        endpoint: Some(endpoint.into()),
        auth: ConnectorAuth::Bearer(Secret::from(TOKEN)),
        ..ConnectorConfig::default()
    }
}

fn options() -> ConnectorOptions {
    ConnectorOptions { host: HostEnv::process(), ..ConnectorOptions::default() }
}

fn named(tools: &ConnectedTools, name: &str) -> SharedTool {
    tools.tools.iter().find(|tool| tool.spec().name == name).expect("a tool of this name").clone()
}

fn names(tools: &ConnectedTools) -> Vec<String> {
    tools.tools.iter().map(|tool| tool.spec().name.clone()).collect()
}

async fn call(tool: &SharedTool, input: Value, context: &ToolContext) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { panic!("arguments are an object") };
    tool.execute(JsonObject::from(input), context).await
}

/// An error and all its causes, as people read it.
fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = format!("{error} ({error:?})");
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
