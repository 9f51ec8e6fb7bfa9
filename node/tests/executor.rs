//! Claims about the executor, most of them made in real sandboxes.
//!
//! Where gVisor is not installed those are skipped, and say so; with `MESH_REQUIRE_SANDBOX=1` they fail instead.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test says what it expected")]

#[path = "executor/fixture.rs"]
mod fixture;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use fixture::{Asked, job, open, open_changed, open_with, prepare};
use mesh_node::executor::ExecutorOptions;
use mesh_node_core::event::{CloseReason, Event, JobTicket};
use mesh_node_core::evidence::{Attested, judge};
use mesh_protocol::evidence::artifact::Captured;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::EventKind::{
    Accepted, Artifact, Finished, Started, Stdout, Truncated, Violation,
};
use mesh_protocol::evidence::receipt::Outcome;
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{
    Contents, InputFile, JobLimits, JobResult, JobStatus, Language, OUTPUT_BYTES_MAX, OutputFile,
};

const SLEEP: &str = "sleep 60";

#[tokio::test]
async fn a_job_runs_and_the_node_that_asked_finds_its_proof_good() {
    let Some(node) = open().await else { return };
    let mut asked = job(1, Language::Python, "import sys; print(sys.stdin.read().upper())");
    asked.spec.stdin = "hello".to_owned();
    let ended = node.run(&asked);
    assert_eq!((ended.result.status, ended.result.exit_code), (JobStatus::Succeeded, Some(0)));
    assert_eq!((ended.result.stdout.as_str(), ended.result.killed_by.as_deref()), ("HELLO\n", None));
    assert_eq!(ended.result.isolation, Some(IsolationClass::GvisorApplicationKernel));
    assert!(ended.result.may_have_run && !ended.result.truncated);
    assert!(node.judged_complete(&ended));
    let (verified, kinds) = node.verify(&ended);
    assert_eq!(kinds, [Accepted, Started, Stdout, Finished]);
    let observed = verified.receipt().execution.observed.as_ref().unwrap();
    assert_eq!(observed.isolation_class.as_deref(), Some("gvisor-application-kernel"));
    assert_eq!(observed.networking.as_deref(), Some("disabled"));
    assert!(verified.evidence_complete());
    assert_eq!(node.executor.running(), 0);
}

#[tokio::test]
async fn nothing_a_requester_reads_names_a_place_on_this_machine() {
    let Some(node) = open().await else { return };
    let ended = node.run(&job(1, Language::Bash, "pwd; mount; env"));
    let dir = node.dir.path().to_str().unwrap();
    assert!(ended.result.stdout.contains("/work"));
    assert!(!ended.result.stdout.contains(dir));
    assert!(!String::from_utf8(ended.evidence).unwrap().contains(dir));
}

#[tokio::test]
async fn a_runtime_that_breaks_later_is_an_error_that_says_nothing_of_this_machine() {
    let breaks = |options: &mut ExecutorOptions| {
        let (runsc, broken) = (options.dir.join("runsc"), options.dir.join("broken"));
        let broken = broken.display();
        let script = format!(
            "#!/bin/sh\nif [ -e {broken} ]; then echo cannot read {broken} >&2; exit 1; fi\nexec runsc \"$@\"\n"
        );
        fs::write(&runsc, script).unwrap();
        fs::set_permissions(&runsc, Permissions::from_mode(0o755)).unwrap();
        options.runsc = Some(runsc);
    };
    let Some(node) = open_changed(breaks).await else { return };
    assert_eq!(node.run(&job(1, Language::Bash, "true")).result.status, JobStatus::Succeeded);
    fs::write(node.dir.path().join("broken"), "").unwrap();
    let ended = node.run(&job(2, Language::Bash, "true"));
    assert_eq!((ended.result.status, ended.result.isolation), (JobStatus::Error, None), "{:?}", ended.result);
    assert_eq!(ended.result.killed_by.as_deref(), Some("executor_failure"));
    assert!(!ended.result.may_have_run);
    assert!(node.judged_complete(&ended));
    let (verified, kinds) = node.verify(&ended);
    assert_eq!((kinds, &verified.receipt().execution.observed), (vec![Accepted, Finished], &None));
    let said = format!("{:?} {}", ended.result, String::from_utf8_lossy(&ended.evidence));
    assert!(!said.contains(node.dir.path().to_str().unwrap()) && !said.contains("cannot read"), "{said}");
}

