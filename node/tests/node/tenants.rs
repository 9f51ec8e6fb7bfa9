//! What tenants of one node get beside each other, and what they are told when it stops. Jobs in gVisor.
//!
//! Where gVisor is not installed they are skipped, and say so.

use std::time::Duration;

use mesh_protocol::api::ask::AskCommand;
use mesh_protocol::flight::FlightState;
use serde_json::{Value, json};

use crate::http::Server;

/// A job that is there until it is stopped.
fn endless(mem_mb: u32) -> Value {
    json!({"language": "bash", "code": "sleep 300", "limits": {"mem_mb": mem_mb, "wall_seconds": 300}})
}

fn short(mem_mb: u32) -> Value {
    json!({"language": "bash", "code": "true", "limits": {"mem_mb": mem_mb}})
}

impl Server {
    async fn begun(&self, tenant: &str, place: &str) {
        while self.get(tenant, place).await.json()["status"] != json!("running") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(&self, tenant: &str, place: &str) {
        assert_eq!(self.send(tenant, &format!("DELETE {place}"), "", "").await.status, 200);
    }

    /// When a job that has ended was started, as its receipt says.
    async fn started_at(&self, tenant: &str, place: &str) -> u64 {
        let detail = self.attested(tenant, place).await;
        assert_eq!(detail["status"], json!("succeeded"), "{detail}");
        detail["receipt"]["started_at_ms"].as_u64().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_take_turns_however_many_jobs_one_of_them_has_waiting() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = Server::running_with(root.path(), "[executor]\nslots = 1\n").await else { return };
    let first = server.accepted("acme", &endless(64)).await;
    server.begun("acme", &first).await;
    let mut waiting = Vec::new();
    for tenant in ["acme", "acme", "acme", "umbrella", "umbrella"] {
        waiting.push((tenant, server.accepted(tenant, &short(64)).await));
    }
    server.stop("acme", &first).await;
    let mut order = Vec::new();
    for (tenant, place) in waiting {
        order.push((server.started_at(tenant, &place).await, tenant));
    }
    order.sort_by_key(|(at, _)| *at);
    let order: Vec<&str> = order.into_iter().map(|(_, tenant)| tenant).collect();
    assert_eq!(order, ["acme", "umbrella", "acme", "umbrella", "acme"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_needs_much_memory_is_passed_by_no_small_one_that_came_later() {
    let root = tempfile::tempdir().unwrap();
    let executor = "[executor]\nslots = 4\ntenant_concurrency = 4\nmemory_budget_mb = 550\n";
    let Some(server) = Server::running_with(root.path(), executor).await else { return };
    let first = server.accepted("acme", &endless(400)).await;
    server.begun("acme", &first).await;
    let large = server.accepted("umbrella", &short(512)).await;
    let small = [server.accepted("acme", &short(64)).await, server.accepted("umbrella", &short(64)).await];
    // There are slots for all of them, and memory for the small ones; later for the large one alone.
    let paths = small.each_ref().map(|place| format!("{place}/result?wait_seconds=1"));
    let (one, other) = tokio::join!(server.get("acme", &paths[0]), server.get("umbrella", &paths[1]));
    for waited in [one, other] {
        assert_eq!((waited.status, &waited.json()["status"]), (202, &json!("queued")));
    }
    server.stop("acme", &first).await;
    let large = server.started_at("umbrella", &large).await;
    assert!(large < server.started_at("acme", &small[0]).await);
    assert!(large < server.started_at("umbrella", &small[1]).await);
}

/// An agent that takes its time to end, and with it the node's end.
const STUBBORN: &str = "[[agent]]\nname = \"stubborn\"\ncommand = [\"/bin/sh\", \"-c\", \"trap '' TERM; while :; do \
                        sleep 1; done\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_repeats_what_it_took_in_and_takes_in_nothing_new() {
    let root = tempfile::tempdir().unwrap();
    let executor = format!("[executor]\nslots = 1\n{STUBBORN}");
    let Some(server) = Server::running_with(root.path(), &executor).await else { return };
    let job = short(64);
    let taken = server.submit("acme", "taken", &job).await;
    let place = taken.header("location").unwrap().to_owned();
    server.attested("acme", &place).await;
    let to = "@stubborn".to_owned();
    let ask = AskCommand { to, task: "stay".into(), request_id: None, deadline_seconds: None };
    let flight = server.node.client.ask(&ask).await.unwrap().flight_id.unwrap().to_string();
    while server.node.client.flight(&flight, 0).await.unwrap().state != FlightState::Running {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.node.client.shutdown().await.unwrap();
    while server.get("acme", "/readyz").await.code() != (503, json!("shutting_down")) {}
    let none = json!({"language": "cobol", "code": "1"});
    let kept = format!("{place}/result");
    let (again, new, other, no_job, result) = tokio::join!(
        server.submit("acme", "taken", &job),
        server.submit("acme", "new", &job),
        server.submit("acme", "taken", &none),
        server.submit("acme", "new", &none),
        server.get("acme", &kept),
    );
    assert_eq!((again.status, again.header("location")), (201, Some(place.as_str())));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json()["status"], json!("succeeded"));
    for refused in [new, no_job] {
        assert_eq!(refused.code(), (503, json!("shutting_down")));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(other.code(), (422, json!("idempotency_key_reused")));
    assert_eq!(result.status, 200, "what is kept can still be read");
}
