//! One attempt at a job, from its ticket to the event that says how it ended.
//!
//! Whatever happens, a panic included, the attempt is reported as ended: with the proof if one could be made, else
//! without and with the reason in the log. What the sandbox says about this machine goes to the log only.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use mesh_node_core::event::{Event, JobTicket};
use mesh_node_core::jobs::ended::unproven;
use mesh_protocol::evidence::attest::Finished;
use mesh_protocol::evidence::event::Event as JobEvent;
use mesh_protocol::evidence::receipt::ExecutorOutput;
use mesh_protocol::job::{JobResult, JobStatus};
use mesh_sandbox::{Job, JobObserver, JobReport, Sandbox, Stream};

use super::files::Files;
use super::proof::{ProofError, Prove};
use super::pump::{Live, Pump};
use super::queue::{Errand, Queue, Start};
use super::recording::{EffectiveSpec, Recorded, Recording, millis_since};
use super::verdict::Verdict;
use super::{Report, receipt, translation};

#[cfg(test)]
mod tests;

/// Makes attempts, on as many threads as call [`Attempts::run_jobs`].
pub(super) struct Attempts {
    sandbox: Option<Sandbox>,
    signer: Box<dyn Prove>,
    report: Arc<dyn Report>,
    queue: Arc<Queue>,
    pump: Arc<Pump>,
}

/// An attempt that has ended and is not signed yet.
struct Ending {
    verdict: Verdict,
    /// The sandbox's report, if there is one.
    report: Option<JobReport>,
    duration_ms: u64,
}

impl Ending {
    /// There is nothing from a sandbox to tell.
    const fn unobserved(verdict: Verdict) -> Self {
        Self { verdict, report: None, duration_ms: 0 }
    }
}

/// An attempt that has ended and is signed.
struct Signed {
    result: JobResult,
    /// Nothing when it could not be.
    evidence: Option<Vec<u8>>,
    files: Files,
    /// Events that were not handed over before.
    events: Vec<JobEvent>,
    /// What was seen of the job's streams, where that is known.
    seen: Option<ExecutorOutput>,
}

/// What there is to sign of an attempt.
struct Account<'a> {
    /// The sandbox's report, if there is one.
    report: Option<&'a JobReport>,
    seen: Option<ExecutorOutput>,
    recorded: Recorded,
    files: &'a Files,
}

impl Attempts {
    pub(super) fn new(
        sandbox: Option<Sandbox>,
        signer: Box<dyn Prove>,
        report: Arc<dyn Report>,
        (queue, pump): (Arc<Queue>, Arc<Pump>),
    ) -> Self {
        Self { sandbox, signer, report, queue, pump }
    }

    /// Runs one job after the other until the queue is closed and has no more.
    pub(super) fn run_jobs(&self) {
        while let Some(start) = self.queue.next_job() {
            self.run(&start);
        }
    }

    /// Hands over what happens in running jobs until the pump is closed.
    pub(super) fn run_pump(&self) {
        self.pump.run(&*self.report);
    }

    /// Runs errands until the queue is closed and has no more.
    pub(super) fn run_errands(&self) {
        while let Some(errand) = self.queue.next_errand() {
            let event = match errand {
                Errand::Close(ticket, reason) => {
                    let ending = || Ending::unobserved(Verdict::of_closing(reason));
                    self.concluded(&ticket, || self.ended(&ticket, ending(), Recording::new(&ticket)))
                }
                Errand::Attest(ticket, result, seen) => self.attested(&ticket, &result, seen),
                Errand::Announce(event) => event,
            };
            self.report.report(event);
        }
    }

    fn run(&self, start: &Start) {
        let ticket = &start.ticket;
        let event = self.concluded(ticket, || {
            let live = self.pump.begin(ticket);
            let claimed = Instant::now();
            let attempted = unless_it_panics(ticket, "run", || self.attempt(start, &live));
            let ending = attempted.unwrap_or_else(|| Ending::unobserved(Verdict::LOST));
            let ending = Ending { duration_ms: millis_since(claimed), ..ending };
            let recording = self.pump.end(&live).unwrap_or_else(|| Recording::new(ticket));
            self.ended(ticket, ending, recording)
        });
        self.queue.finish(ticket);
        self.report.report(event);
    }

