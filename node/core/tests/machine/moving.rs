//! Jobs that said that they may be run twice, when their executor is gone.

use mesh_node_core::event::{Action, Caller, Event, JobTicket};
use mesh_node_core::jobs::job::Job;
use mesh_node_core::jobs::usage;
use mesh_node_core::limits::JOB_MOVE_AFTER_MS;
use mesh_node_core::store::{Scan, Store, Table};
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::job::{JobSpec, JobStatus, Language};

use crate::jobs::{end, report, result, started, submit};
use crate::pair::{A, B, Pair, executor};

fn request(idempotent: bool) -> RunRequest {
    RunRequest { idempotent, ..RunRequest::new(JobSpec::new(Language::Python, "print(1)")) }
}

fn begun_here(pair: &Pair) -> Option<JobTicket> {
    pair.nodes[A].todo.iter().find_map(|action| match action {
        Action::StartJob(ticket, _) => Some(ticket.clone()),
        _ => None,
    })
}

#[test]
fn a_job_that_may_run_twice_is_given_to_another_executor_when_its_own_is_gone() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = submit(&mut pair, A, Caller::Operator, request(true)).unwrap();
    let ticket = started(&mut pair);
    let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
    pair.event(B, Event::JobStarted { origin, job, attempt });
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).status, JobStatus::Running);
    // There is somewhere else to go, and no reason to.
    pair.event(A, Event::Executor(executor(B)));
    pair.pass(JOB_MOVE_AFTER_MS);
    assert_eq!(begun_here(&pair), None, "its executor answers");
    pair.cut();
    pair.pass(JOB_MOVE_AFTER_MS);
    let here = begun_here(&pair).unwrap();
    assert_eq!((here.job, here.origin), (receipt.job_id, pair.nodes[A].id));
    let moved: Job = pair.row(A, &receipt.job_id);
    assert_eq!((moved.node, moved.status), (pair.nodes[A].id, JobStatus::Queued));
    assert_eq!(usage::of(&pair.nodes[A].store, "operator").unwrap().queued, 1);
    assert_eq!(moved.tried, [pair.nodes[B].id]);

    // What the first one still says is not believed, and it is told to stop.
    end(&mut pair, &ticket, JobStatus::Failed);
    pair.link();
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).result, None);
    let event = report(&here, result(JobStatus::Succeeded));
    pair.event(A, event);
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).status, JobStatus::Succeeded);
    assert_eq!(usage::of(&pair.nodes[A].store, "operator").unwrap().queued, 0);
    let bodies = pair.nodes[A].store.scan(Table::JobBodies, &Scan::prefix(&[], 9)).unwrap();
    assert!(bodies.is_empty(), "its program is not kept longer than it may be needed");
}

#[test]
fn a_job_that_did_not_say_so_stays_where_it_is() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = submit(&mut pair, A, Caller::Operator, request(false)).unwrap();
    started(&mut pair);
    pair.event(A, Event::Executor(executor(B)));
    pair.cut();
    pair.pass(10 * JOB_MOVE_AFTER_MS);
    assert_eq!(begun_here(&pair), None);
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).node, pair.nodes[B].id);
}

#[test]
fn a_job_that_was_stopped_is_not_moved() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = submit(&mut pair, A, Caller::Operator, request(true)).unwrap();
    started(&mut pair);
    pair.cut();
    pair.command(A, mesh_node_core::event::Command::CancelJob(receipt.job_id)).unwrap();
    pair.event(A, Event::Executor(executor(B)));
    pair.pass(10 * JOB_MOVE_AFTER_MS);
    assert_eq!(begun_here(&pair), None);
}
