//! A server that is a program: what it is given, and that it is gone when its connection is.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mesh_harness::Secret;
use mesh_harness::connector::{
    ConnectorAuth, ConnectorConfig, ConnectorError, ConnectorOptions, connector_tools,
};
use mesh_harness::host::HostEnv;
use mesh_harness::log::Log;
use mesh_harness::tool::ToolContext;
use serde_json::json;

use crate::{TOKEN, call, http, named, names, options, whole};

/// A server in a few lines of shell. It notes its number and its environment, answers three methods, and starts a
/// process beside it. What it reads is noted too.
const SERVER: &str = r#"
echo $$ > pids; sleep 600 & echo $! >> pids
env > env; echo "started with $MCP_AUTH_TOKEN" >&2
while read -r line; do
  printf '%s\n' "$line" >> read
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"note","description":"d","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"die"'*) exit 1 ;;
    *'"name":"hang"'*) continue ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"noted"}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn program(place: &Path) -> ConnectorConfig {
    let script = format!("cd '{}'; {SERVER}", place.display());
    ConnectorConfig {
        name: "notes".into(),
        transport: "stdio".into(),
        command: Some("/bin/sh".into()),
        args: vec!["-c".into(), script],
        env: [("OWN".to_owned(), Secret::from("own-canary"))].into(),
        auth: ConnectorAuth::Bearer(Secret::from(TOKEN)),
        ..ConnectorConfig::default()
    }
}

fn read(place: &Path, file: &str) -> String {
    std::fs::read_to_string(place.join(file)).unwrap_or_default()
}

/// Waits until both processes of the server are gone.
async fn gone(place: &Path) {
    let pids = read(place, "pids");
    assert_eq!(pids.lines().count(), 2, "{pids}");
    let is_alive = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while pids.lines().any(is_alive) {
        assert!(Instant::now() < deadline, "{pids} live on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn its_tools_work_and_closing_ends_its_whole_group() {
    let place = tempfile::tempdir().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let host = HostEnv::fixed([("PATH", std::env::var("PATH").unwrap()), ("AWS_SECRET", "canary".into())]);
    let log = Log::new(move |line| kept.lock().unwrap().push(line.to_owned()));
    let options = ConnectorOptions { host, log, ..ConnectorOptions::default() };
    let tools = connector_tools(&[program(place.path())], &options).await.unwrap();
    assert_eq!(names(&tools), ["notes__note", "notes__hang", "notes__die"]);
    let output =
        call(&named(&tools, "notes__note"), json!({"text": "é"}), &ToolContext::default()).await.unwrap();
    assert_eq!(output.structured.unwrap()["content"][0]["text"], "noted");
    assert!(read(place.path(), "read").contains(r#""arguments":{"text":"é"}"#));

    let env = read(place.path(), "env");
    assert!(env.contains(&format!("MCP_AUTH_TOKEN={TOKEN}\n")) && env.contains("OWN=own-canary\n"), "{env}");
    assert!(!env.contains("AWS"), "{env}");
    assert!(
        !std::fs::read(format!("/proc/{}/cmdline", read(place.path(), "pids").lines().next().unwrap()))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("canary"))
    );

    tools.close().await;
    gone(place.path()).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while lines.lock().unwrap().is_empty() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*lines.lock().unwrap(), ["the connector notes wrote: started with [redacted]"]);
}

#[tokio::test]
async fn a_stop_reaches_it() {
    let place = tempfile::tempdir().unwrap();
    let tools = connector_tools(&[program(place.path())], &options()).await.unwrap();
    let (context, hang) = (ToolContext::default(), named(&tools, "notes__hang"));
    let until = async |what: &str| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !read(place.path(), "read").contains(what) {
            assert!(Instant::now() < deadline, "{what} does not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stopping = async {
        until(r#""name":"hang""#).await;
        context.stop.cancel("enough");
    };
    let (ended, ()) = tokio::join!(call(&hang, json!({}), &context), stopping);
    assert!(ended.unwrap_err().is_stop());
    until("notifications/cancelled").await;
    tools.close().await;
    gone(place.path()).await;
}

#[tokio::test]
async fn its_death_in_the_middle_of_a_call_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let tools = connector_tools(&[program(place.path())], &options()).await.unwrap();
    let (context, die) = (ToolContext::default(), named(&tools, "notes__die"));
    let calling = call(&die, json!({}), &context);
    let ended = tokio::time::timeout(Duration::from_secs(10), calling).await.expect("it comes to an end");
    assert!(!ended.unwrap_err().is_stop());
    tools.close().await;
    gone(place.path()).await;
}

#[tokio::test]
async fn when_a_later_one_fails_the_earlier_ones_are_closed() {
    let place = tempfile::tempdir().unwrap();
    let broken = ConnectorConfig { name: "broken".into(), ..http("streamable_http", "http://127.0.0.1:1/") };
    let error = connector_tools(&[program(place.path()), broken], &options()).await.unwrap_err();
    assert!(whole(&error).contains("broken"), "{error:?}");
    gone(place.path()).await;
}

#[tokio::test]
async fn a_stop_while_a_later_one_connects_closes_the_earlier_ones() {
    let place = tempfile::tempdir().unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stalled = ConnectorConfig {
        name: "stalled".into(),
        ..http("streamable_http", &format!("http://{}/", silent.local_addr().unwrap()))
    };
    let options = options();
    let connectors = [program(place.path()), stalled];
    let connecting = connector_tools(&connectors, &options);
    let stopping = async {
        let _held = silent.accept().await.unwrap();
        options.stop.cancel("enough");
        Instant::now()
    };
    let (ended, stopped) = tokio::join!(connecting, stopping);
    assert!(matches!(ended.unwrap_err(), ConnectorError::Stopped(_)));
    assert!(stopped.elapsed() < Duration::from_secs(5));
    gone(place.path()).await;
}

#[tokio::test]
async fn a_program_that_is_no_server_is_an_error_and_gone() {
    for (script, place) in
        [("echo hello", tempfile::tempdir().unwrap()), ("exec true", tempfile::tempdir().unwrap())]
    {
        let config = ConnectorConfig { args: vec!["-c".into(), script.into()], ..program(place.path()) };
        let error = connector_tools(&[config], &options()).await.unwrap_err();
        assert!(whole(&error).contains("notes") && !whole(&error).contains("canary"), "{error:?}");
    }
    let config = ConnectorConfig { command: Some("no-such-program".into()), ..program(Path::new("/")) };
    let error = connector_tools(&[config], &options()).await.unwrap_err();
    assert!(whole(&error).contains("notes"), "{error:?}");
}

#[tokio::test]
async fn dropped_tools_leave_no_process() {
    let place = tempfile::tempdir().unwrap();
    drop(connector_tools(&[program(place.path())], &options()).await.unwrap());
    gone(place.path()).await;
}
