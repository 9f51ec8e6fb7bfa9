//! The tools for code: results, waits, cancellation, policy, and submissions whose answer got lost.

use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_node::mcp::Policy;
use mesh_protocol::api::ask::CancelReply;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{AttestationView, JobView};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobResult, JobStatus, Language};
use serde_json::{Value, json};

use crate::host::Host;
use crate::node::{Node, Reply, job_id, job_receipt, node_id, ok, refused, running_job};

fn code() -> Value {
    json!({"language": "python", "code": "print(1)"})
}

fn ended(status: JobStatus, exit_code: Option<i32>, killed_by: Option<&str>) -> JobView {
    let result = JobResult {
        status,
        exit_code,
        killed_by: killed_by.map(str::to_owned),
        stdout: "1\n".into(),
        stderr: String::new(),
        truncated: false,
        duration_ms: 12,
        isolation: Some(IsolationClass::GvisorApplicationKernel),
        may_have_run: true,
        violations: Vec::new(),
        artifacts: Vec::new(),
    };
    let attestation =
        AttestationView::Verified { signer: node_id(), key_id: "k1".into(), event_chain_complete: true };
    JobView { status, terminal: true, result: Some(result), attestation, ..running_job() }
}

fn executor(view: JobView) -> Node {
    Node::with(move |asked| if asked.is("POST", "/v1/jobs") { ok(job_receipt()) } else { ok(view.clone()) })
}

