//! `ask`, `flights` and `send`, against a stand-in: what goes to which stream, and which exit code says what.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use mesh_protocol::api::ask::{DeliveryPhase, FlightView, Held, Receipt, Sent, SentBatch};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::flight::{FailureCode, FlightOutcome, FlightState};
use mesh_protocol::id::{ConversationId, FlightId, MessageId, NodeId};
use rustix::process::{Pid, Signal, kill_process};

use crate::command::Place;
use crate::stand_in::{OPERATOR, StandIn};

const ASKS: &str = "POST /v1/asks";
const FLIGHT: &str = "GET /v1/flights/";

fn ten_minutes_ago() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    u64::try_from(now).unwrap() - 600_000
}

fn receipt(held: Option<Held>) -> Receipt {
    let flight = FlightId::mint(0, [1; 10]);
    Receipt {
        reference: flight.suffix(),
        flight_id: Some(flight),
        conversation_id: ConversationId::mint(0, [2; 10]),
        message_id: MessageId::mint(0, [3; 10]),
        target: "@reviewer.node:nova".parse().unwrap(),
        target_node: NodeId::from_bytes([2; 32]),
        state: "queued".into(),
        held,
        replayed: false,
        next: String::new(),
    }
}

fn flight(state: FlightState, outcome: Option<FlightOutcome>) -> FlightView {
    let receipt = receipt(None);
    FlightView {
        flight_id: FlightId::mint(0, [1; 10]),
        reference: receipt.reference,
        conversation_id: receipt.conversation_id,
        message_id: receipt.message_id,
        target: receipt.target,
        target_node: receipt.target_node,
        requester: "operator".into(),
        task: "look".into(),
        state,
        terminal: state.is_terminal(),
        waiting_on: None,
        delivery: DeliveryPhase::Held,
        outcome,
        late: None,
        reply_message_id: None,
        created_at_ms: ten_minutes_ago(),
        updated_at_ms: ten_minutes_ago(),
    }
}

fn answered(reply: &str) -> FlightView {
    flight(FlightState::Completed, Some(FlightOutcome::Completed { reply: reply.into() }))
}

