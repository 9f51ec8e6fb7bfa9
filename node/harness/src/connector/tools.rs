//! The tools that a run's connectors bring, and their end.
//!
//! Connectors are opened one after another. If one fails, or the run stops meanwhile, those opened before are closed;
//! a run that got its tools closes them however it ends.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;

use super::mcp::Caller;
use super::{ConnectorConfig, ConnectorError, ConnectorKind, McpConnection, connect_mcp};
use crate::agent::{OpenTools, RunSpec, ToolSource};
use crate::host::HostEnv;
use crate::log::Log;
use crate::message::{JsonObject, ToolSpec};
use crate::model::BoxError;
use crate::stop::Stop;
use crate::tool::{Executing, SharedTool, Tool, ToolContext};

/// Names a tool: by the connector's name and the tool's own.
pub type ToolNaming = Arc<dyn Fn(&str, &str) -> String + Send + Sync>;

/// How connectors are opened.
#[derive(Clone, Default)]
pub struct ConnectorOptions {
    /// Ends connecting.
    pub stop: Stop,
    /// Names tools; None: `<connector>__<tool>`.
    pub tool_name: Option<ToolNaming>,
    /// Settings and variables of the host.
    pub host: HostEnv,
    /// What programs write to standard error.
    pub log: Log,
}

impl fmt::Debug for ConnectorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectorOptions")
            .field("stop", &self.stop)
            .field("tool_name", &self.tool_name.is_some())
            .finish_non_exhaustive()
    }
}

/// Tools that are open until they are closed.
#[derive(Default)]
pub struct ConnectedTools {
    /// The tools.
    pub tools: Vec<SharedTool>,
    connections: Vec<McpConnection>,
}

impl ConnectedTools {
    /// Closes every connection.
    pub async fn close(self) {
        join_all(self.connections.into_iter().map(McpConnection::close)).await;
    }
}

impl fmt::Debug for ConnectedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        f.debug_struct("ConnectedTools").field("tools", &names).finish_non_exhaustive()
    }
}

/// Connects to every MCP server among these and lists its tools.
///
/// # Errors
/// A [`ConnectorError`] that names the connector; whatever was opened before is closed.
pub async fn connector_tools(
    connectors: &[ConnectorConfig],
    options: &ConnectorOptions,
) -> Result<ConnectedTools, ConnectorError> {
    let mut connected = ConnectedTools::default();
    match connect_all(connectors, options, &mut connected).await {
        Ok(()) => Ok(connected),
        Err(error) => {
            connected.close().await;
            Err(error)
        }
    }
}

async fn connect_all(
    connectors: &[ConnectorConfig],
    options: &ConnectorOptions,
    connected: &mut ConnectedTools,
) -> Result<(), ConnectorError> {
    let mut names = BTreeSet::new();
    for config in connectors.iter().filter(|config| config.kind == ConnectorKind::Mcp) {
        let connection = connect_mcp(config, &options.host, &options.log, &options.stop).await?;
        connected.connections.push(connection);
        let Some(connection) = connected.connections.last() else { continue };
        for tool in connection.tools(&options.stop).await? {
            let name = match &options.tool_name {
                Some(naming) => naming(&config.name, &tool.name),
                None => format!("{}__{}", config.name, tool.name),
            };
            if !names.insert(name.clone()) {
                return Err(ConnectorError::Duplicate { name });
            }
            let description = tool.description.unwrap_or_default().into_owned();
            let schema = Value::Object(tool.input_schema.as_ref().clone());
            connected.tools.push(Arc::new(McpTool {
                spec: ToolSpec::new(name, description, schema),
                remote: tool.name.into_owned(),
                caller: connection.caller(),
            }));
        }
    }
    Ok(())
}

/// A tool of a server.
struct McpTool {
    spec: ToolSpec,
    /// What the server calls it.
    remote: String,
    caller: Caller,
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a> {
        Box::pin(self.caller.call(&self.remote, input, &context.stop))
    }
}

/// The connectors of a run as a source of its tools.
#[derive(Debug, Clone, Default)]
pub struct Connectors {
    /// How they are opened. The run's own stop ends it too.
    pub options: ConnectorOptions,
}

impl ToolSource for Connectors {
    fn name(&self) -> &'static str {
        "the connectors"
    }

    fn open<'a>(&'a self, spec: &'a RunSpec, stop: &'a Stop) -> BoxFuture<'a, Result<OpenTools, BoxError>> {
        let options = ConnectorOptions { stop: stop.clone(), ..self.options.clone() };
        Box::pin(async move {
            let connected = connector_tools(&spec.connectors, &options).await?;
            let tools = connected.tools.clone();
            Ok(OpenTools::closed_by(tools, connected.close()))
        })
    }
}