#[tokio::test]
async fn another_exit_code_is_a_failure_with_that_code() {
    let Some(node) = open().await else { return };
    let ended = node.run(&job(1, Language::Bash, "echo no >&2; exit 3"));
    assert_eq!((ended.result.status, ended.result.exit_code), (JobStatus::Failed, Some(3)));
    assert_eq!((ended.result.stderr.as_str(), ended.result.killed_by.as_deref()), ("no\n", None));
    assert!(ended.result.may_have_run);
    assert!(node.judged_complete(&ended));
}

#[tokio::test]
async fn a_job_over_its_wall_time_is_timed_out() {
    let Some(node) = open().await else { return };
    let mut asked = job(1, Language::Bash, SLEEP);
    asked.spec.limits = JobLimits { wall_seconds: 1, ..JobLimits::default() };
    let ended = node.run(&asked);
    assert_eq!(ended.result.status, JobStatus::TimedOut);
    assert_eq!((ended.result.killed_by.as_deref(), ended.result.exit_code), (Some("wall"), None));
    assert!(ended.result.duration_ms >= 1_000);
    assert!(node.judged_complete(&ended));
}

#[tokio::test]
async fn a_running_job_is_stopped_on_request() {
    let Some(node) = open().await else { return };
    let asked = job(1, Language::Bash, SLEEP);
    let (origin, id) = (asked.origin, asked.job);
    node.start(&asked);
    assert_eq!(node.next_started(), id);
    node.executor.stop(origin, id);
    let ended = node.next_ended();
    assert_eq!(ended.result.status, JobStatus::Cancelled);
    assert_eq!(ended.result.killed_by.as_deref(), Some("cancelled"));
    assert!(ended.result.may_have_run);
    assert!(node.judged_complete(&ended));
}

#[tokio::test]
async fn jobs_run_side_by_side_and_one_stopped_while_it_waits_never_starts() {
    let Some(node) = open_with(2).await else { return };
    let tickets: Vec<Asked> = (1..=3).map(|number| job(number, Language::Bash, SLEEP)).collect();
    let [first, second, third] = tickets.as_slice() else { panic!("three") };
    node.start(first);
    node.start(second);
    let mut started = [node.next_started(), node.next_started()];
    started.sort_unstable();
    assert_eq!(started, [first.job, second.job]);
    node.start(third);
    for ticket in [third, second, first] {
        node.executor.stop(ticket.origin, ticket.job);
    }
    let mut ends = [node.next_ended(), node.next_ended(), node.next_ended()];
    ends.sort_by_key(|ended| ended.job);
    let words = ends.each_ref().map(|ended| ended.result.killed_by.as_deref());
    assert_eq!(words, [Some("cancelled"), Some("cancelled"), Some("cancelled_before_start")]);
    assert_eq!(ends.each_ref().map(|ended| ended.result.may_have_run), [true, true, false]);
    assert!(ends.iter().all(|ended| node.judged_complete(ended)));
}

#[tokio::test]
async fn output_that_is_no_text_is_signed_byte_for_byte() {
    let Some(node) = open().await else { return };
    let ended = node.run(&job(1, Language::Python, "import os; os.write(1, bytes(range(256)))"));
    assert!(node.judged_complete(&ended));
    let (verified, _) = node.verify(&ended);
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(verified.artifact.unwrap().stdout.to_bytes(), Some(bytes.clone()));
    assert_eq!(ended.result.stdout, String::from_utf8_lossy(&bytes));
}

#[tokio::test]
async fn output_at_its_worst_is_cut_and_still_proven() {
    let Some(node) = open().await else { return };
    let code = "import os\nfor fd in 1, 2:\n    for _ in range(20): os.write(fd, b'\\x01' * 65536)";
    let ended = node.run(&job(1, Language::Python, code));
    assert_eq!(ended.result.status, JobStatus::Succeeded);
    assert!(ended.result.truncated && ended.result.stdout.len() <= OUTPUT_BYTES_MAX);
    assert!(node.judged_complete(&ended));
    let (verified, kinds) = node.verify(&ended);
    assert_eq!(kinds.iter().filter(|kind| **kind == Truncated).count(), 2);
    let output = verified.receipt().execution.executor_output.as_ref().unwrap();
    assert_eq!((output.stdout.bytes_seen, output.stderr.bytes_seen), (20 * 65_536, 20 * 65_536));
    assert!(output.stdout.truncated && verified.receipt().output.truncated);
}

