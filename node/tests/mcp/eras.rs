//! Both eras of the protocol on one pipe: who is answered how before and after a lifecycle is chosen.

use serde_json::{Value, json};

use crate::host::{Host, meta};
use crate::node::daemon_in;

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn host() -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::of(daemon_in(folder.path().join("nowhere")));
    (folder, host)
}

fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}})
}

#[tokio::test]
async fn discovery_tells_the_tested_versions_and_offers_tools_and_no_tasks() {
    let (_folder, mut host) = host();
    let result = host.request("server/discover", json!({})).await["result"].clone();
    let mut versions: Vec<_> = LEGACY.to_vec();
    versions.push("2026-07-28");
    assert_eq!(result["supportedVersions"], json!(versions));
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "mesh");
    assert!(
        result["ttlMs"].is_u64() && result["cacheScope"].is_string() && result["instructions"].is_string()
    );
}

#[tokio::test]
async fn every_handshake_version_is_echoed_and_others_get_the_newest() {
    let unknown = [("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")];
    for (asked, given) in LEGACY.map(|version| (version, version)).into_iter().chain(unknown) {
        let (_folder, mut host) = host();
        host.say(initialize(asked)).await;
        assert_eq!(host.hear().await["result"]["protocolVersion"], given);
        host.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        host.say(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
        let listed = host.hear().await["result"].clone();
        assert_eq!(listed["tools"].as_array().unwrap().len(), 9);
        assert!(
            ["resultType", "ttlMs", "cacheScope"].iter().all(|key| listed.get(key).is_none()),
            "{listed}"
        );
        host.say(json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).await;
        assert_eq!(host.hear().await["result"], json!({}));
    }
}

#[tokio::test]
async fn one_process_serves_both_eras_at_once() {
    let (_folder, mut host) = host();
    assert!(host.request("tools/list", json!({})).await["result"]["tools"].is_array());
    host.say(initialize("2025-06-18")).await;
    assert_eq!(host.hear().await["result"]["protocolVersion"], "2025-06-18");
    let modern = host.request("tools/list", json!({})).await;
    assert_eq!(modern["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_task_is_never_given_whatever_the_client_declares() {
    let (_folder, mut host) = host();
    let mut declaring = meta();
    declaring["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    host.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "whoami", "arguments": {}, "task": {"ttl": 1}, "_meta": declaring}}))
        .await;
    assert_eq!(host.hear().await["result"]["resultType"], "complete");
    assert_eq!(host.request("tasks/get", json!({"taskId": "x"})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn what_is_malformed_or_unknown_leaves_the_pipe_usable() {
    let (_folder, mut host) = host();
    host.say_line("this is not JSON").await;
    host.say_line("").await;
    host.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert_eq!(host.hear().await["error"]["code"], -32602, "a request without its metadata");
    let mut old = meta();
    old["io.modelcontextprotocol/protocolVersion"] = "1900-01-01".into();
    host.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": old}})).await;
    let answer = host.hear().await;
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["data"]["requested"]),
        (&json!(-32022), &json!("1900-01-01"))
    );
    assert_eq!(host.request("tasks/list", json!({})).await["error"]["code"], -32601);
    let unknown = host.request("tools/call", json!({"name": "format_disk", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(host.request("tools/list", json!({})).await["result"]["tools"].is_array());
}

#[tokio::test]
async fn a_cancelled_probe_does_not_end_the_session() {
    let (_folder, mut host) = host();
    host.cancel(99).await;
    let probe = host.begin("server/discover", json!({})).await;
    host.cancel(probe).await;
    assert_eq!(host.hear().await["id"], probe);
    assert!(host.request("tools/list", json!({})).await["result"]["tools"].is_array());
}
