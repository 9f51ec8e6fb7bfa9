//! One connection to a server of the Model Context Protocol, whichever way it is reached.
//!
//! `rmcp` speaks the protocol. Added here: which transport, whose credentials, how long it may take, and that a program
//! is gone when its connection is.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ClientRequest, CustomResult,
    Implementation, ListToolsRequest, ListToolsResult, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{Peer, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};

use super::program::Program;
use super::sse::SseTransport;
use super::{ConnectorAuth, ConnectorConfig, ConnectorError, http};
use crate::host::HostEnv;
use crate::limits::{CONNECT_TIME, SERVER_MESSAGE_BYTES, SERVER_RECONNECT_WAITS, SERVER_TOOLS, STOP_GRACE};
use crate::log::Log;
use crate::message::JsonObject;
use crate::model::BoxError;
use crate::stop::Stop;
use crate::tool::{ToolError, ToolOutput};

/// A connection. [`close`](Self::close) it; dropped, its program is killed and its server told nothing.
#[derive(Debug)]
pub struct McpConnection {
    name: String,
    service: RunningService<RoleClient, ClientConfig>,
    program: Option<Program>,
}

/// Connects to a server.
///
/// # Errors
/// A [`ConnectorError`] that names the connector. Nothing is left running or open.
pub async fn connect_mcp(
    config: &ConnectorConfig,
    host: &HostEnv,
    log: &Log,
    stop: &Stop,
) -> Result<McpConnection, ConnectorError> {
    let connecting = tokio::time::timeout(CONNECT_TIME, Box::pin(connect(config, host, log)));
    let timed_out = |_elapsed| ConnectorError::TimedOut { connector: config.name.clone() };
    stop.or_drop(connecting).await?.map_err(timed_out)?
}

async fn connect(
    config: &ConnectorConfig,
    host: &HostEnv,
    log: &Log,
) -> Result<McpConnection, ConnectorError> {
    let configuration =
        |problem: String| ConnectorError::Configuration { connector: config.name.clone(), problem };
    let failed = |source: BoxError| ConnectorError::Connect { connector: config.name.clone(), source };
    let client = introduction(config);
    let name = config.name.clone();
    match config.transport.as_str() {
        "stdio" => {
            let command = config.command.as_deref().filter(|command| !command.is_empty());
            let command = command.ok_or_else(|| configuration("has no command".into()))?;
            let started = Program::start(config, command, host, log);
            let (program, stdout, stdin) = started.map_err(|error| failed(error.into()))?;
            let transport = AsyncRwTransport::new(stdout, stdin).with_max_line_length(SERVER_MESSAGE_BYTES);
            match client.serve(transport).await {
                Ok(service) => Ok(McpConnection { name, service, program: Some(program) }),
                Err(error) => {
                    program.end().await;
                    Err(failed(Box::new(error)))
                }
            }
        }
        "streamable_http" => {
            let mut transport =
                StreamableHttpClientTransportConfig::with_uri(http::endpoint(config)?.as_str())
                    .custom_headers(http::headers(config)?)
                    .max_sse_event_size(SERVER_MESSAGE_BYTES)
                    .max_json_response_size(SERVER_MESSAGE_BYTES);
            transport.retry_config = Arc::new(Reconnects);
            if let ConnectorAuth::Bearer(token) = &config.auth {
                transport = transport.auth_header(token.expose());
            }
            let transport = StreamableHttpClientTransport::with_client(http::client(config)?, transport);
            let service = client.serve(transport).await.map_err(|error| failed(Box::new(error)))?;
            Ok(McpConnection { name, service, program: None })
        }
        "sse" => {
            let (endpoint, headers) = (http::endpoint(config)?, http::all_headers(config)?);
            let transport = SseTransport::connect(http::client(config)?, headers, endpoint).await;
            let transport = transport.map_err(|error| failed(Box::new(error)))?;
            let service = client.serve(transport).await.map_err(|error| failed(Box::new(error)))?;
            Ok(McpConnection { name, service, program: None })
        }
        other => Err(configuration(format!(
            "has the transport {other:?}, which is none of stdio, streamable_http and sse"
        ))),
    }
}