    /// The end that `work` comes to; where it panics, that the executor failed, not signed.
    fn concluded(&self, ticket: &JobTicket, work: impl FnOnce() -> Event) -> Event {
        unless_it_panics(ticket, "end", work).unwrap_or_else(|| {
            let JobTicket { origin, job, attempt, .. } = *ticket;
            self.report.report(Event::JobUnsigned { origin, job, seen: None, events: Vec::new() });
            let result = unproven("executor_failure", true);
            let (evidence, outputs, events) = Default::default();
            Event::JobEnded { origin, job, attempt, result, evidence, outputs, events }
        })
    }

    /// Runs the job in the sandbox, if it can be and still is to be run.
    fn attempt(&self, Start { ticket, spec, cancel }: &Start, live: &Live) -> Ending {
        let minimum = spec.requirements.minimum_isolation;
        let able = self.sandbox.as_ref().filter(|sandbox| {
            let offered = translation::isolation(sandbox.capabilities().isolation_class);
            offered.is_some_and(|class| class.satisfies(minimum))
        });
        let Some(sandbox) = able else { return Ending::unobserved(Verdict::UNAVAILABLE) };
        let cancel = match cancel {
            Ok(cancel) => cancel,
            Err(error) => {
                tracing::error!(job = %ticket.job, %error, "a job is not run: it could not be stopped");
                return Ending::unobserved(Verdict::NOT_STARTED);
            }
        };
        if cancel.is_cancelled() {
            return Ending::unobserved(Verdict::stopped_before_start(self.queue.was_stopped(ticket)));
        }
        let job = translation::job(spec);
        let effective = effective_spec(sandbox, ticket, &job);
        let mut watch = Watch { queue: &self.queue, pump: &self.pump, ticket, live, effective };
        match sandbox.run(&job, cancel, &mut watch) {
            Ok(report) => {
                if let Some(said) = &report.diagnostic {
                    tracing::warn!(job = %ticket.job, said, "a sandbox did not get ready");
                }
                let verdict = Verdict::of_report(&report, minimum, self.queue.was_stopped(ticket));
                Ending { verdict, report: Some(report), duration_ms: 0 }
            }
            Err(error) => {
                tracing::warn!(job = %ticket.job, error = &error as &dyn Error, "a job could not be started");
                Ending::unobserved(Verdict::of_refusal(&error))
            }
        }
    }

    /// The end of an attempt, signed. That it could not be is reported before it, so that a crash in between forgets
    /// neither.
    fn ended(&self, ticket: &JobTicket, ending: Ending, recording: Recording) -> Event {
        let Signed { result, evidence, files, events, seen } = self.sign(ticket, ending, recording);
        let JobTicket { origin, job, attempt, .. } = *ticket;
        if evidence.is_none() {
            self.report.report(Event::JobUnsigned {
                origin,
                job,
                seen: seen.map(Box::new),
                events: Vec::new(),
            });
        }
        let evidence = evidence.unwrap_or_default();
        Event::JobEnded { origin, job, attempt, result, evidence, outputs: files.taken, events }
    }

    /// An end that was decided before, signed if it can be.
    fn attested(&self, ticket: &JobTicket, result: &JobResult, seen: Option<Box<ExecutorOutput>>) -> Event {
        let known = seen.as_deref().cloned();
        unless_it_panics(ticket, "attest", || self.decided(ticket, result, known)).unwrap_or_else(|| {
            Event::JobUnsigned { origin: ticket.origin, job: ticket.job, seen, events: Vec::new() }
        })
    }

    /// An end that is known by its result alone, signed: this node decided it for a job that was to run elsewhere, or
    /// could not sign it when it came. Its files are with the core already.
    fn decided(&self, ticket: &JobTicket, result: &JobResult, seen: Option<ExecutorOutput>) -> Event {
        let (origin, job) = (ticket.origin, ticket.job);
        let verdict = Verdict::of_result(result);
        let seen = seen.or_else(|| receipt::seen(&verdict, None));
        let mut recording = Recording::new(ticket);
        recording.output(Stream::Stdout, result.stdout.as_bytes());
        recording.output(Stream::Stderr, result.stderr.as_bytes());
        let files = Files::known(result);
        let mut recorded = recording.end(&verdict, None, (&files.violations, &files.digests));
        recorded.truncated |= result.truncated;
        recorded.duration_ms = recorded.started_at_ms.and(Some(result.duration_ms)).filter(|ms| *ms > 0);
        let events = recorded.left();
        let result_bytes = result.stdout.len() + result.stderr.len();
        let account = Account { report: None, seen: seen.clone(), recorded, files: &files };
        match self.prove(ticket, &verdict, account, result_bytes) {
            Some(evidence) => Event::JobAttested { job, evidence },
            None => Event::JobUnsigned { origin, job, seen: seen.map(Box::new), events },
        }
    }

