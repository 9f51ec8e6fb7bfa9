//! One attempt at a job, from its ticket to the event that says how it ended.
//!
//! Whatever happens, a panic included, the attempt is reported as ended: with the proof if one could be made, else
//! without and with the reason in the log. What the sandbox says about this machine goes to the log only.

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use mesh_node_core::event::{Event, JobTicket};
use mesh_protocol::evidence::attest::Finished;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::job::{JobResult, JobStatus};
use mesh_sandbox::{Cancel, Job, JobObserver, JobReport, Sandbox, Stream};

use super::proof::{ProofError, Signer};
use super::queue::{Errand, Queue};
use super::recording::{EffectiveSpec, Recorded, Recording, millis_since};
use super::verdict::Verdict;
use super::{Report, receipt, translation};

/// Makes attempts, on as many threads as call [`Attempts::run_jobs`].
pub(super) struct Attempts {
    sandbox: Option<Sandbox>,
    signer: Signer,
    report: Arc<dyn Report>,
    queue: Arc<Queue>,
}

/// An attempt that has ended and is not signed yet.
struct Ending {
    verdict: Verdict,
    report: Option<JobReport>,
    recording: Recording,
}

impl Ending {
    /// There is nothing from a sandbox to tell.
    fn unobserved(ticket: &JobTicket, verdict: Verdict) -> Self {
        Self { verdict, report: None, recording: Recording::new(ticket) }
    }
}

impl Attempts {
    pub(super) fn new(
        sandbox: Option<Sandbox>,
        signer: Signer,
        report: Arc<dyn Report>,
        queue: Arc<Queue>,
    ) -> Self {
        Self { sandbox, signer, report, queue }
    }

    /// Runs one job after the other until the queue is closed and has no more.
    pub(super) fn run_jobs(&self) {
        while let Some((ticket, cancel)) = self.queue.next_job() {
            self.run(&ticket, cancel);
        }
    }

    /// Runs errands until the queue is closed and has no more.
    pub(super) fn run_errands(&self) {
        while let Some(errand) = self.queue.next_errand() {
            let event = match errand {
                Errand::Close(ticket, reason) => {
                    let ending = Ending::unobserved(&ticket, Verdict::of_closing(reason));
                    self.ended(&ticket, ending, 0)
                }
                Errand::Announce(event) => event,
            };
            self.report.report(event);
        }
    }

    fn run(&self, ticket: &JobTicket, cancel: io::Result<Cancel>) {
        let claimed = Instant::now();
        let attempted = catch_unwind(AssertUnwindSafe(|| self.attempt(ticket, cancel)));
        let ending = attempted.unwrap_or_else(|_| {
            tracing::error!(job = %ticket.job, "the executor failed while it ran a job");
            Ending::unobserved(ticket, Verdict::LOST)
        });
        let event = self.ended(ticket, ending, millis_since(claimed));
        self.queue.finish(ticket);
        self.report.report(event);
    }

    /// Runs the job in the sandbox, if it can be and still is to be run.
    fn attempt(&self, ticket: &JobTicket, cancel: io::Result<Cancel>) -> Ending {
        let able = self.sandbox.as_ref().filter(|sandbox| {
            let offered = translation::isolation(sandbox.capabilities().isolation_class);
            offered.is_some_and(|class| class.satisfies(ticket.spec.minimum_isolation))
        });
        let Some(sandbox) = able else { return Ending::unobserved(ticket, Verdict::UNAVAILABLE) };
        let cancel = match cancel {
            Ok(cancel) => cancel,
            Err(error) => {
                tracing::error!(job = %ticket.job, %error, "a job is not run: it could not be stopped");
                return Ending::unobserved(ticket, Verdict::NOT_STARTED);
            }
        };
        if cancel.is_cancelled() {
            let verdict = Verdict::stopped_before_start(self.queue.was_stopped(ticket));
            return Ending::unobserved(ticket, verdict);
        }
        let job = translation::job(&ticket.spec);
        let spec = effective_spec(sandbox, ticket, &job);
        let mut watch = Watch { queue: &self.queue, ticket, spec, recording: Recording::new(ticket) };
        match sandbox.run(&job, &cancel, &mut watch) {
            Ok(report) => {
                if let Some(said) = &report.diagnostic {
                    tracing::warn!(job = %ticket.job, said, "a sandbox did not get ready");
                }
                let verdict = Verdict::of_report(&report, self.queue.was_stopped(ticket));
                Ending { verdict, report: Some(report), recording: watch.recording }
            }
            Err(error) => {
                tracing::warn!(job = %ticket.job, error = &error as &dyn Error, "a job could not be started");
                Ending { verdict: Verdict::of_refusal(&error), report: None, recording: watch.recording }
            }
        }
    }

