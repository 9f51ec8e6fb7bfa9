//! A model that follows a script and speaks the dialect it is spoken to: Anthropic's messages, OpenAI's responses and
//! chat completions, and Gemini's content.
//!
//! Only requests with tools follow the script; programs ask for titles and the like beside, and get "ok". A tool is called
//! by the end of its name, since each program names the tools of a server in its own way.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What the model does in one turn.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Says something.
    Say(&'static str),
    /// Asks for the tool whose name ends like this.
    Call(&'static str, Value),
    /// Begins to answer and never goes on.
    Hang,
    /// Breaks down.
    Fail,
}

/// One request with tools.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// A tool as a program offers it.
#[derive(Debug, Clone, PartialEq, Default)]
struct Offered {
    name: String,
    namespace: Option<String>,
}

/// What a dialect has to say in a turn.
enum Reply {
    Text(String),
    Call(Offered, Value),
}

/// The model, served on loopback.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    turns: Mutex<VecDeque<Turn>>,
    asked: Mutex<Vec<Asked>>,
    hanging: Notify,
}

impl Model {
    pub(crate) async fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        let script = Arc::new(Script { turns: Mutex::new(turns.into_iter().collect()), ..Script::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(script.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, script }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until a request hangs.
    pub(crate) async fn hangs(&self) {
        self.script.hanging.notified().await;
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.asked.lock().unwrap().clone()
    }
}

/// A dialect: which tools a request offers, and how a reply is written as a stream.
struct Dialect {
    tools: fn(&Value) -> Vec<Offered>,
    stream: fn(&Reply) -> String,
}

fn dialect(path: &str) -> Option<Dialect> {
    if path.ends_with("/messages") {
        Some(Dialect { tools: anthropic::tools, stream: anthropic::stream })
    } else if path.ends_with("/responses") {
        Some(Dialect { tools: responses::tools, stream: responses::stream })
    } else if path.ends_with("/chat/completions") {
        Some(Dialect { tools: chat::tools, stream: chat::stream })
    } else if path.contains(":streamGenerateContent") {
        Some(Dialect { tools: gemini::tools, stream: gemini::stream })
    } else {
        None
    }
}

async fn answer(
    State(script): State<Arc<Script>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    let Some(dialect) = dialect(&path).filter(|_| method == Method::POST) else {
        return aside(&method, &path);
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let tools = (dialect.tools)(&body);
    if tools.is_empty() {
        return whole((dialect.stream)(&Reply::Text("ok".into())));
    }
    script.asked.lock().unwrap().push(Asked { path, headers, body });
    let turn = script.turns.lock().unwrap().pop_front();
    let reply = match turn {
        Some(Turn::Say(text)) => Reply::Text(text.into()),
        Some(Turn::Call(end, input)) => match tools.iter().find(|tool| tool.name.ends_with(end)) {
            Some(tool) => Reply::Call(tool.clone(), input),
            None => Reply::Text(format!("NO TOOL {end} AMONG {tools:?}")),
        },
        Some(Turn::Fail) => {
            let body = json!({"error": {"type": "overloaded_error", "message": "overloaded"}}).to_string();
            return (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
        }
        Some(Turn::Hang) => {
            script.hanging.notify_one();
            let never = stream::pending::<Result<Bytes, std::io::Error>>();
            return ([("content-type", "text/event-stream")], Body::from_stream(never)).into_response();
        }
        None => Reply::Text("THE SCRIPT IS OVER".into()),
    };
    whole((dialect.stream)(&reply))
}

/// What a program asks beside the conversation.
fn aside(method: &Method, path: &str) -> Response {
    if *method == Method::HEAD {
        StatusCode::OK.into_response()
    } else if path.ends_with("/count_tokens") {
        json!({"input_tokens": 10}).to_string().into_response()
    } else if path.contains(":countTokens") {
        json!({"totalTokens": 10}).to_string().into_response()
    } else {
        (StatusCode::NOT_FOUND, json!({"error": {"message": "not found"}}).to_string()).into_response()
    }
}

fn whole(events: String) -> Response {
    ([("content-type", "text/event-stream")], events).into_response()
}

/// One event of a stream.
fn event(name: &str, data: &Value) -> String {
    let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
    format!("{name}data: {data}\n\n")
}

/// The names in a list of tools.
fn named(tools: &Value, name: impl Fn(&Value) -> &Value) -> Vec<Offered> {
    let tools = tools.as_array().into_iter().flatten();
    let names = tools.filter_map(|tool| name(tool).as_str().map(str::to_owned));
    names.map(|name| Offered { name, namespace: None }).collect()
}
