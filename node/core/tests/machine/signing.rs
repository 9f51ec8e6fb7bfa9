//! Ends that cannot be signed when they come: the result is there at once, its proof when it can be made.

use mesh_node_core::event::{Action, Command, Event, JobTicket};
use mesh_node_core::evidence::{Attested, Evidence};
use mesh_node_core::jobs::events;
use mesh_node_core::jobs::job::Job;
use mesh_node_core::limits::{JOB_SIGN_AGAIN_MS, JOB_SIGNINGS_AT_ONCE, JOB_SIGNINGS_MAX};
use mesh_protocol::api::job::AttestationView;
use mesh_protocol::codec::encode;
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::{Event as JobEvent, EventKind};
use mesh_protocol::evidence::receipt::{ExecutorOutput, StreamSeen};
use mesh_protocol::id::JobId;
use mesh_protocol::job::{JobResult, JobStatus};

use crate::jobs::{report, result, run, started};
use crate::pair::{A, B, Pair};

/// What an executor asks to be signed.
type Asked = (JobTicket, JobResult, Option<ExecutorOutput>);

/// The signatures that B asks for, taken out of what it wants done.
fn asked(pair: &mut Pair) -> Vec<Asked> {
    asked_by(pair, B)
}

/// The same of any node.
fn asked_by(pair: &mut Pair, n: usize) -> Vec<Asked> {
    let (asked, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut pair.nodes[n].todo)
        .into_iter()
        .partition(|action| matches!(action, Action::AttestEnd(..)));
    pair.nodes[n].todo = rest;
    let one = |action| match action {
        Action::AttestEnd(ticket, result, seen) => (ticket, result, seen.map(|seen| *seen)),
        other => panic!("{other:?}"),
    };
    asked.into_iter().map(one).collect()
}

fn attested(pair: &Pair, job: JobId) -> Attested {
    pair.row::<Job>(B, &job).attested
}

fn fail(pair: &mut Pair, job: JobId) {
    let origin = pair.nodes[B].id;
    pair.event(B, Event::JobUnsigned { origin, job, seen: Some(Box::new(seen())), events: Vec::new() });
}

/// What was seen of the streams of every job here.
fn seen() -> ExecutorOutput {
    let stream = |bytes_seen| StreamSeen { bytes_seen, raw_sha256: Digest::of(b"1"), truncated: true };
    ExecutorOutput { stdout: stream(1_000_000), stderr: stream(7) }
}

/// A job of B's own that has ended, and whose end could not be signed.
fn unsigned(pair: &mut Pair) -> JobId {
    let receipt = run(pair, B, None).unwrap();
    let ticket = started(pair);
    fail(pair, receipt.job_id);
    pair.event(B, report(&ticket, result(JobStatus::Succeeded)));
    receipt.job_id
}

#[test]
fn an_end_that_cannot_be_signed_is_there_at_once_says_so_and_is_signed_later() {
    let mut pair = Pair::new();
    let job = unsigned(&mut pair);
    let row: Job = pair.row(B, &job);
    assert_eq!(
        (row.status, row.attested.clone()),
        (JobStatus::Succeeded, Attested::Unsigned { failures: 1 })
    );
    assert_eq!(AttestationView::from(row.attested), AttestationView::Unsigned { failures: 1 });
    pair.pass(JOB_SIGN_AGAIN_MS - 1);
    assert!(asked(&mut pair).is_empty());
    pair.pass(1);
    let [(ticket, what, _)] = &asked(&mut pair)[..] else { panic!("it is tried again") };
    assert_eq!((ticket.job, what), (job, &result(JobStatus::Succeeded)));
    fail(&mut pair, job);
    assert_eq!(attested(&pair, job), Attested::Unsigned { failures: 2 });
    pair.pass(2 * JOB_SIGN_AGAIN_MS);
    assert_eq!(asked(&mut pair).len(), 1, "after twice as long");
    pair.event(B, Event::JobAttested { job, evidence: b"{}".to_vec() });
    assert_eq!(pair.row::<Evidence>(B, &job).0, b"{}");
    assert!(matches!(attested(&pair, job), Attested::Unverified(_)), "it is judged as any other");
    fail(&mut pair, job);
    assert!(matches!(attested(&pair, job), Attested::Unverified(_)), "what is kept never changes again");
    pair.restart(B);
    assert!(asked(&mut pair).is_empty());
}

#[test]
fn what_was_seen_of_the_streams_is_kept_until_it_is_signed_and_what_was_not_is_not_made_up() {
    let mut pair = Pair::new();
    let told = |pair: &mut Pair| asked(pair).pop().expect("it is tried again").2;
    let job = unsigned(&mut pair);
    pair.pass(JOB_SIGN_AGAIN_MS);
    assert_eq!(told(&mut pair), Some(seen()));
    fail(&mut pair, job);
    pair.restart(B);
    assert_eq!(told(&mut pair), Some(seen()), "also after a restart");
    // An end that was stored before the figures were, or of which nobody knows them.
    let origin = pair.nodes[B].id;
    pair.event(B, Event::JobUnsigned { origin, job, seen: None, events: Vec::new() });
    pair.restart(B);
    assert_eq!(told(&mut pair), None);
}

