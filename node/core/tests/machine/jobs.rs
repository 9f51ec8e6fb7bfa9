//! Jobs: placed once, run once, ended truly.

use mesh_node_core::event::{Action, Caller, CloseReason, Command, Event, JobTicket, Reply};
use mesh_node_core::evidence::Attested;
use mesh_node_core::jobs::job::Job;
use mesh_node_core::jobs::submission::Submission;
use mesh_node_core::limits::SILENCE_MAX_MS;
use mesh_node_core::outbox;
use mesh_node_core::policy::GrantChange;
use mesh_protocol::api::error::ApiError;
use mesh_protocol::api::job::{JobReceipt, RunRequest};
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobResult, JobSpec, JobStatus, Language};
use mesh_protocol::policy::Permission;

use crate::pair::{A, B, Pair, executor};

fn spec() -> JobSpec {
    JobSpec::new(Language::Python, "print(1)")
}

pub(crate) fn submit(
    pair: &mut Pair,
    n: usize,
    caller: Caller,
    request: RunRequest,
) -> Result<JobReceipt, ApiError> {
    let submission = Box::new(Submission::of(request)?);
    match pair.command(n, Command::Run(caller, submission))? {
        Reply::Job(receipt) => Ok(receipt),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn run(pair: &mut Pair, n: usize, on: Option<&str>) -> Result<JobReceipt, ApiError> {
    let request =
        RunRequest { on: on.map(str::to_owned), deadline_seconds: Some(60), ..RunRequest::new(spec()) };
    submit(pair, n, Caller::Operator, request)
}

pub(crate) fn started(pair: &mut Pair) -> JobTicket {
    let at = pair.nodes[B].todo.iter().position(|action| matches!(action, Action::StartJob(..)));
    match pair.nodes[B].todo.remove(at.expect("a job was started")) {
        Action::StartJob(ticket, _) => ticket,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn result(status: JobStatus) -> JobResult {
    JobResult {
        status,
        exit_code: Some(0),
        killed_by: None,
        stdout: "1".into(),
        stderr: String::new(),
        truncated: false,
        duration_ms: 3,
        isolation: Some(IsolationClass::GvisorApplicationKernel),
        may_have_run: true,
        violations: Vec::new(),
        artifacts: Vec::new(),
    }
}

/// The end of a job as its sandbox reports it, with no proof.
pub(crate) fn report(ticket: &JobTicket, result: JobResult) -> Event {
    let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
    let (outputs, events) = (Vec::new(), Vec::new());
    Event::JobEnded { origin, job, attempt, result, evidence: Vec::new(), outputs, events }
}

pub(crate) fn end(pair: &mut Pair, ticket: &JobTicket, status: JobStatus) {
    pair.event(B, report(ticket, result(status)));
}

#[test]
fn a_job_runs_on_the_named_executor_and_its_result_comes_back() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    assert_eq!(receipt.node_name, "b", "this node has no sandbox, the operator named b");
    let ticket = started(&mut pair);
    assert_eq!(ticket.tenant, "a/operator");
    end(&mut pair, &ticket, JobStatus::Succeeded);
    let job: Job = pair.row(A, &receipt.job_id);
    assert_eq!(job.status, JobStatus::Succeeded);
    assert!(matches!(job.attested, Attested::Missing(_)), "a result without proof is kept and marked");
}

#[test]
fn a_class_nobody_has_is_refused_before_anything_is_stored() {
    let mut pair = Pair::new();
    let before = pair.nodes[A].store.clone();
    let error = run(&mut pair, A, Some("a")).unwrap_err();
    assert_eq!(error.code, "minimum_isolation_unsatisfied");
    assert!(error.hints[0].contains("--on b"), "{error:?}");
    assert_eq!(pair.nodes[A].store, before);
}

#[test]
fn a_job_interrupted_by_a_kill_is_closed_as_error_and_never_run_again() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    let ticket = started(&mut pair);
    pair.cut();
    pair.restart(B);
    let closed = Action::CloseJob(ticket.clone(), CloseReason::NodeRestarted);
    assert!(pair.nodes[B].todo.contains(&closed), "{:?}", pair.nodes[B].todo);
    assert!(!pair.nodes[B].todo.iter().any(|action| matches!(action, Action::StartJob(..))));
    end(&mut pair, &ticket, JobStatus::Error);
    pair.link();
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).status, JobStatus::Error);
}

