//! Start, lines and end of the process itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ADAPTER;
use crate::scripted_node::ScriptedNode;

/// How long a host waits for a server to leave.
const A_SECOND: Duration = Duration::from_secs(1);

struct Adapter {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

fn modern(id: u64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

impl Adapter {
    fn start(home: &std::path::Path, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(ADAPTER[0])
            .args(&ADAPTER[1..])
            .env_clear()
            .env("MESH_HOME", home)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn say(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// What it still said, what it wrote to standard error, whether it was content, and how long it took to leave.
    fn leave(mut self) -> (String, String, bool, Duration) {
        drop(self.input.take());
        self.left()
    }

    fn left(mut self) -> (String, String, bool, Duration) {
        let began = Instant::now();
        let (mut said, mut complaint) = (String::new(), String::new());
        self.output.read_to_string(&mut said).unwrap();
        let success = self.child.wait().unwrap().success();
        let took = began.elapsed();
        self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        (said, complaint, success, took)
    }
}

/// The best of five: a busy machine delays some, and speeds none up.
fn best_of_five(take: impl FnMut(usize) -> Duration) -> Duration {
    (0..5).map(take).min().unwrap()
}

#[test]
fn a_host_that_leaves_without_a_word_gets_a_quiet_zero() {
    let folder = tempfile::tempdir().unwrap();
    let best = best_of_five(|_| {
        let (said, complaint, success, took) = Adapter::start(folder.path(), &[]).leave();
        assert!(said.is_empty() && complaint.is_empty() && success, "{complaint}");
        took
    });
    assert!(best < A_SECOND, "{best:?}");
}

#[test]
fn what_is_no_message_is_passed_over_and_only_json_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut adapter = Adapter::start(folder.path(), &[]);
    adapter.say(b"\xef\xbb\xbf");
    adapter.say(b"\xff\xfe\x00 not a line of text");
    adapter.say(b"{\"jsonrpc\":");
    adapter.say(format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"x\":\"{}\"}}", "x".repeat(17 << 20)).as_bytes());
    adapter.say(format!("{}\r", modern(1, "tools/list", json!({}))).as_bytes());
    let mut answer = adapter.hear();
    while answer["id"] != 1 {
        assert!(answer["error"].is_object(), "{answer}");
        answer = adapter.hear();
    }
    assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 9);
    let (_, _, success, _) = adapter.leave();
    assert!(success);
}

#[test]
fn it_leaves_within_a_second_of_end_of_input_or_sigterm_and_stops_the_job() {
    let takes = |by_signal: bool| {
        let folder = tempfile::tempdir().unwrap();
        let node = ScriptedNode::start(folder.path());
        let mut adapter = Adapter::start(folder.path(), &[]);
        let run = json!({"name": "run_code", "arguments": {"language": "python", "code": "sleep"}});
        adapter.say(modern(1, "tools/call", run).as_bytes());
        node.was_given_a_job();
        let (_, complaint, success, took) = if by_signal {
            let pid = rustix::process::Pid::from_child(&adapter.child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            adapter.left()
        } else {
            adapter.leave()
        };
        assert!(success, "{complaint}");
        assert_eq!(node.unfinished_jobs(), 0);
        took
    };
    for by_signal in [false, true] {
        let best = best_of_five(|_| takes(by_signal));
        assert!(best < A_SECOND, "{best:?}");
    }
}

#[test]
fn contradicting_settings_end_the_start_and_name_both_variables() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("MESH_MCP_EXECUTOR", "first-value"), ("ROOKHOLD_MCP_EXECUTOR", "second-value")];
    let (said, complaint, success, _) = Adapter::start(folder.path(), &variables).leave();
    assert!(!success && said.is_empty());
    assert!(
        complaint.contains("MESH_MCP_EXECUTOR") && complaint.contains("ROOKHOLD_MCP_EXECUTOR"),
        "{complaint}"
    );
    assert!(!complaint.contains("first-value") && !complaint.contains("second-value"), "{complaint}");
}

#[test]
fn the_list_comes_within_300_ms_of_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let took = |_| {
        let began = Instant::now();
        let mut adapter = Adapter::start(folder.path(), &[]);
        adapter.say(modern(1, "tools/list", json!({})).as_bytes());
        adapter.hear();
        let took = began.elapsed();
        adapter.leave();
        took
    };
    let best = best_of_five(took);
    assert!(best < Duration::from_millis(300), "{best:?}");
}
