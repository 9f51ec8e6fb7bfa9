//! `ping` and `explain`, against a stand-in: how a node is reached, and what is said when it is not.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::mesh::PingReply;
use mesh_protocol::id::NodeId;

use crate::command::Place;
use crate::stand_in::StandIn;

fn pong(path: &str) -> PingReply {
    PingReply { node: NodeId::from_bytes([2; 32]), name: "nova".into(), path: path.into(), took_us: 1_370 }
}

#[test]
fn a_ping_shows_the_way_each_time() {
    let place = Place::new();
    StandIn::default().gives("POST /v1/peers/nova/ping", &pong("relayed via atlas")).serve(&place);
    insta::assert_snapshot!(place.picture(&["ping", "nova", "-c", "2"]), @r"
    exit code 0
    ----- stdout -----
    nova answered in 1.3ms, relayed via atlas
    nova answered in 1.3ms, relayed via atlas
    ");
}

#[test]
fn for_programs_all_answers_are_one_document() {
    let place = Place::new();
    StandIn::default().gives("POST /v1/peers/nova/ping", &pong("direct 192.0.2.7:4433")).serve(&place);
    let output = place.program(&["--json", "ping", "nova", "-c", "2"]).output().unwrap();
    let mut document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let replies: Vec<PingReply> = serde_json::from_value(document["data"].take()).unwrap();
    assert_eq!(replies, [pong("direct 192.0.2.7:4433"), pong("direct 192.0.2.7:4433")]);
}

#[test]
fn a_node_that_cannot_be_reached_has_a_reason_a_hint_and_an_exit_code() {
    let place = Place::new();
    let message = "nova is unreachable for 12 s: nothing answered at 192.0.2.7:4433";
    let error = ApiError::new(ErrorKind::Unavailable, "peer_unreachable", message)
        .hint("`mesh-cli explain nova` shows what was tried, and who reaches it");
    StandIn::default().refuses("POST /v1/peers/nova/ping", 503, &error).serve(&place);
    insta::assert_snapshot!(place.picture(&["ping", "nova"]), @r"
    exit code 3
    ----- stderr -----
    error: nova is unreachable for 12 s: nothing answered at 192.0.2.7:4433

    hint: `mesh-cli explain nova` shows what was tried, and who reaches it
    ");
}

#[test]
fn a_name_that_is_no_topic_is_a_node() {
    let place = Place::new();
    let error = ApiError::new(ErrorKind::NotFound, "unknown_node", "no node is called `exit-code`")
        .hint("`mesh-cli status` lists the nodes");
    StandIn::default().refuses("GET /v1/peers/exit-code/route", 404, &error).serve(&place);
    insta::assert_snapshot!(place.picture(&["explain", "exit-code"]), @r"
    exit code 1
    ----- stderr -----
    error: no node is called `exit-code`

    hint: `mesh-cli status` lists the nodes
    ");
}
