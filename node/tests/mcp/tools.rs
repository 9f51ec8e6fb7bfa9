//! The tools for agents: what is listed, what is refused, what an ask comes to.

use std::collections::BTreeSet;

use mesh_node::mcp::limits::{SHOWN_BYTES_MAX, WAITS_MAX};
use mesh_protocol::api::ask::{FlightView, Held, Receipt};
use mesh_protocol::api::error::{ApiError, Candidate, ErrorKind};
use mesh_protocol::flight::{FailureCode, FlightOutcome, FlightState};
use serde_json::{Value, json};

use crate::host::{Host, refusal, report};
use crate::node::{Node, Reply, daemon_in, flight_id, ok, receipt, refused, running_flight};

/// A node whose agent answers a flight with `view`.
fn broker(view: FlightView) -> Node {
    Node::with(move |asked| if asked.is("POST", "/v1/asks") { ok(receipt()) } else { ok(view.clone()) })
}

fn ended(outcome: FlightOutcome) -> FlightView {
    FlightView { state: outcome.state(), terminal: true, outcome: Some(outcome), ..running_flight() }
}

/// Every schema inside a schema.
fn schemas<'a>(schema: &'a Value, found: &mut Vec<&'a serde_json::Map<String, Value>>) {
    let Value::Object(members) = schema else { return };
    found.push(members);
    if let Some(properties) = members.get("properties").and_then(Value::as_object) {
        properties.values().for_each(|schema| schemas(schema, found));
    }
    for key in ["items", "additionalProperties", "anyOf", "oneOf", "allOf"] {
        match members.get(key) {
            Some(Value::Array(several)) => several.iter().for_each(|schema| schemas(schema, found)),
            Some(schema) => schemas(schema, found),
            None => {}
        }
    }
}

#[tokio::test]
async fn the_list_is_the_same_every_time_and_every_tool_is_fully_described() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::of(daemon_in(folder.path().to_owned()));
    let tools = host.request("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(tools, host.request("tools/list", json!({})).await["result"]["tools"]);
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "whoami",
            "agents_resolve",
            "messages_send",
            "ask",
            "invocations_get",
            "invocations_wait",
            "run_code",
            "job_result",
            "cancel_job"
        ]
    );
    for tool in tools.as_array().unwrap() {
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{tool}");
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        let mut found = Vec::new();
        for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
            assert_eq!(schema["type"], "object", "{schema}");
            schemas(schema, &mut found);
        }
        for schema in found {
            assert!(
                ["format", "$schema", "$ref", "$defs"].iter().all(|key| !schema.contains_key(*key)),
                "{schema:?}"
            );
            assert!(!schema.get("type").is_some_and(Value::is_array), "{schema:?}");
        }
    }
}

#[tokio::test]
async fn without_a_node_a_call_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::of(daemon_in(folder.path().join("nowhere")));
    let error = host.refusal("whoami", json!({})).await;
    assert_eq!(error["code"], "no_home");
    assert!(error["hints"][0].as_str().unwrap().contains("mesh-cli init"), "{error}");
    let mut host = Host::of(daemon_in(folder.path().to_owned()));
    let error = host.refusal("invocations_get", json!({"flight_id": flight_id()})).await;
    assert_eq!(error["code"], "node_not_running");
    assert!(error["hints"][0].as_str().unwrap().contains("mesh-cli up"), "{error}");
}

#[tokio::test]
async fn a_wrong_argument_is_named_and_nothing_is_asked_of_the_node() {
    let node = Node::with(|_| Reply::HangUp);
    let mut host = Host::of(node.daemon());
    let ask = json!({"to": "@reviewer", "body": "review"});
    let with = |key: &str, value: Value| {
        let mut arguments = ask.clone();
        arguments[key] = value;
        arguments
    };
    let cases = [
        ("ask", json!({"to": "@reviewer"}), "body"),
        ("ask", with("wait_seconds", json!(301)), "wait_seconds"),
        ("ask", with("wait_seconds", json!(-1)), "wait_seconds"),
        ("ask", with("wait_seconds", json!("soon")), "wait_seconds"),
        ("ask", with("deadline_seconds", json!(0)), "deadline_seconds"),
        ("ask", with("request_id", json!("")), "request_id"),
        ("invocations_wait", json!({"flight_id": flight_id(), "timeout_seconds": 0}), "timeout_seconds"),
        ("invocations_get", json!({"flight_id": "x"}), "flight_id"),
        ("job_result", json!({"job_id": flight_id()}), "job_id"),
        ("run_code", json!({"language": "perl", "code": "1"}), "language"),
        ("run_code", json!({"language": "bash", "code": " "}), "code"),
        ("run_code", json!({"language": "bash", "code": "true", "limits": {"mem_mb": -1}}), "limits.mem_mb"),
        ("run_code", json!({"language": "bash", "code": "true", "limits": {"network": true}}), "network"),
    ];
    for (tool, arguments, field) in cases {
        let error = host.refusal(tool, arguments).await;
        assert_eq!(error["code"], "argument_invalid", "{tool} {field}: {error}");
        assert!(error["message"].as_str().unwrap().contains(field), "{tool} {field}: {error}");
    }
    assert!(node.asked().is_empty());
}

