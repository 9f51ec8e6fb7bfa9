//! Jobs and results that are longer than a parcel, on their way between two nodes.

use mesh_node_core::event::{Action, Caller, Command, Delivery, Event};
use mesh_node_core::jobs::job::Job;
use mesh_node_core::jobs::outputs;
use mesh_node_core::outbox;
use mesh_node_core::policy::GrantChange;
use mesh_node_core::store::{Scan, Store, Table};
use mesh_protocol::api::job::{JobReceipt, RunRequest};
use mesh_protocol::codec::encode;
use mesh_protocol::delivery::{Content, Parcel};
use mesh_protocol::id::MessageId;
use mesh_protocol::job::{
    CODE_BYTES_MAX, Contents, FILE_BYTES_MAX, InputFile, JobSpec, JobStatus, Language, OutputFile,
    STDIN_BYTES_MAX,
};
use mesh_protocol::limits::PART_BYTES;
use mesh_protocol::message::PeerMessage;
use mesh_protocol::policy::Trust;

use crate::jobs::{report, result, started, submit};
use crate::pair::{A, B, Pair};

/// The largest job there is.
fn largest() -> JobSpec {
    let file = |n: u8| InputFile { path: format!("input/{n}"), content: Contents(vec![n; FILE_BYTES_MAX]) };
    JobSpec {
        stdin: "s".repeat(STDIN_BYTES_MAX),
        files: vec![file(1), file(2)],
        outputs: vec!["output/a".into(), "output/b".into()],
        ..JobSpec::new(Language::Python, "c".repeat(CODE_BYTES_MAX))
    }
}

fn run(pair: &mut Pair) -> JobReceipt {
    submit(pair, A, Caller::Operator, RunRequest::new(largest())).unwrap()
}

fn rows(pair: &Pair, n: usize, table: Table) -> usize {
    pair.nodes[n].store.scan(table, &Scan::prefix(&[], usize::MAX)).unwrap().len()
}

fn begun(pair: &Pair) -> Option<JobSpec> {
    pair.nodes[B].todo.iter().find_map(|action| match action {
        Action::StartJob(_, spec) => Some((**spec).clone()),
        _ => None,
    })
}

#[test]
fn the_largest_job_arrives_whole_and_so_does_what_it_leaves() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair);
    assert_eq!(begun(&pair), Some(largest()));
    let ticket = started(&mut pair);
    let left = |name: &str| OutputFile { path: name.into(), content: Contents(vec![9; FILE_BYTES_MAX]) };
    let left = vec![left("output/a"), left("output/b")];
    let mut ended = report(&ticket, result(JobStatus::Succeeded));
    if let Event::JobEnded { outputs, .. } = &mut ended {
        outputs.clone_from(&left);
        // One that nobody asked for is not taken.
        outputs.push(OutputFile { path: "output/c".into(), content: Contents(Vec::new()) });
    }
    pair.event(B, ended);
    let job: Job = pair.row(A, &receipt.job_id);
    assert_eq!(job.status, JobStatus::Succeeded);
    assert_eq!(outputs::of(&pair.nodes[A].store, receipt.job_id).unwrap(), left);
    assert_eq!(job.result.unwrap().artifacts.len(), 2);
    for n in [A, B] {
        assert_eq!(
            (rows(&pair, n, Table::Parts), rows(&pair, n, Table::PartHeads)),
            (0, 0),
            "nothing is left over"
        );
        assert_eq!(rows(&pair, n, Table::JobBodies), 0);
    }
}

#[test]
fn a_job_in_parts_that_was_never_sent_is_taken_back_whole() {
    let mut pair = Pair::new();
    let receipt = run(&mut pair);
    pair.command(A, Command::CancelJob(receipt.job_id)).unwrap();
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).status, JobStatus::Cancelled);
    let depth = outbox::depth(&pair.nodes[A].store, pair.now, pair.nodes[B].id).unwrap().unwrap();
    assert_eq!(depth.bytes, 0, "no part of it is sent later");
    pair.link();
    assert_eq!(begun(&pair), None);
    assert_eq!(rows(&pair, B, Table::Parts), 0);
}