#[test]
fn a_peer_without_the_permission_gets_an_error_that_did_not_run() {
    let mut pair = Pair::new();
    let deny = GrantChange { deny: vec![Permission::Job], ..GrantChange::default() };
    pair.command(B, Command::Grant(pair.nodes[A].id, deny)).unwrap();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    let job: Job = pair.row(A, &receipt.job_id);
    let result = job.result.unwrap();
    assert_eq!((result.status, result.may_have_run), (JobStatus::Error, false));
    assert!(result.stderr.contains("mesh-cli allow a job"), "{}", result.stderr);
}

#[test]
fn a_cancel_reaches_the_executor() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    let ticket = started(&mut pair);
    assert!(
        matches!(pair.command(A, Command::CancelJob(receipt.job_id)), Ok(Reply::Cancelled(c)) if c.on_its_way)
    );
    assert!(pair.nodes[B].todo.iter().any(|action| matches!(action, Action::StopJob { .. })));
    end(&mut pair, &ticket, JobStatus::Cancelled);
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).status, JobStatus::Cancelled);
}

#[test]
fn jobs_wait_for_a_free_slot_in_order() {
    let mut pair = Pair::new();
    pair.link();
    run(&mut pair, A, None).unwrap();
    let second = run(&mut pair, A, None).unwrap();
    let first = started(&mut pair);
    assert!(!pair.nodes[B].todo.iter().any(|action| matches!(action, Action::StartJob(..))));
    end(&mut pair, &first, JobStatus::Succeeded);
    assert_eq!(started(&mut pair).job, second.job_id);
}

#[test]
fn a_proof_that_does_not_verify_marks_the_result_and_keeps_it() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    let ticket = started(&mut pair);
    let event = match report(&ticket, result(JobStatus::Succeeded)) {
        Event::JobEnded { origin, job, attempt, result, outputs, events, .. } => {
            Event::JobEnded { origin, job, attempt, result, evidence: b"{}".to_vec(), outputs, events }
        }
        other => panic!("{other:?}"),
    };
    pair.event(B, event);
    let job: Job = pair.row(A, &receipt.job_id);
    assert!(matches!(job.attested, Attested::Unverified(_)), "{:?}", job.attested);
    assert_eq!(job.result.unwrap().stdout, "1");
}

#[test]
fn a_job_cancelled_before_it_started_stays_so_over_a_restart() {
    let mut pair = Pair::new();
    pair.link();
    let first = run(&mut pair, A, None).unwrap();
    let second = run(&mut pair, A, None).unwrap();
    assert_eq!(started(&mut pair).job, first.job_id);
    pair.command(A, Command::CancelJob(second.job_id)).unwrap();
    pair.cut();
    pair.restart(B);
    let why = pair.nodes[B].todo.iter().find_map(|action| match action {
        Action::CloseJob(ticket, why) if ticket.job == second.job_id => Some(*why),
        _ => None,
    });
    assert_eq!(why, Some(CloseReason::CancelledBeforeStart));
}

#[test]
fn a_job_that_waits_when_the_node_stops_runs_after_the_next_start() {
    let mut pair = Pair::new();
    let first = run(&mut pair, B, None).unwrap();
    let second = run(&mut pair, B, None).unwrap();
    let ticket = started(&mut pair);
    assert_eq!(ticket.job, first.job_id);
    pair.event(B, Event::Stopping);
    end(&mut pair, &ticket, JobStatus::Error);
    let begun = |action: &Action| matches!(action, Action::StartJob(..));
    assert!(!pair.nodes[B].todo.iter().any(begun), "a node that stops begins nothing");
    pair.restart(B);
    assert_eq!(started(&mut pair).job, second.job_id);
}

