//! What a tenant is promised: one job a key, room that is its own, an account of every end.

use mesh_node_core::event::{Action, Caller, Command, Event, Reply};
use mesh_node_core::evidence::{Attested, Evidence};
use mesh_node_core::jobs::events;
use mesh_node_core::jobs::job::Job;
use mesh_node_core::jobs::usage::{self, Usage};
use mesh_node_core::limits::{JOB_RETAIN_MS, SWEEP_BATCH};
use mesh_node_core::store::get;
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::{Chain, check_links};
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{
    Contents, FILE_BYTES_MAX, InputFile, JobLimits, JobSpec, JobStatus, Language, Requirements,
};

use crate::jobs::{end, report, result, run, started, submit};
use crate::pair::{A, B, Pair, policy};

fn tenant(name: &str) -> Caller {
    Caller::Tenant { tenant: name.to_owned(), principal: format!("{name}-key") }
}

fn keyed(key: &str, code: &str) -> RunRequest {
    let idempotency_key = Some(key.to_owned());
    RunRequest { idempotency_key, ..RunRequest::new(JobSpec::new(Language::Python, code)) }
}

fn begun(pair: &Pair, n: usize) -> usize {
    pair.nodes[n].todo.iter().filter(|action| matches!(action, Action::StartJob(..))).count()
}

/// The sandbox of the first job is up: it waits no longer.
fn ready(pair: &mut Pair) {
    let ticket = started(pair);
    let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
    pair.event(B, Event::JobStarted { origin, job, attempt });
}

#[test]
fn the_same_key_and_job_is_the_same_job_however_it_is_written() {
    let mut pair = Pair::new();
    let first = submit(&mut pair, B, tenant("acme"), keyed("k", "print(1)")).unwrap();
    let written = r#"{"limits":{"mem_mb":256},"code":"print(1)","stdin":"","language":"python"}"#;
    let spec: JobSpec = serde_json::from_str(written).unwrap();
    let again = RunRequest { spec, ..keyed("k", "") };
    let second = submit(&mut pair, B, tenant("acme"), again).unwrap();
    assert_eq!((second.job_id, second.replayed), (first.job_id, true));
    assert_eq!(pair.count::<Job>(B), 1);
}

#[test]
fn another_job_under_a_used_key_is_refused_and_another_tenant_has_its_own_keys() {
    let mut pair = Pair::new();
    let first = submit(&mut pair, B, tenant("acme"), keyed("k", "print(1)")).unwrap();
    let error = submit(&mut pair, B, tenant("acme"), keyed("k", "print(2)")).unwrap_err();
    assert_eq!(error.code, "idempotency_key_reused");
    let other = submit(&mut pair, B, tenant("umbrella"), keyed("k", "print(1)")).unwrap();
    assert!(!other.replayed && other.job_id != first.job_id);
    // An agent and the operator are tenants too, of names that no key can have.
    let agent = Caller::Agent { name: "acme".parse().unwrap(), hops: Vec::new() };
    assert!(!submit(&mut pair, B, agent, keyed("k", "print(1)")).unwrap().replayed);
    assert!(!submit(&mut pair, B, Caller::Operator, keyed("k", "print(1)")).unwrap().replayed);
}

#[test]
fn a_key_of_no_characters_too_many_or_of_control_characters_is_refused() {
    let mut pair = Pair::new();
    for key in ["", &"k".repeat(129), "a b", "a\n", "é"] {
        let error = submit(&mut pair, B, tenant("acme"), keyed(key, "print(1)")).unwrap_err();
        assert_eq!(error.code, "invalid_idempotency_key", "{key:?}");
    }
    assert!(submit(&mut pair, B, tenant("acme"), keyed(&"k".repeat(128), "print(1)")).is_ok());
}

#[test]
fn a_key_survives_a_restart_and_a_replay_tells_the_true_status() {
    let mut pair = Pair::new();
    let first = submit(&mut pair, B, tenant("acme"), keyed("k", "print(1)")).unwrap();
    assert_eq!(first.status, JobStatus::Queued);
    let ticket = started(&mut pair);
    end(&mut pair, &ticket, JobStatus::Failed);
    pair.restart(B);
    let again = submit(&mut pair, B, tenant("acme"), keyed("k", "print(1)")).unwrap();
    assert_eq!((again.job_id, again.status), (first.job_id, JobStatus::Failed));
}

