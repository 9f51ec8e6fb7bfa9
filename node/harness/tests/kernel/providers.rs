//! Adapters against a server that records what it is sent, and answers what it is told.

mod anthropic;
mod openai;
mod options;
mod retries;
mod selection;
mod streaming;

use std::sync::Arc;

use mesh_harness::host::HostEnv;
use mesh_harness::message::AgentMessage;
use mesh_harness::provider::{
    ConverseOptions, ConverseRequest, ConverseResult, Credentials, Provider, ProviderError, ProviderOptions,
    ProviderSelection, select_provider,
};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers};

/// The providers that speak over a network.
const NAMES: [&str; 4] = ["anthropic", "openai", "openrouter", "local"];

/// A key that must be seen nowhere but in its header.
const KEY: &str = "sk-canary-0123456789";

/// A server that answers every request like this.
async fn answering(response: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(matchers::any()).respond_with(response).mount(&server).await;
    server
}

async fn answering_json(body: Value) -> MockServer {
    answering(ResponseTemplate::new(200).set_body_json(body)).await
}

/// The least that is an answer of this provider.
fn minimal(provider: &str) -> Value {
    match provider {
        "anthropic" => json!({"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}),
        _ => json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}),
    }
}

/// A provider that sends to this server, with settings of the host.
fn provider_with(name: &str, server: &MockServer, host: &[(&str, &str)]) -> Arc<dyn Provider> {
    let key = Some(KEY.into());
    let credentials = Credentials { anthropic: key.clone(), openai: key.clone(), openrouter: key };
    let base = format!("{}/base", server.uri());
    let selection = ProviderSelection {
        credentials,
        base_urls: NAMES.iter().map(|&name| (name.to_owned(), base.clone())).collect(),
        model: Some("model-1".into()),
        ..ProviderSelection::of(name)
    };
    let local = [("LOCAL_MODEL_BASE_URL", base.as_str())];
    let host = HostEnv::fixed(host.iter().copied().chain(local));
    select_provider(&selection, &host).expect("it is whole")
}

fn provider(name: &str, server: &MockServer) -> Arc<dyn Provider> {
    provider_with(name, server, &[])
}

fn saying(text: &str) -> ConverseRequest {
    ConverseRequest { messages: Arc::new(vec![AgentMessage::user(text)]), ..ConverseRequest::default() }
}

fn with_options(options: ProviderOptions) -> ConverseRequest {
    ConverseRequest { options: Arc::new(options), ..saying("hello") }
}

async fn ask(provider: &dyn Provider, request: &ConverseRequest) -> Result<ConverseResult, ProviderError> {
    provider.converse(request, &ConverseOptions::default()).await
}

async fn requests(server: &MockServer) -> Vec<Request> {
    server.received_requests().await.unwrap_or_default()
}

/// The body of the only request.
async fn body(server: &MockServer) -> Value {
    let requests = requests(server).await;
    assert_eq!(requests.len(), 1);
    serde_json::from_slice(&requests[0].body).expect("a body of JSON")
}

/// The body that a request becomes.
async fn sent(name: &str, request: &ConverseRequest) -> Value {
    let server = answering_json(minimal(name)).await;
    ask(&*provider(name, &server), request).await.expect("an answer");
    body(&server).await
}