/// Keys under which jobs were submitted, in order.
fn keys(node: &Node) -> Vec<String> {
    let submitted = node.asked().into_iter().filter(|asked| asked.is("POST", "/v1/jobs"));
    submitted.map(|asked| asked.body["idempotency_key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_job_that_ended_badly_is_a_result_and_not_an_error() {
    let cases = [
        (JobStatus::Succeeded, Some(0), None),
        (JobStatus::Failed, Some(3), None),
        (JobStatus::TimedOut, None, Some("wall")),
        (JobStatus::OomKilled, None, Some("memory")),
        (JobStatus::Error, None, Some("server_restarted")),
    ];
    for (status, exit_code, killed_by) in cases {
        let node = executor(ended(status, exit_code, killed_by));
        let report = Host::of(node.daemon()).report("run_code", code()).await;
        assert_eq!((&report["complete"], &report["status"]), (&json!(true), &json!(status.name())));
        assert_eq!(report["result"].get("exit_code").and_then(Value::as_i64), exit_code.map(i64::from));
        assert_eq!(report["result"].get("killed_by").and_then(Value::as_str), killed_by);
    }
}

#[tokio::test]
async fn evidence_is_described_as_the_node_describes_it_and_never_embedded() {
    let node = executor(ended(JobStatus::Succeeded, Some(0), None));
    let report = Host::of(node.daemon()).report("rookhold_job_result", json!({"job_id": job_id()})).await;
    let expected =
        json!({"state": "verified", "signer": node_id(), "key_id": "k1", "event_chain_complete": true});
    assert_eq!(report["attestation"], expected);
    let unverified = AttestationView::Unverified { reason: "wrong key".into() };
    let node = executor(JobView { attestation: unverified, ..ended(JobStatus::Succeeded, Some(0), None) });
    let report = Host::of(node.daemon()).report("run_code", code()).await;
    assert_eq!(report["attestation"], json!({"state": "unverified", "reason": "wrong key"}));
}

#[tokio::test]
async fn a_job_that_takes_longer_gives_its_id_and_the_next_call() {
    let node = executor(running_job());
    let mut host = Host::of(node.daemon());
    let pending = host.report("rookhold_run_code", code()).await;
    assert_eq!((&pending["complete"], &pending["job_id"]), (&json!(false), &json!(job_id())));
    assert!(pending.get("attestation").is_none());
    assert_eq!(pending["next"]["tool"], "job_result");
    let again = host.report("job_result", pending["next"]["arguments"].clone()).await;
    assert_eq!(again["complete"], false);
    assert!(node.asked()[1].target.ends_with("wait_seconds=60"));
}

#[tokio::test]
async fn an_accepted_job_whose_wait_breaks_still_gives_its_id() {
    let node = Node::with(|asked| if asked.method == "POST" { ok(job_receipt()) } else { Reply::HangUp });
    let broken = Host::of(node.daemon()).report("run_code", code()).await;
    assert_eq!((&broken["complete"], &broken["job_id"]), (&json!(false), &json!(job_id())));
    assert!(broken["note"].as_str().unwrap().contains("cut short"));
}

#[tokio::test]
async fn cancelling_the_call_cancels_the_job() {
    let mut node = Node::with(|asked| match asked.method.as_str() {
        "POST" => ok(job_receipt()),
        "DELETE" => ok(CancelReply { state: "cancelled".into(), already_terminal: false, on_its_way: true }),
        _ => Reply::Silence,
    });
    let mut host = Host::of(node.daemon());
    let id = host.begin_call("run_code", code()).await;
    node.was_asked(2).await;
    host.cancel(id).await;
    node.was_asked(3).await;
    assert!(node.asked()[2].is("DELETE", &format!("/v1/jobs/{}", job_id())));
    let report = host.report("cancel_job", json!({"job_id": job_id()})).await;
    assert_eq!(report["on_its_way"], true, "and nothing was said about the cancelled call before");
}

#[tokio::test]
async fn the_operators_policy_goes_with_every_job() {
    let policy = Policy {
        minimum_isolation: IsolationClass::LinuxSharedKernel,
        allowed_languages: [Language::Python].into(),
        executor: Some("atlas".into()),
    };
    let node = executor(running_job());
    let mut host = Host::with_policy(node.daemon(), policy);
    host.report("run_code", code()).await;
    let body = node.asked()[0].body.clone();
    assert_eq!(
        (&body["on"], &body["spec"]["requirements"]["minimum_isolation"]),
        (&json!("atlas"), &json!("linux-shared-kernel"))
    );
    let error = host.refusal("run_code", json!({"language": "bash", "code": "true"})).await;
    assert_eq!(error["code"], "language_not_allowed");
    assert_eq!(node.asked().len(), 2, "nothing was asked of the node for it");
}

#[tokio::test]
async fn one_lost_answer_is_repeated_under_its_key() {
    let lost = AtomicUsize::new(0);
    let node = Node::with(move |asked| match asked.method.as_str() {
        "POST" if lost.fetch_add(1, Ordering::Relaxed) == 0 => Reply::HangUp,
        "POST" => ok(job_receipt()),
        _ => ok(running_job()),
    });
    Host::of(node.daemon()).report("run_code", code()).await;
    let keys = keys(&node);
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn two_lost_answers_leave_the_key_to_the_next_matching_call_alone() {
    let lost = AtomicUsize::new(0);
    let node = Node::with(move |asked| match asked.method.as_str() {
        "POST" if lost.fetch_add(1, Ordering::Relaxed) < 2 => Reply::HangUp,
        "POST" => ok(job_receipt()),
        _ => ok(running_job()),
    });
    let mut host = Host::of(node.daemon());
    let error = host.refusal("run_code", code()).await;
    assert_eq!(error["code"], "submission_unresolved");
    assert!(error["hints"][0].as_str().unwrap().contains("same arguments"), "{error}");
    let mut other = code();
    other["stdin"] = json!("x");
    host.report("run_code", other).await;
    // How long to wait is no part of what was submitted, and a default that is written out is the same job.
    let mut same = code();
    same["wait_seconds"] = json!(0);
    same["limits"] = json!({"mem_mb": 256});
    host.report("run_code", same).await;
    host.report("run_code", code()).await;
    let keys = keys(&node);
    let [first, repeated, other, reconciled, fresh] = keys.as_slice() else { panic!("{keys:?}") };
    assert_eq!((first, first), (repeated, reconciled));
    assert!(other != first && fresh != first && fresh != other);
}

#[tokio::test]
async fn a_refusal_is_not_repeated_and_keeps_no_key() {
    let node =
        Node::with(|_| refused(403, ApiError::new(ErrorKind::Refused, "operator_only", "no jobs for you")));
    let mut host = Host::of(node.daemon());
    for _ in 0..2 {
        assert_eq!(host.refusal("run_code", code()).await["code"], "operator_only");
    }
    let keys = keys(&node);
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
}
