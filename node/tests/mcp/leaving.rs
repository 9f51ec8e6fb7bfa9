//! The end of the adapter: with the host, within a second, and quietly.

use std::time::{Duration, Instant};

use mesh_protocol::api::ask::CancelReply;
use serde_json::json;

use crate::host::{Host, meta};
use crate::node::{Node, Reply, daemon_in, job_receipt, ok};

const A_SECOND: Duration = Duration::from_secs(1);

/// A node on which every job runs for ever.
fn endless() -> Node {
    Node::with(|asked| match asked.method.as_str() {
        "POST" => ok(job_receipt()),
        "DELETE" => ok(CancelReply { state: "cancelled".into(), already_terminal: false, on_its_way: false }),
        _ => Reply::Silence,
    })
}

#[tokio::test]
async fn a_host_that_leaves_without_a_word_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let (said, ended) = Host::of(daemon_in(folder.path().to_owned())).hang_up().await;
    assert!(said.is_empty());
    ended.unwrap();
}

#[tokio::test]
async fn a_host_that_leaves_after_nothing_but_refusals_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::of(daemon_in(folder.path().to_owned()));
    host.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let (said, ended) = host.hang_up().await;
    assert_eq!(said[0]["error"]["code"], -32602);
    ended.unwrap();
}

#[tokio::test]
async fn what_was_asked_before_the_input_closed_is_still_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::of(daemon_in(folder.path().to_owned()));
    host.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}})).await;
    let (said, ended) = host.hang_up().await;
    assert_eq!(said[0]["id"], 1);
    ended.unwrap();
}

#[tokio::test]
async fn the_adapter_leaves_within_a_second_and_stops_the_job_nobody_waits_for() {
    for by_signal in [false, true] {
        // The best of five: a busy machine delays some, and speeds none up.
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let mut node = endless();
            let mut host = Host::of(node.daemon());
            host.begin_call("run_code", json!({"language": "bash", "code": "sleep 1000"})).await;
            node.was_asked(2).await;
            let began = Instant::now();
            let (_, ended) = if by_signal { host.terminate().await } else { host.hang_up().await };
            best = best.min(began.elapsed());
            ended.unwrap();
            assert_eq!(node.asked().last().unwrap().method, "DELETE");
        }
        assert!(best < A_SECOND, "{best:?}");
    }
}
