//! Servers of the Model Context Protocol on loopback: one of `rmcp`, and one that speaks the older HTTP.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any_service, get};
use futures_util::StreamExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::TOKEN;

/// What a server was told.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until it was told this.
    pub(crate) async fn wait(&self, what: &str) {
        let told = async {
            while !self.all().iter().any(|told| told.contains(what)) {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        let limit = std::time::Duration::from_secs(10);
        assert!(tokio::time::timeout(limit, told).await.is_ok(), "{what} was not told: {:?}", self.all());
    }
}

/// Notes texts, in two pages of tools.
#[derive(Clone)]
struct Notes(Told);

fn tool(name: &'static str) -> Tool {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let Value::Object(schema) = schema else { panic!() };
    Tool::new(name, Cow::Borrowed("Notes a text."), JsonObject::from(schema))
}

impl ServerHandler for Notes {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        params: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let client = context.client_info().map(|client| client.name);
        self.0.note(format!("client {}", client.unwrap_or_default()));
        let mut page = ListToolsResult::default();
        match params.and_then(|params| params.cursor) {
            None => {
                page.tools = vec![tool("note"), tool("hang")];
                page.next_cursor = Some("second".into());
            }
            Some(_) => page.tools = vec![tool("fail")],
        }
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request
            .arguments
            .unwrap_or_default()
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned();
        self.0.note(format!("{} {text}", request.name));
        let content = vec![ContentBlock::text(format!("noted {text}"))];
        match &*request.name {
            "hang" => {
                context.ct.cancelled().await;
                self.0.note("cancelled");
                Ok(CallToolResult::success(content).into())
            }
            "fail" => Ok(CallToolResult::error(content).into()),
            _ => Ok(CallToolResult::success(content).into()),
        }
    }
}

/// A server on streamable HTTP that wants [`TOKEN`].
pub(crate) async fn streamable_http() -> (String, Told) {
    let told = Told::default();
    let notes = Notes(told.clone());
    let service = StreamableHttpService::new(
        move || Ok(notes.clone()),
        Arc::new(LocalSessionManager::default()),
        Default::default(),
    );
    let guarded =
        axum::middleware::from_fn(|request: axum::extract::Request, next: axum::middleware::Next| async {
            match is_allowed(request.headers()) {
                true => next.run(request).await,
                false => StatusCode::UNAUTHORIZED.into_response(),
            }
        });
    let router = Router::new().route("/mcp", any_service(service)).layer(guarded);
    (format!("http://{}/mcp", serve(router).await), told)
}

fn is_allowed(headers: &HeaderMap) -> bool {
    headers.get("authorization").is_some_and(|value| value == format!("Bearer {TOKEN}").as_str())
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// What the older server does beside answering.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Older {
    Plain,
    /// Names an address of somebody else for messages.
    Elsewhere,
    /// Ends its stream in the middle of a call.
    Dies,
    /// Sends an event larger than any message may be.
    Floods,
}

#[derive(Clone)]
struct Stream {
    told: Told,
    older: Older,
    events: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>,
}

/// A server on the older HTTP that wants [`TOKEN`].
pub(crate) async fn older_http(older: Older) -> (String, Told) {
    let told = Told::default();
    let state = Stream { told: told.clone(), older, events: Arc::default() };
    let router = Router::new()
        .route("/sse", get(open))
        .route("/messages", axum::routing::post(take))
        .with_state(state);
    (format!("http://{}/sse", serve(router).await), told)
}

async fn open(State(stream): State<Stream>, headers: HeaderMap) -> Response {
    if !is_allowed(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    let target =
        if stream.older == Older::Elsewhere { "http://example.com/messages" } else { "/messages?session=1" };
    sender.send(format!("event: endpoint\ndata: {target}\n\n")).unwrap();
    *stream.events.lock().unwrap() = Some(sender);
    let events = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|event| (Ok::<_, Infallible>(event), receiver))
    });
    let told = stream.told.clone();
    let events = events.chain(futures_util::stream::once(async move {
        told.note("stream ended");
        Ok(String::new())
    }));
    ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
}

async fn take(State(stream): State<Stream>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if !is_allowed(&headers) {
        return StatusCode::UNAUTHORIZED;
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
    stream.told.note(format!("{method} {params}"));
    let result = match method {
        "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "older", "version": "1"}}),
        "tools/list" => json!({"tools": [
            {"name": "note", "inputSchema": {"type": "object"}},
            {"name": "hang", "inputSchema": {"type": "object"}},
            {"name": "bare"},
        ]}),
        "tools/call" if params["name"] == "hang" && stream.older == Older::Dies => {
            *stream.events.lock().unwrap() = None;
            return StatusCode::ACCEPTED;
        }
        "tools/call" if params["name"] == "hang" && stream.older == Older::Floods => {
            let flood = format!("data: {}\n", "x".repeat(64 * 1024));
            let events = stream.events.lock().unwrap().clone().unwrap();
            for _ in 0..300 {
                let _gone = events.send(flood.clone());
            }
            return StatusCode::ACCEPTED;
        }
        "tools/call" if params["name"] == "hang" => return StatusCode::ACCEPTED,
        "tools/call" => json!({"content": [{"type": "text", "text": "noted"}]}),
        _ => return StatusCode::ACCEPTED,
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    let event = format!("event: message\ndata: {answer}\n\n");
    let _gone = stream.events.lock().unwrap().as_ref().map(|events| events.send(event));
    StatusCode::ACCEPTED
}