#[tokio::test]
async fn no_argument_sets_what_is_the_operators() {
    let node = Node::with(|_| Reply::HangUp);
    let mut host = Host::of(node.daemon());
    for name in ["endpoint", "token", "tenant", "on", "node", "executor", "minimum_isolation", "isolation"] {
        for (tool, mut arguments) in [
            ("run_code", json!({"language": "bash", "code": "true"})),
            ("ask", json!({"to": "@reviewer", "body": "x"})),
            ("whoami", json!({})),
        ] {
            arguments[name] = json!("x");
            let error = host.refusal(tool, arguments).await;
            assert_eq!(error["code"], "argument_invalid");
            assert!(error["message"].as_str().unwrap().contains(&format!("`{name}`")), "{error}");
        }
    }
    assert!(node.asked().is_empty());
}

#[tokio::test]
async fn an_answered_ask_is_ok_and_an_unanswered_one_says_why() {
    let node = broker(ended(FlightOutcome::Completed { reply: "looks good".into() }));
    let answered = Host::of(node.daemon()).report("ask", json!({"to": "@reviewer", "body": "review"})).await;
    assert_eq!((&answered["ok"], &answered["complete"]), (&json!(true), &json!(true)));
    assert_eq!(answered["outcome"]["reply"], "looks good");
    assert!(answered.get("next").is_none());
    let asked = node.asked();
    assert_eq!(asked[0].body["task"], "review");
    assert!(asked[0].body["request_id"].is_string(), "a call without an id gets one");
    assert!(asked[1].target.ends_with("wait_seconds=30"), "{asked:?}");

    let node = broker(ended(FlightOutcome::not_begun(FailureCode::PeerUnreachable, "atlas was not reached")));
    let failed = Host::of(node.daemon()).report("ask", json!({"to": "@reviewer", "body": "review"})).await;
    assert_eq!((&failed["ok"], &failed["complete"]), (&json!(false), &json!(true)));
    assert_eq!(failed["outcome"]["failure"]["code"], "peer_unreachable");
    assert_eq!(failed["outcome"]["may_have_run"], false);
}

#[tokio::test]
async fn an_ask_that_takes_longer_gives_its_id_and_the_next_call() {
    let held = Held {
        state: "unreachable".into(),
        since_ms: Some(1),
        cause: "no route".into(),
        queued: 1,
        queued_bytes: 9,
    };
    let node = Node::with(move |asked| {
        let held = Some(held.clone());
        if asked.is("POST", "/v1/asks") { ok(Receipt { held, ..receipt() }) } else { ok(running_flight()) }
    });
    let mut host = Host::of(node.daemon());
    let pending = host.report("ask", json!({"to": "@reviewer", "body": "x", "wait_seconds": 0})).await;
    assert_eq!(
        (&pending["ok"], &pending["complete"], &pending["state"]),
        (&json!(true), &json!(false), &json!("running"))
    );
    assert_eq!(pending["held"]["state"], "unreachable");
    assert_eq!(pending["next"]["tool"], "invocations_wait");
    let next = pending["next"]["arguments"].clone();
    assert_eq!(next["flight_id"], pending["ids"]["flight_id"]);
    let waited = host.report("invocations_wait", next).await;
    assert_eq!((&waited["found"], &waited["wait_status"]), (&json!(true), &json!("pending")));
    let got = host.report("invocations_get", json!({"flight_id": flight_id()})).await;
    assert_eq!(got["wait_status"], "not_requested");
}

#[tokio::test]
async fn an_accepted_ask_whose_wait_breaks_still_gives_its_id() {
    let node = Node::with(|asked| if asked.method == "POST" { ok(receipt()) } else { Reply::HangUp });
    let broken = Host::of(node.daemon()).report("ask", json!({"to": "@reviewer", "body": "x"})).await;
    assert_eq!((&broken["ok"], &broken["complete"]), (&json!(true), &json!(false)));
    assert_eq!(broken["ids"]["flight_id"], json!(flight_id()));
    assert!(broken["note"].as_str().unwrap().contains("cut short"));
}