/// How often a stream that broke is opened again. Without an end to it, a call of a server that is gone would have none.
#[derive(Debug)]
struct Reconnects;

impl SseRetryPolicy for Reconnects {
    fn retry(&self, times: usize) -> Option<Duration> {
        SERVER_RECONNECT_WAITS.get(times).copied()
    }
}

/// What a server is told about us.
fn introduction(config: &ConnectorConfig) -> ClientConfig {
    let name = format!("mesh-harness ({})", config.name);
    ClientConfig::new(ClientCapabilities::default(), Implementation::new(name, crate::kernel_version()))
}

impl McpConnection {
    /// All the server's tools, however many pages they take.
    ///
    /// # Errors
    /// What went wrong, or that it took too long.
    pub async fn tools(&self, stop: &Stop) -> Result<Vec<Tool>, ConnectorError> {
        let failed = |source: BoxError| ConnectorError::Connect { connector: self.name.clone(), source };
        let listing = async {
            let mut tools = Vec::new();
            let mut cursor = None;
            loop {
                let page = self.page(cursor).await.map_err(failed)?;
                tools.extend(page.tools);
                if tools.len() > SERVER_TOOLS {
                    return Err(failed(format!("it has more than {SERVER_TOOLS} tools").into()));
                }
                cursor = page.next_cursor;
                if cursor.is_none() {
                    return Ok(tools);
                }
            }
        };
        let timed_out = |_elapsed| ConnectorError::TimedOut { connector: self.name.clone() };
        stop.or_drop(tokio::time::timeout(CONNECT_TIME, listing)).await?.map_err(timed_out)?
    }

    /// One page of the server's tools.
    async fn page(&self, cursor: Option<String>) -> Result<ListToolsResult, BoxError> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        match self.service.send_request(request).await? {
            ServerResult::ListToolsResult(page) => Ok(page),
            // To the library a tool without a schema is none, so the page is not what it expects.
            ServerResult::CustomResult(CustomResult(page)) => Ok(serde_json::from_value(with_schemas(page))?),
            _ => Err("it answers with something else than its tools".into()),
        }
    }

    pub(super) fn caller(&self) -> Caller {
        Caller { peer: self.service.peer().clone() }
    }

    /// Closes the connection and ends its program.
    pub async fn close(mut self) {
        if let Err(error) = self.service.close_with_timeout(STOP_GRACE).await {
            tracing::debug!(%error, "a connection does not close");
        }
        drop(self.service);
        if let Some(program) = self.program {
            program.end().await;
        }
    }
}

/// The same page, in which a tool that names no schema takes any object.
fn with_schemas(mut page: Value) -> Value {
    let tools = page.get_mut("tools").and_then(Value::as_array_mut);
    for tool in tools.into_iter().flatten().filter_map(Value::as_object_mut) {
        tool.entry("inputSchema").or_insert_with(|| json!({"type": "object"}));
    }
    page
}

/// Calls tools of one server.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    peer: Peer<RoleClient>,
}

impl Caller {
    /// Calls a tool. When the stop fires the server is told so, and its answer is not waited for.
    pub(super) async fn call(
        &self,
        tool: &str,
        input: JsonObject,
        stop: &Stop,
    ) -> Result<ToolOutput, ToolError> {
        let params = CallToolRequestParams::new(Cow::Owned(tool.to_owned())).with_arguments(input);
        // Dropping the call is what cancels it.
        let answer = stop.or_drop(self.peer.call_tool_once(params)).await?;
        match answer.map_err(ToolError::failed)? {
            CallToolResponse::Complete(result) => {
                let is_error = result.is_error.unwrap_or(false);
                let value: Value = serde_json::to_value(&result).map_err(ToolError::failed)?;
                Ok(ToolOutput { is_error, ..ToolOutput::json(value) })
            }
            _ => Err(ToolError::failed("the server wants more than this client can give")),
        }
    }
}
