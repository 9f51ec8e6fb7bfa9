//! A host: starts the adapter on in-memory pipes and speaks the 2026-07-28 revision unless a test writes its own lines.

use std::time::Duration;

use mesh_node::mcp::{Daemon, Options, Policy, ServeError, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes; reached only when something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Host {
    input: DuplexStream,
    output: BufReader<DuplexStream>,
    served: JoinHandle<Result<(), ServeError>>,
    pub(crate) leave: CancellationToken,
    next_id: u64,
}

/// What a modern request carries.
pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

impl Host {
    pub(crate) fn of(daemon: Daemon) -> Self {
        Self::with_policy(daemon, Policy::default())
    }

    pub(crate) fn with_policy(daemon: Daemon, policy: Policy) -> Self {
        let (input, reader) = tokio::io::duplex(1 << 20);
        let (writer, output) = tokio::io::duplex(1 << 20);
        let leave = CancellationToken::new();
        let served = tokio::spawn(serve(Options { daemon, policy }, reader, writer, leave.clone()));
        Self { input, output: BufReader::new(output), served, leave, next_id: 1 }
    }

    pub(crate) async fn say_line(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.say_line(&message.to_string()).await;
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let mut line = String::new();
        timeout(PATIENCE, self.output.read_line(&mut line)).await.expect("an answer").unwrap();
        serde_json::from_str(&line).expect("one JSON document a line")
    }

    /// Sends a request without waiting for its answer, and tells its id.
    pub(crate) async fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        params["_meta"] = meta();
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The whole answer to a request.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        let answer = self.hear().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) async fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// The result of a tool call.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        answer["result"].clone()
    }

    /// The document of a call that worked, which must be the same as structure and as text.
    pub(crate) async fn report(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        report(&result)
    }

    /// The error of a call that was refused.
    pub(crate) async fn refusal(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        refusal(&result)
    }

    pub(crate) async fn cancel(&mut self, id: u64) {
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
            .await;
    }

    /// Closes the adapter's input and gives what it still says, and how it ended.
    pub(crate) async fn hang_up(self) -> (Vec<Value>, Result<(), ServeError>) {
        drop(self.input);
        rest(self.output, self.served).await
    }

    /// Tells the process to leave, its input still open.
    pub(crate) async fn terminate(self) -> (Vec<Value>, Result<(), ServeError>) {
        self.leave.cancel();
        let _open = self.input;
        rest(self.output, self.served).await
    }
}

async fn rest(
    output: BufReader<DuplexStream>,
    served: JoinHandle<Result<(), ServeError>>,
) -> (Vec<Value>, Result<(), ServeError>) {
    let ended = timeout(PATIENCE, served).await.expect("the adapter leaves").unwrap();
    let mut lines = output.lines();
    let mut said = Vec::new();
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.expect("the pipe closes").unwrap() {
        said.push(serde_json::from_str(&line).unwrap());
    }
    (said, ended)
}

pub(crate) fn report(result: &Value) -> Value {
    assert_eq!(result["isError"], false, "{result}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    text
}

pub(crate) fn refusal(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    assert!(result.get("structuredContent").is_none());
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    text["error"].clone()
}
