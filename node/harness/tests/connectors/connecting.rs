//! Servers behind HTTP: tools are listed and called, a stop reaches the server, and what fails leaves nothing open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_harness::Secret;
use mesh_harness::connector::{
    ConnectorAuth, ConnectorConfig, ConnectorError, ConnectorKind, ConnectorOptions, connector_tools,
};
use mesh_harness::tool::ToolContext;
use serde_json::json;

use crate::servers::{Older, older_http, streamable_http};
use crate::{TOKEN, call, http, named, names, options, whole};

#[tokio::test]
async fn tools_of_all_pages_are_listed_and_called() {
    let (endpoint, told) = streamable_http().await;
    let tools = connector_tools(&[http("streamable_http", &endpoint)], &options()).await.unwrap();
    assert_eq!(names(&tools), ["notes__note", "notes__hang", "notes__fail"]);
    assert!(told.all().iter().any(|told| told.contains("client mesh-harness (notes)")), "{:?}", told.all());

    let context = ToolContext::default();
    let output = call(&named(&tools, "notes__note"), json!({"text": "é"}), &context).await.unwrap();
    assert!(!output.is_error);
    assert_eq!(output.structured.unwrap()["content"][0]["text"], "noted é");
    let seen: serde_json::Value = serde_json::from_str(&output.content).unwrap();
    assert_eq!(seen["content"][0]["text"], "noted é");

    let output = call(&named(&tools, "notes__fail"), json!({"text": "x"}), &context).await.unwrap();
    assert!(output.is_error && output.content.contains("noted x"));
    tools.close().await;
}

#[tokio::test]
async fn a_stop_reaches_the_server_and_is_not_waited_for() {
    let (endpoint, told) = streamable_http().await;
    let tools = connector_tools(&[http("streamable_http", &endpoint)], &options()).await.unwrap();
    let (context, hang) = (ToolContext::default(), named(&tools, "notes__hang"));
    let stopping = async {
        told.wait("hang").await;
        context.stop.cancel("enough");
        Instant::now()
    };
    let (ended, stopped) = tokio::join!(call(&hang, json!({}), &context), stopping);
    assert!(ended.unwrap_err().is_stop());
    assert!(stopped.elapsed() < Duration::from_secs(10));
    told.wait("cancelled").await;
    tools.close().await;
}