#[test]
fn the_last_event_of_an_end_that_cannot_be_signed_is_there_once_and_the_signature_is_about_it() {
    let mut pair = Pair::new();
    // Never linked: A decides the end of what it wanted from B.
    let job = run(&mut pair, A, None).unwrap().job_id;
    pair.command(A, Command::CancelJob(job)).unwrap();
    let origin = pair.nodes[A].id;
    let read = |pair: &Pair| events::after(&pair.nodes[A].store, (origin, job), 0, 100).unwrap();
    let fail = |pair: &mut Pair, events: &[JobEvent]| {
        pair.event(A, Event::JobUnsigned { origin, job, seen: None, events: events.to_vec() });
    };
    let chain = |kinds: &[EventKind]| {
        let mut chain = Chain::new(job.to_string());
        for kind in kinds {
            chain.append(1, *kind, Value::Null).unwrap();
        }
        chain.into_events()
    };
    let (ticket, ..) = asked_by(&mut pair, A).pop().unwrap();
    assert_eq!((ticket.events.len(), read(&pair).len()), (0, 0));
    let whole = chain(&[EventKind::Accepted, EventKind::Finished]);
    fail(&mut pair, &whole);
    let row: Job = pair.row(A, &job);
    assert_eq!((read(&pair), row.attested), (whole.clone(), Attested::Unsigned { failures: 1 }));
    pair.pass(JOB_SIGN_AGAIN_MS);
    assert_eq!(asked_by(&mut pair, A).pop().unwrap().0.events, whole, "it is signed as it was told");
    // What does not follow what was told is not taken.
    fail(&mut pair, &chain(&[EventKind::Accepted, EventKind::Stdout, EventKind::Finished]));
    assert_eq!(read(&pair), whole);
}

#[test]
fn signing_is_tried_a_bounded_number_of_times_and_then_once_at_each_start() {
    let mut pair = Pair::new();
    let job = unsigned(&mut pair);
    for _ in 1..JOB_SIGNINGS_MAX {
        pair.pass(JOB_SIGN_AGAIN_MS << JOB_SIGNINGS_MAX);
        assert_eq!(asked(&mut pair).len(), 1);
        fail(&mut pair, job);
    }
    assert_eq!(attested(&pair, job), Attested::Unsigned { failures: JOB_SIGNINGS_MAX });
    pair.pass(3_600_000);
    assert!(asked(&mut pair).is_empty());
    pair.restart(B);
    assert_eq!(asked(&mut pair).len(), 1);
    fail(&mut pair, job);
    pair.pass(3_600_000);
    assert!(asked(&mut pair).is_empty());
}

#[test]
fn a_start_with_many_ends_to_sign_takes_them_some_at_a_time() {
    let mut pair = Pair::new();
    let jobs: Vec<JobId> = (0..=JOB_SIGNINGS_AT_ONCE).map(|_| unsigned(&mut pair)).collect();
    for _ in 1..JOB_SIGNINGS_MAX {
        pair.pass(JOB_SIGN_AGAIN_MS << JOB_SIGNINGS_MAX);
        asked(&mut pair);
        jobs.iter().for_each(|job| fail(&mut pair, *job));
    }
    pair.pass(3_600_000);
    asked(&mut pair);
    pair.restart(B);
    let mut told: Vec<JobId> = asked(&mut pair).into_iter().map(|(ticket, ..)| ticket.job).collect();
    assert_eq!(told.len(), JOB_SIGNINGS_AT_ONCE);
    pair.pass(JOB_SIGN_AGAIN_MS);
    told.extend(asked(&mut pair).into_iter().map(|(ticket, ..)| ticket.job));
    told.sort_unstable();
    let mut all = jobs;
    all.sort_unstable();
    assert_eq!(told, all, "each once");
}

#[test]
fn a_crash_between_the_failure_and_the_end_leaves_a_job_that_was_interrupted() {
    let mut pair = Pair::new();
    let receipt = run(&mut pair, B, None).unwrap();
    started(&mut pair);
    fail(&mut pair, receipt.job_id);
    pair.restart(B);
    let closes =
        |action: &Action| matches!(action, Action::CloseJob(ticket, _) if ticket.job == receipt.job_id);
    assert!(pair.nodes[B].todo.iter().any(closes));
}

#[test]
fn the_end_of_a_peers_job_goes_back_without_a_proof_and_nothing_is_kept_to_be_signed() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, Some("b")).unwrap();
    let ticket = started(&mut pair);
    let (origin, job) = (ticket.origin, ticket.job);
    pair.event(B, Event::JobUnsigned { origin, job, seen: Some(Box::new(seen())), events: Vec::new() });
    pair.event(B, report(&ticket, result(JobStatus::Succeeded)));
    assert!(matches!(pair.row::<Job>(A, &receipt.job_id).attested, Attested::Missing(_)));
    pair.restart(B);
    assert!(asked(&mut pair).is_empty());
}

#[test]
fn the_bytes_of_what_became_of_a_proof_never_change() {
    assert_eq!(encode(&Attested::Pending), [0]);
    assert_eq!(encode(&Attested::Missing("x".into())), [1, 1, b'x']);
    assert_eq!(encode(&Attested::Unverified("x".into())), [3, 1, b'x']);
    assert_eq!(encode(&Attested::Unsigned { failures: 300 }), [4, 0xac, 2]);
}