#[tokio::test]
async fn a_shutdown_ends_what_runs_as_a_restart_would_and_reports_it() {
    let Some(node) = open().await else { return };
    let asked = job(1, Language::Bash, SLEEP);
    node.start(&asked);
    assert_eq!(node.next_started(), asked.job);
    assert!(node.executor.shutdown().await);
    let ended = node.next_ended();
    assert_eq!(ended.result.status, JobStatus::Error);
    assert_eq!(ended.result.killed_by.as_deref(), Some("server_restarted"));
    assert!(ended.result.may_have_run);
    assert!(node.judged_complete(&ended));
}

#[tokio::test]
async fn the_end_of_a_job_that_is_not_running_is_attested_without_observations() {
    use JobStatus::{Cancelled, Error};
    let node = prepare(|options| options.enabled = false).await;
    let expected = [
        (CloseReason::NodeRestarted, Error, "server_restarted", true),
        (CloseReason::CancelledBeforeStart, Cancelled, "cancelled_before_start", false),
        (CloseReason::DeadlinePassed, Error, "deadline", false),
        (CloseReason::Unavailable, Error, "executor_unavailable", false),
    ];
    for (reason, status, word, may_have_run) in expected {
        node.executor.close(JobTicket { attempt: 4, ..job(1, Language::Bash, SLEEP).ticket() }, reason);
        let ended = node.next_ended();
        assert_eq!((ended.attempt, ended.result.status), (4, status));
        assert_eq!(ended.result.killed_by.as_deref(), Some(word));
        assert_eq!((ended.result.may_have_run, ended.result.isolation), (may_have_run, None));
        // Only a restart loses events: what happened before it was not stored.
        let whole = reason != CloseReason::NodeRestarted;
        assert_eq!(node.judged_complete(&ended), whole);
        let (verified, kinds) = node.verify(&ended);
        assert_eq!(kinds, [Accepted, Finished]);
        let execution = &verified.receipt().execution;
        assert_eq!((execution.evidence_complete, &execution.observed), (whole, &None));
        assert_eq!((execution.started_at_ms, &execution.resource_usage), (None, &None));
    }
}

#[tokio::test]
async fn a_machine_without_the_runtime_offers_nothing_and_says_what_to_do() {
    let node = prepare(|options| options.runsc = Some(options.dir.join("absent"))).await;
    let view = &node.found.view;
    assert!(view.classes.is_empty() && view.languages.is_empty() && view.slots == 0);
    let why = view.unavailable.as_deref().unwrap();
    assert!(why.contains("`mesh-cli setup gvisor`"), "{why}");
    assert!(!why.contains(node.dir.path().to_str().unwrap()), "{why}");
    assert!(node.found.checks.iter().any(|check| check.name == "sandbox-runtime" && check.verdict == "warn"));
    let ended = node.run(&job(1, Language::Bash, "true"));
    assert_eq!(ended.result.status, JobStatus::Error);
    assert_eq!(ended.result.killed_by.as_deref(), Some("executor_unavailable"));
    assert!(!ended.result.may_have_run);
    assert!(node.judged_complete(&ended));
}

#[tokio::test]
async fn what_comes_after_a_shutdown_is_left_to_the_next_start() {
    let node = prepare(|options| options.enabled = false).await;
    assert!(node.executor.shutdown().await);
    node.start(&job(1, Language::Bash, "true"));
    node.executor.close(job(2, Language::Bash, "true").ticket(), CloseReason::DeadlinePassed);
    assert_eq!(node.executor.running(), 0);
    assert!(node.try_next().is_none());
}