#[test]
fn a_replay_works_while_the_queue_is_full_and_while_the_node_stops() {
    let mut pair = Pair::new();
    let first = submit(&mut pair, B, tenant("acme"), keyed("k0", "print(1)")).unwrap();
    ready(&mut pair);
    for n in 1..=policy().tenant_queue_max {
        submit(&mut pair, B, tenant("acme"), keyed(&format!("k{n}"), "print(1)")).unwrap();
    }
    let error = submit(&mut pair, B, tenant("acme"), keyed("more", "print(1)")).unwrap_err();
    assert_eq!(error.code, "tenant_queue_saturated");
    assert_eq!(submit(&mut pair, B, tenant("acme"), keyed("k0", "print(1)")).unwrap().job_id, first.job_id);
    pair.event(B, Event::Stopping);
    assert_eq!(submit(&mut pair, B, tenant("acme"), keyed("k0", "print(1)")).unwrap().job_id, first.job_id);
    let error = submit(&mut pair, B, tenant("umbrella"), keyed("new", "print(1)")).unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("shutting_down", true));
}

#[test]
fn a_full_queue_of_one_tenant_does_not_touch_another_until_the_node_is_full() {
    let mut pair = Pair::new();
    let submit_for = |pair: &mut Pair, who: &str| {
        submit(pair, B, tenant(who), RunRequest::new(JobSpec::new(Language::Python, "print(1)")))
    };
    submit_for(&mut pair, "acme").unwrap();
    ready(&mut pair);
    for _ in 0..policy().tenant_queue_max {
        submit_for(&mut pair, "acme").unwrap();
    }
    let before = pair.nodes[B].store.clone();
    assert_eq!(submit_for(&mut pair, "acme").unwrap_err().code, "tenant_queue_saturated");
    assert_eq!(pair.nodes[B].store, before, "nothing of it is stored");
    submit_for(&mut pair, "umbrella").unwrap();
    submit_for(&mut pair, "umbrella").unwrap();
    assert_eq!(submit_for(&mut pair, "initech").unwrap_err().code, "queue_saturated");
}

#[test]
fn what_a_job_was_charged_is_given_back_when_it_is_forgotten_with_its_key_and_all_it_left() {
    let mut pair = Pair::new();
    let running = submit(&mut pair, B, tenant("acme"), keyed("long", "print(0)")).unwrap();
    let long = started(&mut pair);
    let first = submit(&mut pair, B, tenant("umbrella"), keyed("k", "print(1)")).unwrap();
    end(&mut pair, &long, JobStatus::Succeeded);
    let ticket = started(&mut pair);
    assert_eq!(ticket.job, first.job_id);
    // It says more than one sweep removes.
    let mut chain = Chain::resume(first.job_id.to_string(), ticket.events.clone()).unwrap();
    for _ in 0..2 * SWEEP_BATCH {
        chain.append(1, EventKind::Stdout, Value::Null).unwrap();
    }
    let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
    let told = chain.events()[1..].to_vec();
    pair.event(B, Event::JobEvents { origin, job, attempt, events: told });
    end(&mut pair, &ticket, JobStatus::Succeeded);
    let usage = |pair: &Pair, who: &str| usage::of(&pair.nodes[B].store, who).unwrap();
    assert_eq!((usage(&pair, "umbrella").jobs, usage(&pair, "umbrella").queued), (1, 0));
    assert!(usage(&pair, "umbrella").bytes > 0);
    // Another one is still waiting when the time of the first is over, and stays.
    let blocked = submit(&mut pair, B, tenant("acme"), keyed("next", "print(2)")).unwrap();
    pair.now.node = mesh_node_core::time::NodeTime(pair.now.node.0 + JOB_RETAIN_MS);
    pair.event(B, Event::Due);
    let store = |pair: &Pair, id| get::<Job>(&pair.nodes[B].store, &id).unwrap();
    assert_eq!(store(&pair, first.job_id), None, "gone at once for everybody");
    assert_eq!(store(&pair, running.job_id), None);
    assert!(store(&pair, blocked.job_id).is_some(), "what has not ended is kept");
    let left = |pair: &Pair| events::after(&pair.nodes[B].store, (pair.nodes[B].id, job), 0, 5_000).unwrap();
    assert!(!left(&pair).is_empty(), "and removed in steps");
    pair.restart(B);
    while !left(&pair).is_empty() {
        let before = left(&pair).len();
        pair.event(B, Event::Due);
        assert!(before - left(&pair).len() <= SWEEP_BATCH && left(&pair).len() < before);
    }
    assert_eq!(usage(&pair, "umbrella"), Usage::default());
    let again = submit(&mut pair, B, tenant("umbrella"), keyed("k", "print(1)")).unwrap();
    assert!(!again.replayed && again.job_id != first.job_id, "its key is free again");
}