#[test]
fn a_job_that_comes_before_the_sandbox_was_observed_waits_for_it() {
    let mut pair = Pair::new();
    let receipt = run(&mut pair, A, None).unwrap();
    pair.restart_before_sandbox(B);
    pair.link();
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).result, None, "it is not refused");
    pair.event(B, Event::Executor(executor(B)));
    assert_eq!(started(&mut pair).job, receipt.job_id);
}

#[test]
fn a_job_that_waited_for_a_sandbox_that_cannot_run_it_is_closed() {
    let mut pair = Pair::new();
    pair.restart_before_sandbox(B);
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    pair.event(B, Event::Executor(ExecutorView { slots: 1, ..ExecutorView::default() }));
    let mut todo = std::mem::take(&mut pair.nodes[B].todo);
    todo.retain(|action| !matches!(action, Action::WakeAt(_)));
    let [Action::CloseJob(ticket, CloseReason::Unavailable)] = &todo[..] else { panic!("{todo:?}") };
    assert_eq!(ticket.job, receipt.job_id);
}

#[test]
fn a_job_that_is_being_closed_is_not_begun_when_a_slot_gets_free() {
    let mut pair = Pair::new();
    let first = run(&mut pair, B, None).unwrap();
    let second = run(&mut pair, B, None).unwrap();
    let ticket = started(&mut pair);
    assert_eq!(ticket.job, first.job_id);
    pair.command(B, Command::CancelJob(second.job_id)).unwrap();
    end(&mut pair, &ticket, JobStatus::Succeeded);
    let begun = |action: &Action| matches!(action, Action::StartJob(..));
    assert!(!pair.nodes[B].todo.iter().any(begun), "{:?}", pair.nodes[B].todo);
}

/// It was sent, and nobody knows what became of it: it waits for its own executor and goes to no other, however long.
#[test]
fn a_job_is_never_given_to_another_executor_because_of_time() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    let ticket = started(&mut pair);
    pair.cut();
    // This node gets a sandbox of its own, so that there is somewhere else to go.
    pair.event(A, Event::Executor(executor(B)));
    pair.pass(61_000);
    let waiting: Job = pair.row(A, &receipt.job_id);
    assert_eq!((waiting.node, waiting.result), (pair.nodes[B].id, None), "it waits for the one that has it");
    pair.pass(SILENCE_MAX_MS);
    let ended: Job = pair.row(A, &receipt.job_id);
    let result = ended.result.unwrap();
    assert_eq!((ended.node, result.may_have_run), (pair.nodes[B].id, true));
    assert_eq!(result.killed_by.as_deref(), Some("peer_silent"));
    assert!(!pair.nodes[A].todo.iter().any(|action| matches!(action, Action::StartJob(..))));
    // What went to the other node is the job and the word to stop it.
    let depth = outbox::depth(&pair.nodes[A].store, pair.now, pair.nodes[B].id).unwrap().unwrap();
    assert_eq!(depth.next - 1, 2);
    pair.restart(A);
    assert!(!pair.nodes[A].todo.iter().any(|action| matches!(action, Action::StartJob(..))));

    // The result that comes after all stands beside the outcome.
    end(&mut pair, &ticket, JobStatus::Succeeded);
    pair.link();
    let late: Job = pair.row(A, &receipt.job_id);
    assert_eq!(late.result, Some(result));
    assert_eq!(late.late.unwrap().status, JobStatus::Succeeded);
}

#[test]
fn the_report_of_another_attempt_ends_nothing() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    let ticket = started(&mut pair);
    end(&mut pair, &JobTicket { attempt: ticket.attempt + 1, ..ticket.clone() }, JobStatus::Failed);
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).result, None);
    end(&mut pair, &ticket, JobStatus::Succeeded);
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).status, JobStatus::Succeeded);
}
