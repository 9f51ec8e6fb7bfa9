//! `jobs` and files of `run`, against a stand-in: what is asked of the node, and what is made of its answers.

use mesh_protocol::api::ask::CancelReply;
use mesh_protocol::api::job::{EventPage, JobPage, OutputView};
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::job::{Contents, JobStatus};

use crate::command::Place;
use crate::running::{ended, receipt};
use crate::stand_in::StandIn;

/// The id of every job here.
const JOB: &str = "job-0000000001q091040g2081040g";

fn events() -> EventPage {
    let mut chain = Chain::new(JOB);
    let written = [
        (EventKind::Accepted, "{}"),
        (EventKind::Stdout, r#"{"content":"to out\n"}"#),
        (EventKind::Stderr, r#"{"content":"to err\n"}"#),
        (EventKind::Stdout, r#"{"content":{"encoding":"base64","content":"/wo="}}"#),
        (EventKind::Finished, "{}"),
    ];
    for (kind, data) in written {
        chain.append(1, kind, Value::parse(data.as_bytes(), &limits::EVENT).unwrap()).unwrap();
    }
    EventPage { events: chain.into_events(), next_cursor: 5, ended: true, unsigned: false }
}

fn left(path: &str, bytes: &[u8]) -> OutputView {
    OutputView {
        path: path.into(),
        content_base64: Contents(bytes.to_vec()),
        size_bytes: bytes.len() as u64,
        sha256: Digest::of(bytes),
    }
}

#[test]
fn logs_are_what_the_job_wrote_each_stream_on_its_own() {
    let place = Place::new();
    let node = StandIn::default().gives("GET /v1/jobs/job-0000000001q091040g2081040g/events", &events());
    let requests = node.serve(&place);
    insta::assert_snapshot!(place.picture(&["jobs", "logs", "-f", JOB]), @r"
    exit code 0
    ----- stdout -----
    to out
    �
    ----- stderr -----
    to err
    ");
    let asked = requests.all().remove(0);
    assert!(asked.contains("/events?after=0&wait_seconds=300 "), "{asked}");
}

#[test]
fn logs_say_when_the_end_of_the_job_is_not_signed() {
    let place = Place::new();
    let page = EventPage { events: Vec::new(), unsigned: true, ..events() };
    StandIn::default().gives("GET /v1/jobs/job-0000000001q091040g2081040g/events", &page).serve(&place);
    insta::assert_snapshot!(place.picture(&["jobs", "logs", "-f", JOB]), @r"
    exit code 0
    ----- stderr -----
    warning: the job has ended, and its node could not sign that yet; it tries again
    ");
}

#[test]
fn a_list_is_asked_for_with_its_filters_and_its_place() {
    let place = Place::new();
    let page = JobPage { jobs: vec![ended(JobStatus::Failed, Some(3))], next_cursor: Some("0:job".into()) };
    let requests = StandIn::default().gives("GET /v1/jobs?", &page).serve(&place);
    let arguments = [
        "--json",
        "jobs",
        "list",
        "--status",
        "failed",
        "--language",
        "bash",
        "--cursor",
        "9:x",
        "--limit",
        "1",
    ];
    let output = place.program(&arguments).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains(r#""next_cursor":"0:job""#));
    let asked = requests.all().remove(0);
    assert!(asked.contains("?limit=1&status=failed&language=bash&cursor=9%3Ax "), "{asked}");
}

#[test]
fn a_job_that_is_over_is_cancelled_again_without_harm() {
    let place = Place::new();
    let reply = CancelReply { state: "succeeded".into(), already_terminal: true, on_its_way: false };
    StandIn::default().gives("DELETE /v1/jobs/job-0000000001q091040g2081040g", &reply).serve(&place);
    let output = place.program(&["--json", "jobs", "cancel", JOB]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains(r#""already_terminal":true"#));
}

#[test]
fn the_exact_bytes_that_were_signed_are_saved() {
    let place = Place::new();
    let node = StandIn::default()
        .gives_bytes("GET /v1/jobs/job-0000000001q091040g2081040g/attestation", "{ \"x\":1 }");
    let node = node.gives_bytes("GET /v1/jobs/job-0000000001q091040g2081040g/result-artifact", "artifact\n");
    node.gives("GET /v1/jobs/", &ended(JobStatus::Succeeded, Some(0))).serve(&place);
    let arguments = ["jobs", "attestation", JOB, "--envelope", "e.json", "--artifact", "a.json"];
    insta::assert_snapshot!(place.picture(&arguments), @r"
    exit code 0
    ----- stdout -----
    signed by aibaeaqcai, checked on arrival, event chain complete
    ");
    assert_eq!(std::fs::read_to_string(place.path("e.json")).unwrap(), "{ \"x\":1 }");
    assert_eq!(std::fs::read_to_string(place.path("a.json")).unwrap(), "artifact\n");
}

#[test]
fn files_go_in_under_their_names_and_come_out_below_the_folder() {
    let place = Place::new();
    place.file("table.csv", "1,2");
    let node = StandIn::default().gives("POST /v1/jobs", &receipt());
    let node = node.gives(
        "GET /v1/jobs/job-0000000001q091040g2081040g/outputs",
        &vec![left("output/sub/a.bin", &[0, 255]), left("output/../../escape", b"x")],
    );
    let requests = node.gives("GET /v1/jobs/", &ended(JobStatus::Succeeded, Some(0))).serve(&place);
    let arguments = [
        "run",
        "--language",
        "bash",
        "-e",
        "true",
        "--input",
        "table.csv",
        "--input",
        "b/c=table.csv",
        "--output",
        "sub/a.bin",
        "--output-dir",
        "results",
        "--runtime",
        "science",
    ];
    insta::assert_snapshot!(place.picture(&arguments), @r"
    exit code 0
    ----- stdout -----
    out
    ----- stderr -----
    err
    saved results/sub/a.bin, 2 bytes
    warning: `output/../../escape` is not saved: it is no plain path below output/
    ");
    assert_eq!(std::fs::read(place.path("results/sub/a.bin")).unwrap(), [0, 255]);
    let asked = requests.all().remove(0);
    assert!(
        asked.contains(r#""files":[{"path":"input/table.csv","content_base64":"MSwy"},{"path":"input/b/c","#),
        "{asked}"
    );
    assert!(asked.contains(r#""outputs":["output/sub/a.bin"],"runtime":"science""#), "{asked}");
}

#[test]
fn a_file_that_is_there_is_not_replaced_and_nothing_is_run() {
    let place = Place::new();
    place.file("a.txt", "mine");
    let requests = StandIn::default().gives("POST /v1/jobs", &receipt()).serve(&place);
    let output =
        place.program(&["run", "--language", "bash", "-e", "true", "--output", "a.txt"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8(output.stderr).unwrap().contains("a.txt is there already"));
    assert_eq!(requests.all().len(), 0);
    assert_eq!(std::fs::read_to_string(place.path("a.txt")).unwrap(), "mine");
}