#[test]
fn the_storage_of_a_tenant_and_of_the_node_has_an_end() {
    let mut pair = Pair::new();
    let file = |n: u8| InputFile { path: format!("input/{n}"), content: Contents(vec![n; FILE_BYTES_MAX]) };
    let mut site = pair.site(B);
    site.jobs.tenant_bytes_max = 12 * 1024 * 1024;
    site.jobs.bytes_max = 20 * 1024 * 1024;
    pair.replace(B, site);
    let large = || JobSpec { files: vec![file(1), file(2)], ..JobSpec::new(Language::Python, "print(1)") };
    submit(&mut pair, B, tenant("acme"), RunRequest::new(large())).unwrap();
    let error = submit(&mut pair, B, tenant("acme"), RunRequest::new(large())).unwrap_err();
    assert_eq!(error.code, "tenant_storage_quota");
    let error = submit(&mut pair, B, tenant("umbrella"), RunRequest::new(large())).unwrap_err();
    assert_eq!(error.code, "storage_capacity");
    submit(&mut pair, B, tenant("umbrella"), RunRequest::new(JobSpec::new(Language::Python, "1"))).unwrap();
}

#[test]
fn memory_is_decided_when_a_job_is_accepted_and_later_only_tightened() {
    for (later, expected) in [(64, 64), (1024, 128)] {
        let mut pair = Pair::new();
        let mut site = pair.site(B);
        site.jobs.job_mem_mb_max = 128;
        pair.replace(B, site);
        run(&mut pair, B, None).unwrap();
        started(&mut pair);
        let limits = JobLimits { mem_mb: 512, ..JobLimits::default() };
        let spec = JobSpec { limits, ..JobSpec::new(Language::Python, "print(1)") };
        let waits = submit(&mut pair, B, tenant("acme"), RunRequest::new(spec)).unwrap();
        let mut site = pair.site(B);
        site.jobs.job_mem_mb_max = later;
        pair.replace(B, site);
        pair.event(B, Event::Started);
        let closed = pair.nodes[B].todo.iter().find_map(|action| match action {
            Action::CloseJob(ticket, _) => Some(ticket.clone()),
            _ => None,
        });
        end(&mut pair, &closed.unwrap(), JobStatus::Error);
        let granted = pair.nodes[B].todo.iter().find_map(|action| match action {
            Action::StartJob(ticket, spec) if ticket.job == waits.job_id => {
                Some((ticket.asked.limits, spec.limits))
            }
            _ => None,
        });
        let (asked, granted) = granted.unwrap();
        assert_eq!((asked.mem_mb, granted.mem_mb), (512, expected));
    }
}

#[test]
fn an_isolation_class_nobody_has_is_refused_and_nothing_is_stored() {
    let mut pair = Pair::new();
    let before = pair.nodes[A].store.clone();
    let requirements = Requirements { minimum_isolation: IsolationClass::GvisorApplicationKernel };
    let spec = JobSpec { requirements, ..JobSpec::new(Language::Python, "print(1)") };
    let request = RunRequest { on: Some("a".into()), ..RunRequest::new(spec) };
    let error = submit(&mut pair, A, tenant("acme"), request).unwrap_err();
    assert_eq!(error.code, "minimum_isolation_unsatisfied");
    assert_eq!(pair.nodes[A].store, before);
}

#[test]
fn a_queued_job_that_is_cancelled_never_starts_and_one_that_is_over_says_so() {
    let mut pair = Pair::new();
    run(&mut pair, B, None).unwrap();
    let second = run(&mut pair, B, None).unwrap();
    let first = started(&mut pair);
    pair.command(B, Command::CancelJob(second.job_id)).unwrap();
    let closed = pair.nodes[B].todo.iter().find_map(|action| match action {
        Action::CloseJob(ticket, _) => Some(ticket.clone()),
        _ => None,
    });
    end(&mut pair, &closed.unwrap(), JobStatus::Cancelled);
    end(&mut pair, &first, JobStatus::Succeeded);
    assert_eq!(begun(&pair, B), 0);
    for _ in 0..2 {
        let Reply::Cancelled(reply) = pair.command(B, Command::CancelJob(second.job_id)).unwrap() else {
            panic!("a cancel is answered as one")
        };
        assert!(reply.already_terminal);
        assert_eq!(reply.state, "cancelled");
    }
}

#[test]
fn a_cancel_that_races_the_end_leaves_one_end() {
    let mut pair = Pair::new();
    let receipt = run(&mut pair, B, None).unwrap();
    let ticket = started(&mut pair);
    pair.command(B, Command::CancelJob(receipt.job_id)).unwrap();
    end(&mut pair, &ticket, JobStatus::Succeeded);
    end(&mut pair, &ticket, JobStatus::Cancelled);
    let job: Job = pair.row(B, &receipt.job_id);
    assert_eq!((job.status, job.late), (JobStatus::Succeeded, None));
}