    /// Signs the end of an attempt, and says it.
    fn ended(&self, ticket: &JobTicket, ending: Ending, duration_ms: u64) -> Event {
        let Ending { verdict, report, recording } = ending;
        let recorded = recording.end(&verdict, report.as_ref());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let posture = report.as_ref().and_then(|report| report.posture.as_ref());
        let result = JobResult {
            status: JobStatus::from(verdict.outcome),
            exit_code: verdict.exit_code,
            killed_by: verdict.killed_by.map(str::to_owned),
            stdout: text(&recorded.stdout),
            stderr: text(&recorded.stderr),
            truncated: recorded.truncated,
            duration_ms,
            isolation: posture.and_then(|posture| translation::isolation(posture.isolation_class)),
            may_have_run: verdict.may_have_run,
        };
        let text_bytes = result.stdout.len() + result.stderr.len();
        let proof = self.prove(ticket, &verdict, (report.as_ref(), recorded), text_bytes);
        let evidence = proof.unwrap_or_else(|error| {
            tracing::error!(job = %ticket.job, error = &error as &dyn Error, "a job's result goes without evidence");
            Vec::new()
        });
        let JobTicket { origin, job, attempt, .. } = *ticket;
        Event::JobEnded { origin, job, attempt, result, evidence }
    }

    fn prove(
        &self,
        ticket: &JobTicket,
        verdict: &Verdict,
        (report, recorded): (Option<&JobReport>, Recorded),
        text_bytes: usize,
    ) -> Result<Vec<u8>, ProofError> {
        let execution = receipt::execution(ticket, verdict, report, &recorded)?;
        let Recorded { chain, stdout, stderr, truncated, .. } = recorded;
        let finished = Finished { execution, stdout, stderr, truncated, violations: Vec::new(), chain };
        self.signer.prove(finished, text_bytes)
    }
}

/// Records what the sandbox tells while a job runs. Limits are enforced between its calls, so news that a job has
/// started is an errand for a thread that may wait for it to be taken in.
struct Watch<'a> {
    queue: &'a Queue,
    ticket: &'a JobTicket,
    spec: EffectiveSpec,
    recording: Recording,
}

impl JobObserver for Watch<'_> {
    fn ready(&mut self) {
        self.recording.started(&self.spec);
        let JobTicket { origin, job, attempt, .. } = *self.ticket;
        self.queue.send(Errand::Announce(Event::JobStarted { origin, job, attempt }));
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.recording.output(stream, bytes);
    }
}

/// What the job is run as.
fn effective_spec(sandbox: &Sandbox, ticket: &JobTicket, job: &Job) -> EffectiveSpec {
    let capabilities = sandbox.capabilities();
    let limits = sandbox.effective_limits(&job.limits);
    EffectiveSpec {
        language: job.language.name(),
        code_sha256: Digest::of(ticket.spec.code.as_bytes()),
        stdin_sha256: Digest::of(ticket.spec.stdin.as_bytes()),
        isolation_class: capabilities.isolation_class.name(),
        limits: translation::limits_in_force(&limits, capabilities.limit_enforcement),
        runtime_sha256: capabilities.runtime_sha256.clone(),
        rootfs_sha256: capabilities.rootfs_sha256.clone(),
    }
}
