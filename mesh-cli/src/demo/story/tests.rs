//! What is told, in pictures.

use mesh_protocol::id::{FlightId, JobId};

use super::super::counts::Counts;
use super::super::report::{Input, Member};
use super::*;
use crate::render::specimen::{self, NOW, THEN, plain};

fn told(name: StepName, end: End) -> String {
    plain(&step(&Step { name, ok: true, took_ms: 1_234, end }, NOW))
}

fn finding(name: StepName, finding: impl Into<Finding>) -> String {
    told(name, End::Found(Box::new(finding.into())))
}

fn answer(job: Option<JobId>) -> Answer {
    Answer { counts: Counts::of("the lights, the lights\nand the harbour"), job }
}

#[test]
fn a_mesh_is_told_with_its_processes() {
    let member = Member {
        name: "atlas",
        node: specimen::node(1),
        pid: Some(42),
        addresses: vec!["127.0.0.1:7".into()],
    };
    let founding = Founding { mesh: specimen::status().mesh, nodes: vec![member], tickets: 2 };
    insta::assert_snapshot!(finding(StepName::Found, founding), @r"
    1. Three nodes, one mesh (1.2s)
       mesh-0s3ge1o70s3ge1o70s3ge1o70s, joined with 2 tickets
       atlas  aeaqcaibae at 127.0.0.1:7, process 42
    ");
}

#[test]
fn an_answer_is_told_with_its_figures_and_where_they_come_from() {
    let job = Some(JobId::mint(THEN, [4; 10]));
    let asked = Asked { receipt: specimen::receipt(None), answered_after_ms: 840, answer: answer(job) };
    insta::assert_snapshot!(finding(StepName::Ask, asked.clone()), @r"
    3. An ask across the mesh, with a job in a sandbox (1.2s)
       @reviewer.node:nova answered after 840ms, counted by Python job 2081040g in a
       sandbox on nova:
       lines     2
       words     7
       frequent  lights 2, harbour 1
       sha256    06247f0858a13e54a66974c2a9d46bdedb54e3c5e5f992c4f1d9a1b243b0abfc
       the same as this process counts itself
    ");
    let alone = finding(StepName::Ask, Asked { answer: answer(None), ..asked });
    assert!(alone.contains("by the agent itself"), "{alone}");
}

#[test]
fn a_held_ask_is_told_as_the_receipt_has_it() {
    let receipt = specimen::receipt(Some(specimen::held()));
    let hold = Hold { killed_pid: Some(42), noticed_after_ms: 3_900, receipt, runs_before: 1 };
    insta::assert_snapshot!(finding(StepName::Hold, hold), @r"
    5. A node is killed, its agent asked again (1.2s)
       process 42 was killed; atlas noticed after 3.9s
       asked @reviewer.node:nova, ref 0g208104
       held: vega is unreachable since 10m ago (no answer to probes)
             3 parcels (1.2 KiB) waiting for that node; delivered when it is back
    ");
}

#[test]
fn a_resumed_ask_says_how_often_it_ran() {
    let flight = FlightId::mint(THEN, [1; 10]);
    let resumption = Resumption { flight, answered_after_ms: 2_100, runs: 1, answer: answer(None) };
    insta::assert_snapshot!(finding(StepName::Resume, resumption), @r"
    6. The node is back (1.2s)
       the held ask was answered 2.1s after vega was started again, correctly;
       the agent was begun for it once
    ");
}

#[test]
fn without_a_sandbox_the_step_says_how_to_get_one() {
    let end = End::Skipped { why: "gVisor is not installed".into(), fix: "mesh-cli setup gvisor" };
    insta::assert_snapshot!(told(StepName::Verify, end), @r"
    4. The job's evidence (1.2s)
       left out: gVisor is not installed; `mesh-cli setup gvisor` sets it up
    ");
}

#[test]
fn a_failed_step_tells_its_causes_and_the_ends_of_the_logs_and_nothing_can_hide_in_them() {
    let logs = vec![
        NodeLog { node: "atlas", ended: Some("exit status: 3".into()), lines: vec!["up\u{1b}[2J".into()] },
        NodeLog { node: "nova", ended: None, lines: Vec::new() },
    ];
    let end = End::Failed { error: "the node ended".into(), causes: vec!["no room".into()], logs };
    insta::assert_snapshot!(told(StepName::Found, end), @r"
    1. Three nodes, one mesh (1.2s)
       failed: the node ended
         because no room
       the last lines of atlas, which has ended (exit status: 3):
         up\u{1b}[2J
    ");
}

#[test]
fn what_is_left_running_is_told_with_the_commands_that_stop_it() {
    let left = Left { folder: "/tmp/d".into(), homes: vec!["/tmp/d/atlas".into(), "/tmp/d/nova".into()] };
    let input = Input { source: "a.txt".into(), counts: Counts::of("one") };
    let report = Report { ok: true, took_ms: 12_000, input, steps: Vec::new(), left: Some(left) };
    insta::assert_snapshot!(plain(&ending(&report)), @r"
    done: 0 steps in 12.0s, about a.txt (3 B)

    the nodes go on running; speak to one with
      export MESH_HOME=/tmp/d/atlas
      export MESH_HOME=/tmp/d/nova
    and stop them with
      mesh-cli --home /tmp/d/atlas down
      mesh-cli --home /tmp/d/nova down
      rm -r /tmp/d
    ");
}