#[test]
fn events_are_kept_from_accepted_on_and_read_behind_a_cursor() {
    let mut pair = Pair::new();
    let receipt = run(&mut pair, B, None).unwrap();
    let ticket = started(&mut pair);
    assert_eq!(ticket.events.len(), 1);
    let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
    let mut chain = Chain::resume(job.to_string(), ticket.events.clone()).unwrap();
    for kind in [EventKind::Started, EventKind::Stdout, EventKind::Finished] {
        chain.append(1, kind, Value::Null).unwrap();
    }
    let (told, last) = (chain.events()[1..3].to_vec(), chain.events()[3..].to_vec());
    pair.event(B, Event::JobEvents { origin, job, attempt, events: told.clone() });
    let read = |pair: &Pair, after, limit| {
        events::after(&pair.nodes[B].store, (pair.nodes[B].id, job), after, limit).unwrap()
    };
    assert_eq!(read(&pair, 0, 100), chain.events()[..3], "what is told while it runs is there at once");
    assert_eq!(read(&pair, 1, 1), told[..1]);
    assert_eq!(read(&pair, 3, 100), []);
    // Another attempt's are not taken.
    pair.event(B, Event::JobEvents { origin, job, attempt: attempt + 1, events: last.clone() });
    assert_eq!(read(&pair, 3, 100), []);
    let mut ended = report(&ticket, result(JobStatus::Succeeded));
    if let Event::JobEnded { events, .. } = &mut ended {
        events.clone_from(&last);
    }
    pair.event(B, ended);
    assert_eq!(read(&pair, 0, 100), chain.events());
    check_links(&receipt.job_id.to_string(), &read(&pair, 0, 100)).unwrap();
    assert_eq!(read(&pair, u64::MAX, 1), []);
}

#[test]
fn events_reach_the_asking_node_as_they_happen_and_what_does_not_follow_is_not_taken() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = run(&mut pair, A, None).unwrap();
    let ticket = started(&mut pair);
    let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
    let mut chain = Chain::resume(job.to_string(), ticket.events.clone()).unwrap();
    for _ in 0..64 {
        chain.append(1, EventKind::Stdout, Value::Null).unwrap();
    }
    pair.event(B, Event::JobEvents { origin, job, attempt, events: chain.events()[1..].to_vec() });
    let read = |pair: &Pair| events::after(&pair.nodes[A].store, (pair.nodes[A].id, job), 0, 100).unwrap();
    assert_eq!(read(&pair), chain.events(), "`accepted` with them, in messages of at most 64");
    // One is lost on the way: what follows it waits for the evidence.
    chain.append(1, EventKind::Stdout, Value::Null).unwrap();
    chain.append(1, EventKind::Stdout, Value::Null).unwrap();
    pair.event(B, Event::JobEvents { origin, job, attempt, events: chain.events()[66..].to_vec() });
    assert_eq!(read(&pair).len(), 65);
    assert_eq!(pair.row::<Job>(A, &receipt.job_id).status, JobStatus::Queued);
}

#[test]
fn an_end_that_this_node_decides_is_attested_by_it_and_asked_for_again_after_a_crash() {
    let mut pair = Pair::new();
    // Never linked: nothing was sent.
    let receipt = run(&mut pair, A, None).unwrap();
    pair.command(A, Command::CancelJob(receipt.job_id)).unwrap();
    let job: Job = pair.row(A, &receipt.job_id);
    assert_eq!((job.status, &job.attested), (JobStatus::Cancelled, &Attested::Pending));
    let asked = |pair: &Pair| {
        let mut tickets = pair.nodes[A].todo.iter().filter_map(|action| match action {
            Action::AttestEnd(ticket, result, _) => Some((ticket.clone(), result.clone())),
            _ => None,
        });
        tickets.next()
    };
    let (ticket, result) = asked(&pair).unwrap();
    assert_eq!((ticket.job, result.status), (receipt.job_id, JobStatus::Cancelled));
    pair.restart(A);
    assert_eq!(asked(&pair), Some((ticket, result)));
    pair.event(A, Event::JobAttested { job: receipt.job_id, evidence: b"{}".to_vec() });
    assert!(matches!(pair.row::<Job>(A, &receipt.job_id).attested, Attested::Unverified(_)));
    assert_eq!(pair.row::<Evidence>(A, &receipt.job_id).0, b"{}");
    // What is kept never changes again.
    pair.event(A, Event::JobAttested { job: receipt.job_id, evidence: b"other".to_vec() });
    assert_eq!(pair.row::<Evidence>(A, &receipt.job_id).0, b"{}");
    pair.restart(A);
    assert_eq!(asked(&pair), None);
}