#[tokio::test]
async fn files_go_in_and_the_ones_that_were_asked_for_come_out_as_subjects_of_the_statement() {
    let Some(node) = open().await else { return };
    let code = "import os\ndata = open('input/data/a.bin', 'rb').read()\nopen('output/b.bin', 'wb').write(data[::-1])\n\
                open('output/undeclared', 'w').write('x')";
    let mut asked = job(1, Language::Python, code);
    let bytes: Vec<u8> = (0..=255).collect();
    asked.spec.files = vec![InputFile { path: "input/data/a.bin".into(), content: Contents(bytes.clone()) }];
    asked.spec.outputs = vec!["output/b.bin".into()];
    let ended = node.run(&asked);
    assert_eq!(ended.result.status, JobStatus::Succeeded, "{:?}", ended.result);
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    let expected = OutputFile { path: "output/b.bin".into(), content: Contents(reversed) };
    assert_eq!(ended.outputs, [expected], "what was not asked for stays there");
    assert!(node.judged_complete(&ended));
    let (verified, kinds) = node.verify(&ended);
    assert!(kinds.contains(&Artifact));
    let execution = &verified.receipt().execution;
    assert_eq!(execution.artifacts, ended.result.artifacts);
    assert_eq!(execution.artifacts[0].sha256, Digest::of(&ended.outputs[0].content.0));
    assert_eq!(execution.input_files, asked.spec.file_digests());
    let subjects: Vec<&str> =
        verified.statement.subject.iter().map(|subject| subject.name.as_str()).collect();
    assert_eq!(subjects[1], format!("mesh://jobs/{}/output/b.bin", ended.job));
    // Another file in its place is not what was signed.
    let mut swapped = ended.clone();
    swapped.outputs[0].content = Contents(b"other".to_vec());
    let judged = judge(verified.signers[0], ended.job, &swapped.into_core());
    assert!(matches!(judged.attested, Attested::Unverified(_)));
}

#[tokio::test]
async fn a_success_without_a_file_it_was_asked_for_is_an_error_and_a_failure_stays_one() {
    let Some(node) = open().await else { return };
    for (code, status, word) in [
        ("true", JobStatus::Error, Some("requested_output_unavailable")),
        ("exit 3", JobStatus::Failed, None),
    ] {
        let mut asked = job(1, Language::Bash, code);
        asked.spec.outputs = vec!["output/never".into()];
        let ended = node.run(&asked);
        assert_eq!((ended.result.status, ended.result.killed_by.as_deref()), (status, word), "{code}");
        assert_eq!(ended.result.violations[0].rule, "artifact_collection_failed");
        assert!(node.judged_complete(&ended));
        let (verified, kinds) = node.verify(&ended);
        assert!(kinds.contains(&Violation));
        assert_eq!(verified.artifact.unwrap().violations, ended.result.violations);
    }
}

#[tokio::test]
async fn what_a_job_writes_is_told_while_it_runs() {
    let Some(node) = open().await else { return };
    let asked = job(1, Language::Bash, "echo first; sleep 60");
    node.start(&asked);
    let mut text = Vec::new();
    while !text.ends_with(b"first\n") {
        if let Event::JobEvents { events, .. } = node.next() {
            text.extend(events.iter().filter_map(said).flatten());
        }
    }
    node.executor.stop(asked.origin, asked.job);
    let ended = node.next_ended();
    assert_eq!((ended.result.status, ended.result.stdout.as_str()), (JobStatus::Cancelled, "first\n"));
}

/// What an event of output holds.
fn said(event: &mesh_protocol::evidence::event::Event) -> Option<Vec<u8>> {
    event.data.get("content")?.read::<Captured>().ok()?.to_bytes()
}

#[tokio::test]
async fn the_receipt_comes_to_its_digests_and_says_what_it_ran_under() {
    let Some(node) = open().await else { return };
    let ended = node.run(&job(1, Language::Bash, "echo hi"));
    let (verified, _) = node.verify(&ended);
    let receipt = verified.receipt();
    assert_eq!(receipt.execution.code_sha256, Digest::of(b"echo hi"));
    assert_eq!(receipt.execution.stdin_sha256, Digest::of(b""));
    let observed = receipt.execution.observed.clone().unwrap();
    assert_eq!(observed.clone().sealed().unwrap(), observed, "policy_sha256 is what the rest comes to");
    assert!(observed.effective_limits.unwrap().wall_seconds.is_some());
    assert_eq!(receipt.execution.requested_limits.mem_mb, Some(256));
}

#[tokio::test]
async fn an_end_that_another_node_decided_is_signed_with_what_is_known_of_it() {
    let node = prepare(|options| options.enabled = false).await;
    let result = JobResult {
        status: JobStatus::Error,
        killed_by: Some("peer_silent".into()),
        may_have_run: true,
        stderr: "nothing was heard".into(),
        ..node.closed(1).result
    };
    node.executor.attest(job(2, Language::Bash, "true").ticket(), result.clone(), None);
    let evidence = node.next_attested();
    let bundle = Bundle::parse(&evidence).unwrap();
    let trust = TrustSet::node(&node.id()).unwrap();
    let verified = bundle.verify(&trust, None, None).unwrap();
    assert_eq!(verified.outcome(), Outcome::Error);
    assert!(!verified.evidence_complete() && !verified.event_chain_complete());
    assert_eq!(verified.receipt().execution.executor_output, None, "nobody here saw any");
    assert_eq!(verified.artifact.unwrap().stderr.to_bytes(), Some(result.stderr.into_bytes()));
}

