//! What is left of a job, and of whoever worked at it, when that panics. The signer is a stand-in that does so once and is
//! then the real one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use mesh_node_core::event::CloseReason;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::job::{JobSpec, Language};

use super::*;
use crate::executor::Executor;
use crate::executor::proof::Signer;
use crate::executor::queue::tests::ticket;
use crate::identity::NodeKey;

struct PanicsOnce {
    done: AtomicBool,
    signer: Signer,
}

impl Prove for PanicsOnce {
    fn prove(&self, job: Finished, result_bytes: usize) -> Result<Vec<u8>, ProofError> {
        assert!(self.done.swap(true, Ordering::Relaxed), "the signer panics once, as it should");
        self.signer.prove(job, result_bytes)
    }
}

struct Reports(Mutex<Sender<Event>>);

impl Report for Reports {
    fn report(&self, event: Event) {
        let _ = self.0.lock().unwrap().send(event);
    }
}

/// An executor of one worker that has no sandbox, and what it reports.
fn executor() -> (Executor, impl Fn() -> Event) {
    let signer =
        PanicsOnce { done: AtomicBool::new(false), signer: Signer::new(NodeKey::from_seed(&[7; 32]), None) };
    let (report, reports) = reports();
    let executor = Executor::spawn(None, 1, Box::new(signer), report).unwrap();
    (executor, move || reports.recv_timeout(Duration::from_secs(60)).unwrap())
}

fn reports() -> (Arc<Reports>, Receiver<Event>) {
    let (sender, reports) = mpsc::channel();
    (Arc::new(Reports(Mutex::new(sender))), reports)
}

/// How a job ended: its word, whether it is signed, and its last event.
fn ended(event: &Event) -> (Option<&str>, bool, Option<EventKind>) {
    let Event::JobEnded { result, evidence, events, .. } = event else { panic!("{event:?}") };
    (result.killed_by.as_deref(), !evidence.is_empty(), events.last().map(|event| event.kind))
}

const FINISHED: Option<EventKind> = Some(EventKind::Finished);

#[test]
fn a_panic_while_a_job_is_signed_leaves_its_end_unsigned_and_the_worker_at_work() {
    let (executor, next) = executor();
    let start = |attempt| {
        executor.start(ticket(attempt), Box::new(JobSpec::new(Language::Bash, "true")));
    };
    start(1);
    let Event::JobUnsigned { seen, .. } = next() else { panic!("it is said first") };
    assert!(seen.is_some(), "what was seen is not lost with it");
    assert_eq!(ended(&next()), (Some("executor_unavailable"), false, FINISHED), "the result is there");
    // There is no other worker.
    start(2);
    assert_eq!(ended(&next()), (Some("executor_unavailable"), true, FINISHED));
    assert_eq!(executor.running(), 0);
}

#[test]
fn a_panic_while_an_end_is_attested_leaves_it_unsigned_and_the_errands_go_on() {
    let (executor, next) = executor();
    let result = unproven("peer_silent", true);
    executor.attest(ticket(1), result.clone(), None);
    let Event::JobUnsigned { events, .. } = next() else { panic!("it could not be signed") };
    assert_eq!(events.last().map(|event| event.kind), FINISHED);
    executor.close(ticket(1), CloseReason::DeadlinePassed);
    assert_eq!(ended(&next()), (Some("deadline"), true, FINISHED));
    executor.attest(JobTicket { events, ..ticket(1) }, result, None);
    assert!(matches!(next(), Event::JobAttested { .. }));
}

#[test]
fn a_panic_before_there_is_anything_to_sign_ends_the_job_as_an_error_of_the_executor() {
    let (report, reports) = reports();
    let signer = Box::new(Signer::new(NodeKey::from_seed(&[7; 32]), None));
    let attempts = Attempts::new(None, signer, report, Default::default());
    let event = attempts.concluded(&ticket(1), || panic!("as it should"));
    assert!(matches!(reports.try_recv(), Ok(Event::JobUnsigned { .. })));
    assert_eq!(ended(&event), (Some("executor_failure"), false, None));
    let Event::JobEnded { result, .. } = event else { panic!("{event:?}") };
    assert!(result.may_have_run);
}