#[tokio::test]
async fn a_lost_acknowledgement_names_the_id_that_makes_repeating_safe() {
    let node = Node::with(|_| Reply::HangUp);
    let mut host = Host::of(node.daemon());
    let error = host.refusal("messages_send", json!({"to": "@reviewer", "body": "x"})).await;
    let id = node.asked()[0].body["request_id"].as_str().unwrap().to_owned();
    assert!(error["hints"].to_string().contains(&id), "{error}");
}

#[tokio::test]
async fn a_flight_that_is_not_there_is_not_found_rather_than_an_error() {
    let node =
        Node::with(|_| refused(404, ApiError::new(ErrorKind::NotFound, "unknown_flight", "no such flight")));
    let missing = Host::of(node.daemon()).report("invocations_get", json!({"flight_id": flight_id()})).await;
    assert_eq!((&missing["found"], &missing["reason"]), (&json!(false), &json!("no such flight")));
}

#[tokio::test]
async fn an_address_is_resolved_or_its_trouble_is_named() {
    let node = Node::with(|asked| match asked.body["to"].as_str() {
        Some("@two") => {
            let mut error = ApiError::new(ErrorKind::Ambiguous, "ambiguous_target", "two agents");
            let address: mesh_protocol::address::AgentAddress = "@two.node:a".parse().unwrap();
            error.candidates.push(Candidate {
                address: address.clone(),
                full: address,
                reachability: "online".into(),
            });
            refused(409, error)
        }
        Some("@none") => {
            refused(404, ApiError::new(ErrorKind::NotFound, "unknown_target", "no agent of that name"))
        }
        _ => refused(403, ApiError::new(ErrorKind::Refused, "operator_only", "not for agents")),
    });
    let mut host = Host::of(node.daemon());
    let two = host.report("agents_resolve", json!({"label": "@two"})).await;
    assert_eq!(
        (&two["kind"], &two["candidates"][0]["address"]),
        (&json!("ambiguous"), &json!("@two.node:a"))
    );
    assert_eq!(host.report("agents_resolve", json!({"label": "@none"})).await["kind"], "unknown");
    assert_eq!(host.report("agents_resolve", json!({"label": "@a b"})).await["kind"], "unparseable");
    assert_eq!(host.refusal("agents_resolve", json!({"label": "@other"})).await["code"], "operator_only");
}

#[tokio::test]
async fn a_long_reply_is_cut_and_says_so() {
    let reply = "ä".repeat(SHOWN_BYTES_MAX);
    let node = broker(ended(FlightOutcome::Completed { reply }));
    let answered = Host::of(node.daemon()).report("ask", json!({"to": "@reviewer", "body": "x"})).await;
    let shown = answered["outcome"]["reply"].as_str().unwrap();
    assert!(shown.len() < SHOWN_BYTES_MAX + 100);
    assert!(answered["outcome"]["reply_omitted_bytes"].as_u64().unwrap() >= SHOWN_BYTES_MAX as u64);
}

#[tokio::test]
async fn a_cancelled_wait_is_not_answered_and_the_ask_goes_on() {
    let mut node = Node::with(|asked| match asked.method.as_str() {
        "POST" if asked.is("POST", "/v1/asks") => ok(receipt()),
        "GET" if asked.is("GET", "/v1/whoami") => refused(403, ApiError::new(ErrorKind::Refused, "x", "x")),
        _ => Reply::Silence,
    });
    let mut host = Host::of(node.daemon());
    let id = host.begin_call("ask", json!({"to": "@reviewer", "body": "x"})).await;
    node.was_asked(2).await;
    host.cancel(id).await;
    let after = host.begin_call("whoami", json!({})).await;
    assert_eq!(host.hear().await["id"], after, "nothing is said about the cancelled call");
    let (said, _) = host.hang_up().await;
    assert!(said.is_empty(), "{said:?}");
    assert!(node.asked().iter().all(|asked| !asked.target.contains("cancel")));
}

#[tokio::test]
async fn one_wait_too_many_is_refused_and_short_calls_still_pass() {
    let state = FlightState::Running;
    let node = Node::with(move |asked| {
        if asked.target.ends_with("wait_seconds=0") {
            ok(FlightView { state, ..running_flight() })
        } else {
            Reply::Silence
        }
    });
    let mut host = Host::of(node.daemon());
    let wait = json!({"flight_id": flight_id(), "timeout_seconds": 300});
    let mut begun = BTreeSet::new();
    for _ in 0..=WAITS_MAX {
        begun.insert(host.begin_call("invocations_wait", wait.clone()).await);
    }
    let answer = host.hear().await;
    assert!(begun.contains(&answer["id"].as_u64().unwrap()));
    assert_eq!(refusal(&answer["result"])["code"], "busy");
    let short = host
        .request("tools/call", json!({"name": "invocations_get", "arguments": {"flight_id": flight_id()}}))
        .await;
    assert_eq!(report(&short["result"])["found"], true);
}