#[tokio::test]
async fn an_end_that_came_without_a_proof_is_signed_later_from_its_result_and_its_events() {
    let Some(node) = open().await else { return };
    let mut asked = job(1, Language::Bash, "echo out; echo err >&2; echo left > output/left; exit 3");
    asked.spec.outputs = vec!["output/left".into()];
    let ended = node.run(&asked);
    let ticket = JobTicket { events: ended.events.clone(), ..asked.ticket() };
    let (before, _) = node.verify(&ended);
    let seen = before.receipt().execution.executor_output.clone();
    node.executor.attest(ticket, ended.result.clone(), seen.clone().map(Box::new));
    let evidence = node.next_attested();
    let later = fixture::Ended { evidence, ..ended.clone() };
    assert!(!node.judged_complete(&later), "what the sandbox saw is not in it, and that is said");
    let (verified, kinds) = node.verify(&later);
    assert_eq!(kinds.last(), Some(&Finished), "no event is written twice");
    let execution = &verified.receipt().execution;
    assert_eq!((execution.outcome, execution.exit_code), (Outcome::Failed, Some(3)));
    assert_eq!((&execution.observed, execution.evidence_complete), (&None, false));
    assert_eq!(execution.executor_output, seen);
    assert_eq!(execution.started_at_ms, before.receipt().execution.started_at_ms);
}

#[tokio::test]
async fn an_end_that_cannot_be_signed_is_reported_as_such_and_never_with_half_a_proof() {
    let node = prepare(|options| options.enabled = false).await;
    // A receipt of this size is none.
    let tenant = "t".repeat(1024 * 1024);
    let ticket = JobTicket { tenant, ..job(1, Language::Bash, "true").ticket() };
    node.executor.close(ticket.clone(), CloseReason::DeadlinePassed);
    let said = |event: &Event| matches!(event, Event::JobUnsigned { job, .. } if *job == ticket.job);
    assert!(said(&node.next()));
    let ended = node.next_ended();
    assert_eq!((ended.result.status, ended.evidence.len()), (JobStatus::Error, 0));
    node.executor.attest(ticket.clone(), ended.result.clone(), None);
    let Event::JobUnsigned { job, events, .. } = node.next() else { panic!("it is not signed") };
    assert_eq!((job, events.last().map(|event| event.kind)), (ticket.job, Some(Finished)));
    // Once it can be signed, that is about the events that were told.
    let ticket = JobTicket { events: events.clone(), tenant: fixture::TENANT.to_owned(), ..ticket };
    node.executor.attest(ticket, ended.result.clone(), None);
    node.verify(&fixture::Ended { evidence: node.next_attested(), events, ..ended });
}

#[tokio::test]
async fn what_a_job_wrote_is_in_what_is_signed_later_as_it_was_seen_or_as_not_known() {
    let Some(node) = open().await else { return };
    let asked = job(1, Language::Bash, "printf out; head -c 300000 /dev/zero >&2");
    // A receipt of this size is none.
    let mut unsignable = asked.clone();
    unsignable.ticket.tenant = "t".repeat(1024 * 1024);
    node.start(&unsignable);
    let seen = loop {
        if let Event::JobUnsigned { seen, .. } = node.next() {
            break seen;
        }
    };
    let result = node.next_ended().result;
    let signed = |seen| {
        node.executor.attest(asked.ticket(), result.clone(), seen);
        let bundle = Bundle::parse(&node.next_attested()).unwrap();
        let verified = bundle.verify(&TrustSet::node(&node.id()).unwrap(), None, None).unwrap();
        verified.receipt().execution.executor_output.clone()
    };
    let output = signed(seen.clone()).expect("it was kept");
    assert_eq!((output.stdout.bytes_seen, output.stderr.bytes_seen), (3, 300_000));
    assert_eq!(output.stdout.raw_sha256, Digest::of(b"out"));
    assert_eq!(signed(None), None, "an end that was stored without it does not claim that there was none");
}