    fn sign(&self, ticket: &JobTicket, ending: Ending, recording: Recording) -> Signed {
        let Ending { mut verdict, mut report, duration_ms } = ending;
        let files = report.as_mut().map(Files::of).unwrap_or_default();
        if !files.violations.is_empty() {
            verdict = verdict.without_files();
        }
        let recorded = recording.end(&verdict, report.as_ref(), (&files.violations, &files.digests));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let posture = report.as_ref().and_then(|report| report.posture.as_ref());
        let result = JobResult {
            status: JobStatus::from(verdict.outcome),
            exit_code: verdict.exit_code,
            killed_by: verdict.killed_by.as_deref().map(str::to_owned),
            stdout: text(&recorded.stdout),
            stderr: text(&recorded.stderr),
            truncated: recorded.truncated,
            duration_ms,
            isolation: posture.and_then(|posture| translation::isolation(posture.isolation_class)),
            may_have_run: verdict.may_have_run,
            violations: files.violations.clone(),
            artifacts: files.digests.clone(),
        };
        let events = recorded.left();
        let result_bytes = result.stdout.len() + result.stderr.len() + files.bytes();
        let seen = receipt::seen(&verdict, report.as_ref());
        let account = Account { report: report.as_ref(), seen: seen.clone(), recorded, files: &files };
        let evidence = self.prove(ticket, &verdict, account, result_bytes);
        Signed { result, evidence, files, events, seen }
    }

    /// The proof, or nothing and the reason in the log.
    fn prove(
        &self,
        ticket: &JobTicket,
        verdict: &Verdict,
        account: Account<'_>,
        result_bytes: usize,
    ) -> Option<Vec<u8>> {
        let proof =
            unless_it_panics(ticket, "sign", || self.try_to_prove(ticket, verdict, account, result_bytes))?;
        let failed = |error: &ProofError| {
            tracing::error!(job = %ticket.job, error = error as &dyn Error, "a job's end cannot be signed");
        };
        proof.inspect_err(failed).ok()
    }

    fn try_to_prove(
        &self,
        ticket: &JobTicket,
        verdict: &Verdict,
        Account { report, seen, recorded, files }: Account<'_>,
        result_bytes: usize,
    ) -> Result<Vec<u8>, ProofError> {
        let artifacts = files.digests.clone();
        let execution = receipt::execution(ticket, verdict, (report, seen), &recorded, artifacts)?;
        let Recorded { chain, stdout, stderr, truncated, .. } = recorded;
        let violations = files.violations.clone();
        let finished = Finished { execution, stdout, stderr, truncated, violations, chain };
        self.signer.prove(finished, result_bytes)
    }
}

/// What `work` comes to, or nothing and that it panicked in the log: one job's fault is not the next one's.
fn unless_it_panics<T>(ticket: &JobTicket, step: &str, work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.inspect_err(|_| tracing::error!(job = %ticket.job, step, "the executor failed at a job")).ok()
}

/// Records what the sandbox tells while a job runs. Limits are enforced between its calls, so nothing here waits: news
/// that a job has started is an errand, and what it writes is the pump's to hand over.
struct Watch<'a> {
    queue: &'a Queue,
    pump: &'a Pump,
    ticket: &'a JobTicket,
    live: &'a Live,
    effective: EffectiveSpec,
}

impl JobObserver for Watch<'_> {
    fn ready(&mut self) {
        let JobTicket { origin, job, attempt, .. } = *self.ticket;
        self.pump.record(self.live, |recording| recording.started(&self.effective, attempt));
        self.queue.send(Errand::Announce(Event::JobStarted { origin, job, attempt }));
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.pump.record(self.live, |recording| recording.output(stream, bytes));
    }
}

/// What the job is run as.
fn effective_spec(sandbox: &Sandbox, ticket: &JobTicket, job: &Job) -> EffectiveSpec {
    let capabilities = sandbox.capabilities();
    let limits = sandbox.effective_limits(&job.limits);
    EffectiveSpec {
        language: job.language.name(),
        code_sha256: ticket.asked.code_sha256,
        stdin_sha256: ticket.asked.stdin_sha256,
        input_files: ticket.asked.input_files.clone(),
        isolation_class: capabilities.isolation_class.name(),
        limits: translation::limits_in_force(&limits, capabilities.limit_enforcement),
        runtime_pack: job.runtime.clone(),
        runtime_sha256: capabilities.runtime_sha256.clone(),
        rootfs_sha256: capabilities.rootfs_sha256.clone(),
    }
}
