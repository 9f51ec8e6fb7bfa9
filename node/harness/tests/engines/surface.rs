//! The capability surface, as a client of the protocol sees it.

use std::time::Duration;

use mesh_harness::Secret;
use mesh_harness::capability::{CapabilityScope, CapabilityServer, write_file};
use mesh_harness::connector::{ConnectorAuth, ConnectorConfig, ConnectorOptions, connector_tools};
use mesh_harness::limits::SURFACE_SESSIONS;
use mesh_harness::message::JsonObject;
use mesh_harness::tool::ToolContext;
use serde_json::{Value, json};

use crate::stage::note;

fn config(server: &CapabilityServer, token: &str) -> ConnectorConfig {
    ConnectorConfig {
        name: "runcaps".into(),
        transport: "streamable_http".into(),
        endpoint: Some(server.url()),
        auth: ConnectorAuth::Bearer(Secret::from(token)),
        ..ConnectorConfig::default()
    }
}

#[tokio::test]
async fn capabilities_are_listed_and_called_by_who_shows_the_token() {
    let workdir = tempfile::tempdir().unwrap();
    let scope = CapabilityScope { workspace_id: "w".into(), workdir: workdir.path().to_owned() };
    let server = CapabilityServer::start(vec![note(), write_file(&scope)]).await.unwrap();
    assert!(!server.was_contacted());
    for wrong in ["", "wrong", &server.token().expose()[1..]] {
        assert!(connector_tools(&[config(&server, wrong)], &ConnectorOptions::default()).await.is_err());
    }
    assert!(!server.was_contacted(), "only who shows the token counts");

    let tools = connector_tools(&[config(&server, server.token().expose())], &ConnectorOptions::default())
        .await
        .unwrap();
    assert!(server.was_contacted());
    let call = async |name: &str, input: Value| {
        let tool = tools.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let Value::Object(input) = input else { panic!() };
        tool.execute(JsonObject::from(input), &ToolContext::default()).await.unwrap()
    };
    let noted = call("runcaps__note", json!({"text": "é"})).await;
    assert!(!noted.is_error && noted.content.contains("noted") && noted.content.contains('é'));
    let written = call("runcaps__write_file", json!({"path": "a/b", "content": "x"})).await;
    assert!(!written.is_error);
    assert_eq!(std::fs::read_to_string(workdir.path().join("a/b")).unwrap(), "x");
    let denied = call("runcaps__write_file", json!({"path": "../b", "content": "x"})).await;
    assert!(denied.is_error);
    let body: Value =
        serde_json::from_str(denied.structured.unwrap()["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(body["ok"], false);
    assert!(!format!("{server:?}").contains(server.token().expose()));
    tools.close().await;
}

#[tokio::test]
async fn a_surface_without_tools_serves_none_and_a_closed_one_nobody() {
    let server = CapabilityServer::start(Vec::new()).await.unwrap();
    let config = config(&server, server.token().expose());
    let tools = connector_tools(std::slice::from_ref(&config), &ConnectorOptions::default()).await.unwrap();
    assert!(tools.tools.is_empty() && server.was_contacted());
    drop(server);
    assert!(connector_tools(&[config], &ConnectorOptions::default()).await.is_err());
    tools.close().await;
}

#[tokio::test]
async fn conversations_about_capabilities_are_bounded_and_one_that_ends_makes_room() {
    let server = CapabilityServer::start(vec![note()]).await.unwrap();
    let config = [config(&server, server.token().expose())];
    let options = ConnectorOptions::default();
    let mut open = Vec::new();
    while let Ok(tools) = connector_tools(&config, &options).await {
        open.push(tools);
        assert!(open.len() <= SURFACE_SESSIONS, "there is no bound");
    }
    assert_eq!(open.len(), SURFACE_SESSIONS);
    open.pop().unwrap().close().await;
    let again = async { while connector_tools(&config, &options).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(30), again).await.expect("there is room again");
}

#[tokio::test]
async fn every_surface_has_a_token_of_its_own_on_loopback() {
    let (one, other) = (
        CapabilityServer::start(Vec::new()).await.unwrap(),
        CapabilityServer::start(Vec::new()).await.unwrap(),
    );
    assert_ne!(one.token(), other.token());
    assert_eq!(one.token().expose().len(), 64);
    assert!(one.url().starts_with("http://127.0.0.1:"));
    assert!(
        connector_tools(&[config(&one, other.token().expose())], &ConnectorOptions::default()).await.is_err()
    );
}