#[test]
fn the_answer_alone_is_on_standard_output() {
    let place = Place::new();
    let node = StandIn::default().gives(ASKS, &receipt(None)).gives(FLIGHT, &answered("looks fine"));
    let requests = node.serve(&place);
    insta::assert_snapshot!(place.picture(&["ask", "@reviewer", "look"]), @r"
    exit code 0
    ----- stdout -----
    looks fine
    ----- stderr -----
    asked @reviewer.node:nova, ref 0g208104
    ");
    let asked = requests.all().remove(0);
    assert!(asked.contains(&format!("authorization: Bearer {OPERATOR}")), "{asked}");
    assert!(asked.contains("\"task\":\"look\""), "{asked}");
}

#[test]
fn the_task_is_read_from_a_pipe_and_the_agents_own_token_is_used() {
    let place = Place::new();
    let requests = StandIn::default().gives(ASKS, &receipt(None)).serve(&place);
    let mut program = place.program(&["ask", "@reviewer", "--wait", "0", "--body-file", "task"]);
    place.file("task", "a long\ntask");
    let token = "b".repeat(OPERATOR.len());
    let output = program.env("MESH_TOKEN", &token).output().unwrap();
    insta::assert_snapshot!(place.pictured(&output), @r"
    exit code 0
    ----- stdout -----
    0g208104
    ----- stderr -----
    asked @reviewer.node:nova, ref 0g208104
    ");
    let asked = requests.all().remove(0);
    assert!(asked.contains(&format!("authorization: Bearer {token}")), "{asked}");
    assert!(asked.contains(r#""task":"a long\ntask""#), "{asked}");
}

#[test]
fn an_ask_for_a_node_that_is_away_says_the_truth_and_is_not_lost() {
    let place = Place::new();
    let held = Held {
        state: "unreachable".into(),
        since_ms: Some(ten_minutes_ago()),
        cause: "no answer to probes".into(),
        queued: 1,
        queued_bytes: 340,
    };
    let waiting = flight(FlightState::Queued, None);
    StandIn::default().gives(ASKS, &receipt(Some(held))).gives(FLIGHT, &waiting).serve(&place);
    insta::assert_snapshot!(place.picture(&["ask", "@reviewer", "look", "--wait", "1"]), @r"
    exit code 3
    ----- stderr -----
    asked @reviewer.node:nova, ref 0g208104
    held: nova is unreachable since 10m ago (no answer to probes)
          1 parcel (340 B) waiting for that node; delivered when it is back
    no answer yet: queued, held
    the ask goes on without this command:
    `mesh-cli flights 0g208104 --wait 5m` waits for it
    `mesh-cli cancel 0g208104` stops it
    ");
}

#[test]
fn a_refusal_has_its_code_and_its_remedy() {
    let place = Place::new();
    let refused = FlightOutcome::Failed {
        code: FailureCode::Refused,
        detail: "node nova does not let this node ask".into(),
        remediation: Some("on nova, `mesh-cli allow atlas ask`".into()),
        may_have_run: false,
    };
    let ended = flight(FlightState::Failed, Some(refused));
    StandIn::default().gives(ASKS, &receipt(None)).gives(FLIGHT, &ended).serve(&place);
    insta::assert_snapshot!(place.picture(&["ask", "@reviewer", "look"]), @r"
    exit code 4
    ----- stderr -----
    asked @reviewer.node:nova, ref 0g208104
    failed (refused): node nova does not let this node ask; the agent did not begin
    hint: on nova, `mesh-cli allow atlas ask`
    ");
}

#[test]
fn an_unknown_agent_is_an_error_with_hints() {
    let place = Place::new();
    let unknown = ApiError::new(ErrorKind::NotFound, "unknown_target", "no agent is called `reviwer`")
        .hint("`mesh-cli who` lists the agents");
    StandIn::default().refuses(ASKS, 404, &unknown).serve(&place);
    insta::assert_snapshot!(place.picture(&["ask", "@reviwer", "look"]), @r"
    exit code 1
    ----- stderr -----
    error: no agent is called `reviwer`

    hint: `mesh-cli who` lists the agents
    ");
}

#[test]
fn ctrl_c_says_what_goes_on() {
    let place = Place::new();
    StandIn::default().gives(ASKS, &receipt(None)).ignores(FLIGHT).serve(&place);
    let mut program = place.program(&["ask", "@reviewer", "look"]);
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    insta::assert_snapshot!(said, @r"
    asked @reviewer.node:nova, ref 0g208104

    the ask goes on: `mesh-cli flights 0g208104 --wait 5m` waits for it,
    `mesh-cli cancel 0g208104` stops it
    ");
}

#[test]
fn for_programs_receipt_and_flight_are_one_document() {
    let place = Place::new();
    StandIn::default().gives(ASKS, &receipt(None)).gives(FLIGHT, &answered("fine")).serve(&place);
    let output = place.program(&["--json", "ask", "@reviewer", "look"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["data"]["receipt"]["ref"], receipt(None).reference);
    assert_eq!(document["data"]["flight"]["outcome"]["completed"]["reply"], "fine");
    assert!(output.stderr.is_empty(), "{output:?}");
}

const BATCH: &str = "POST /v1/messages/batch";

fn message() -> Receipt {
    Receipt { flight_id: None, state: "delivered".into(), ..receipt(None) }
}

#[test]
fn lines_are_messages_of_their_own_with_ids_of_their_own() {
    let place = Place::new();
    let sent = SentBatch { messages: vec![Sent::Receipt(message()), Sent::Receipt(message())] };
    let requests = StandIn::default().gives(BATCH, &sent).serve(&place);
    let arguments = ["send", "@reviewer", "--lines", "--request-id", "log", "-"];
    insta::assert_snapshot!(place.picture_reading(&arguments, "one\n\ntwo\n"), @r"
    exit code 0
    ----- stderr -----
    2 messages recorded
    ");
    let sent = requests.all().remove(0);
    assert!(sent.contains(r#""body":"one","request_id":"log-1""#), "{sent}");
    assert!(sent.contains(r#""body":"two","request_id":"log-3""#), "{sent}");
}

#[test]
fn a_line_that_is_refused_is_named_and_nothing_is_sent_after_its_request() {
    let place = Place::new();
    let refusal = ApiError::new(ErrorKind::Refused, "not_granted", "you may not send there");
    let sent = SentBatch { messages: vec![Sent::Receipt(message()), Sent::Error(refusal)] };
    let requests = StandIn::default().gives(BATCH, &sent).serve(&place);
    insta::assert_snapshot!(place.picture(&["send", "@reviewer", "--lines", "one\ntwo\n"]), @r"
    exit code 4
    ----- stderr -----
    1 message recorded, 1 not
    error: line 2 was not sent: you may not send there

    hint: `--json` shows what became of each line; sent again, they are recorded again: a `--request-id` from the first time on prevents that
    ");
    assert_eq!(requests.all().len(), 1);
    let again = place.program(&["send", "@reviewer", "--lines", "--json", "one\ntwo\n"]).output().unwrap();
    assert_eq!(again.status.code(), Some(4));
    let document: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    let lines = document["data"].as_array().unwrap();
    assert_eq!(
        (lines[0]["line"].as_u64(), lines[0]["receipt"]["state"].as_str()),
        (Some(1), Some("delivered"))
    );
    assert_eq!(
        (lines[1]["line"].as_u64(), lines[1]["error"]["code"].as_str()),
        (Some(2), Some("not_granted"))
    );
}

#[test]
fn lines_whose_fate_is_not_known_are_named() {
    let place = Place::new();
    let refusal =
        ApiError::new(ErrorKind::Unavailable, "no_answer_in_time", "the node did not finish in time");
    StandIn::default().refuses(BATCH, 503, &refusal).serve(&place);
    insta::assert_snapshot!(place.picture(&["send", "@reviewer", "--lines", "one\ntwo\n"]), @r"
    exit code 3
    ----- stderr -----
    0 messages recorded
    warning: lines 1 to 2 may have been recorded; sent again, they are recorded again: a `--request-id` from the first time on prevents that
    error: the node did not finish in time
    ");
}

#[test]
fn a_line_that_has_not_arrived_in_time_shows_in_the_exit_code() {
    let place = Place::new();
    let late = Receipt { state: "accepted".into(), ..message() };
    let sent = SentBatch { messages: vec![Sent::Receipt(late)] };
    StandIn::default().gives(BATCH, &sent).serve(&place);
    insta::assert_snapshot!(place.picture(&["send", "@reviewer", "--lines", "--wait", "1s", "one"]), @r"
    exit code 3
    ----- stderr -----
    1 message recorded, 0 of them delivered
    ");
}