#[tokio::test]
async fn the_older_http_works_too() {
    let (endpoint, told) = older_http(Older::Plain).await;
    let tools = connector_tools(&[http("sse", &endpoint)], &options()).await.unwrap();
    assert_eq!(names(&tools), ["notes__note", "notes__hang", "notes__bare"]);
    let bare = named(&tools, "notes__bare");
    assert_eq!(bare.spec().description, "", "a description that is missing is empty");
    assert_eq!(bare.spec().input_schema, json!({"type": "object"}), "and a schema takes any object");

    let context = ToolContext::default();
    let output = call(&named(&tools, "notes__note"), json!({"text": "é"}), &context).await.unwrap();
    assert_eq!(output.structured.unwrap()["content"][0]["text"], "noted");
    assert!(told.all().iter().any(|told| told.contains(r#""text":"é""#)), "{:?}", told.all());

    let hang = named(&tools, "notes__hang");
    let stopping = async {
        told.wait(r#""name":"hang""#).await;
        context.stop.cancel("enough");
    };
    let (ended, ()) = tokio::join!(call(&hang, json!({}), &context), stopping);
    assert!(ended.unwrap_err().is_stop());
    told.wait("notifications/cancelled").await;
    tools.close().await;
}

#[tokio::test]
async fn an_older_server_cannot_have_credentials_sent_elsewhere() {
    let (endpoint, _told) = older_http(Older::Elsewhere).await;
    let error = connector_tools(&[http("sse", &endpoint)], &options()).await.unwrap_err();
    assert!(whole(&error).contains("another origin"), "{}", whole(&error));
}

#[tokio::test]
async fn a_server_that_dies_or_floods_in_the_middle_of_a_call_is_an_error() {
    for older in [Older::Dies, Older::Floods] {
        let (endpoint, _told) = older_http(older).await;
        let tools = connector_tools(&[http("sse", &endpoint)], &options()).await.unwrap();
        let hang = named(&tools, "notes__hang");
        let context = ToolContext::default();
        let calling = call(&hang, json!({}), &context);
        let ended = tokio::time::timeout(Duration::from_secs(20), calling).await.expect("it comes to an end");
        assert!(!ended.unwrap_err().is_stop());
        tools.close().await;
    }
}

#[tokio::test]
async fn a_server_that_is_gone_in_the_middle_of_a_call_is_an_error_over_streamable_http_too() {
    // A server with threads of its own, which can be gone at once with all its connections.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (endpoint, told) = runtime.spawn(streamable_http()).await.unwrap();
    let tools = connector_tools(&[http("streamable_http", &endpoint)], &options()).await.unwrap();
    let (context, hang) = (ToolContext::default(), named(&tools, "notes__hang"));
    let dying = async {
        told.wait("hang").await;
        runtime.shutdown_background();
    };
    let calling = async { tokio::join!(call(&hang, json!({}), &context), dying).0 };
    let ended = tokio::time::timeout(Duration::from_secs(20), calling).await.expect("it comes to an end");
    assert!(!ended.unwrap_err().is_stop());
    tools.close().await;
}

#[tokio::test]
async fn a_wrong_token_is_an_error_that_shows_none() {
    let (streamable, _told) = streamable_http().await;
    let (older, _told) = older_http(Older::Plain).await;
    for (transport, endpoint) in [("streamable_http", streamable), ("sse", older)] {
        let auth = ConnectorAuth::Bearer(Secret::from("wrong-canary"));
        let config = ConnectorConfig { auth, ..http(transport, &endpoint) };
        let error = connector_tools(&[config], &options()).await.unwrap_err();
        let text = whole(&error);
        assert!(text.contains("notes") && !text.contains("canary"), "{transport}: {text}");
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_an_error_that_names_the_connector() {
    let bare = ConnectorConfig { name: "notes".into(), ..ConnectorConfig::default() };
    let cases = [
        (ConnectorConfig { transport: "stdio".into(), ..bare.clone() }, "has no command"),
        (ConnectorConfig { transport: "sse".into(), ..bare.clone() }, "has no endpoint"),
        (ConnectorConfig { transport: "streamable_http".into(), ..bare.clone() }, "has no endpoint"),
        (ConnectorConfig { transport: "carrier pigeon".into(), ..bare.clone() }, "carrier pigeon"),
        (bare, "has the transport \"\""),
        (http("sse", "ftp://127.0.0.1/"), "not an http or https address"),
        (http("streamable_http", "http://127.0.0.1:1/"), "cannot connect"),
    ];
    for (config, problem) in cases {
        let text = whole(&connector_tools(&[config], &options()).await.unwrap_err());
        assert!(text.contains("notes") && text.contains(problem), "{text}");
        assert!(!text.contains(TOKEN), "{text}");
    }
}

#[tokio::test]
async fn tools_are_named_as_the_caller_likes_and_never_alike() {
    let (endpoint, _told) = streamable_http().await;
    let twice = [http("streamable_http", &endpoint), http("streamable_http", &endpoint)];
    let error = connector_tools(&twice, &options()).await.unwrap_err();
    assert!(matches!(&error, ConnectorError::Duplicate { name } if name == "notes__note"), "{error:?}");

    let naming = ConnectorOptions {
        tool_name: Some(Arc::new(|connector, tool| format!("{tool}@{connector}"))),
        ..options()
    };
    let tools = connector_tools(&twice[..1], &naming).await.unwrap();
    assert_eq!(names(&tools), ["note@notes", "hang@notes", "fail@notes"]);
    call(&named(&tools, "note@notes"), json!({}), &ToolContext::default()).await.unwrap();
    tools.close().await;
}

#[tokio::test]
async fn plain_http_connectors_bring_no_tools() {
    let config = ConnectorConfig { kind: ConnectorKind::Http, ..http("sse", "http://127.0.0.1:1/") };
    assert!(connector_tools(&[config], &options()).await.unwrap().tools.is_empty());
}

#[tokio::test]
async fn after_a_stop_nobody_is_connected_to() {
    let (endpoint, told) = streamable_http().await;
    let options = options();
    options.stop.cancel("before");
    let error = connector_tools(&[http("streamable_http", &endpoint)], &options).await.unwrap_err();
    assert!(matches!(error, ConnectorError::Stopped(_)));
    assert!(told.all().is_empty());
}