#[test]
fn a_job_in_parts_goes_on_where_the_link_broke_and_over_a_restart() {
    let mut pair = Pair::new();
    let receipt = run(&mut pair);
    let to = pair.nodes[B].id;
    pair.link_for(3);
    assert!(rows(&pair, B, Table::Parts) > 0 && begun(&pair).is_none());
    pair.restart(B);
    pair.restart(A);
    pair.link();
    assert_eq!(begun(&pair), Some(largest()));
    let depth = outbox::depth(&pair.nodes[A].store, pair.now, to).unwrap().unwrap();
    assert_eq!(depth.acked + 1, depth.next, "each part was taken once");
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).result, None);
}

/// Has A send B this, whatever A's machine thinks of it.
fn forge(pair: &mut Pair, message: &PeerMessage, seq: u64) {
    let (from, session) = (pair.nodes[A].id, pair.session(A));
    let content = Content::Body(encode(message));
    let message = MessageId::from_bytes([u8::try_from(seq).unwrap(); 16]);
    let parcel = Parcel { seq, acked: 0, message, content };
    pair.event(B, Event::Delivery(from, Delivery::Parcel { session, parcel }));
}

#[test]
fn a_message_whose_parts_are_not_all_there_has_no_effect_and_its_sender_hears_it() {
    let mut pair = Pair::new();
    pair.link();
    let receipt =
        submit(&mut pair, A, Caller::Operator, RunRequest::new(JobSpec::new(Language::Python, "print(1)")))
            .unwrap();
    let ticket = started(&mut pair);
    // The executor did not get it whole, it says.
    let of = MessageId::from_bytes(*receipt.job_id.as_bytes());
    let last = PeerMessage::Whole { of: MessageId::from_bytes([9; 16]), parts: 2, sha256: [0; 32] };
    let before = rows(&pair, B, Table::Executions);
    forge(&mut pair, &PeerMessage::Part { of: MessageId::from_bytes([9; 16]), index: 1, bytes: vec![1] }, 2);
    forge(&mut pair, &last, 3);
    assert_eq!(rows(&pair, B, Table::Executions), before);
    assert_eq!(
        pair.row::<Job>(A, &receipt.job_id).status,
        JobStatus::Queued,
        "that was about another message"
    );
    pair.tell(B, PeerMessage::Unassembled { of });
    let job: Job = pair.row(A, &receipt.job_id);
    let result = job.result.unwrap();
    assert_eq!((result.killed_by.as_deref(), result.may_have_run), (Some("request_lost"), false));
    drop(ticket);
}

#[test]
fn a_peer_that_may_send_no_jobs_cannot_have_parts_kept_and_another_keeps_one_message_at_most() {
    let part = |of: u8, index| PeerMessage::Part {
        of: MessageId::from_bytes([of; 16]),
        index,
        bytes: vec![0; PART_BYTES],
    };
    let mut pair = Pair::new();
    pair.link();
    for (seq, of) in (1..).zip([1_u8, 2, 3]) {
        forge(&mut pair, &part(of, 0), seq);
    }
    assert_eq!(rows(&pair, B, Table::Parts), 1);
    // One that is too long, and one that is out of place.
    let long =
        PeerMessage::Part { of: MessageId::from_bytes([3; 16]), index: 1, bytes: vec![0; PART_BYTES + 1] };
    forge(&mut pair, &long, 4);
    forge(&mut pair, &part(3, 7), 5);
    assert_eq!(rows(&pair, B, Table::Parts), 1);
    for (seq, index) in (6..).zip(1..40) {
        forge(&mut pair, &part(3, index), seq);
    }
    assert_eq!(rows(&pair, B, Table::Parts), 24, "a message has an end");

    let mut pair = Pair::new();
    let nothing = GrantChange { trust: Some(Trust::None), ..GrantChange::default() };
    let a = pair.nodes[A].id;
    pair.command(B, Command::Grant(a, nothing)).unwrap();
    pair.link();
    forge(&mut pair, &part(1, 0), 1);
    assert_eq!(rows(&pair, B, Table::Parts), 0);
}
