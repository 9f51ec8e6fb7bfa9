//! One job from start to nothing left: start it, feed it, read it, watch its limits, end it, report.
//!
//! ```text
//! starting ──READY──> running ──exit, limit, memory or cancel──> ending ──all dead──> reported
//!     └──exit, deadline or cancel──────────────────────────────────┘
//! ```
//!
//! One thread waits on everything at once with poll(2); limits are looked at every [`TICK`]. Output is not even
//! read before READY, so what the platform says while starting is never taken for the job's words.
//!
//! Wall and processor time count from READY: the platform's own start is not charged to the job, and has a
//! deadline of its own.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::bundle::{self, Settings};
use crate::cancel::Cancel;
use crate::capture::Capture;
use crate::cgroup::{Group, Usage};
use crate::guest_memory::GuestMemory;
use crate::isolation::IsolationClass;
use crate::job::Job;
use crate::launch::{self, Launched};
use crate::limits::{CHUNK_BYTES, EffectiveLimits, KILL_DEADLINE, READY_DEADLINE, TICK};
use crate::outcome::{Observed, Spent};
use crate::report::{JobObserver, JobReport, MissingOutput, MissingReason, Posture, ResourceUsage, Stream};
use crate::sandbox::{Sandbox, SandboxError, excerpt};
use crate::spawn::Offspring;

/// What the boot file writes when the interpreter is up.
const READY: &[u8] = b"READY\n";
/// Most of the platform's own words kept when a sandbox does not get ready, in bytes.
const DIAGNOSTIC_BYTES: usize = 4096;

/// Reads of a dead job's pipe; one chunk each, and a pipe holds 1 MiB at most (pipe(7)).
const DRAIN_READS: usize = 64;

/// Runs a valid job. See [`Sandbox::run`].
pub(crate) fn run(
    sandbox: &Sandbox,
    job: &Job,
    cancel: &Cancel,
    observer: &mut dyn JobObserver,
) -> Result<JobReport, SandboxError> {
    let interpreter = sandbox
        .rootfs
        .interpreters
        .get(&job.language)
        .ok_or(SandboxError::LanguageUnavailable { language: job.language })?;
    let limits = sandbox.effective_limits(&job.limits);
    let settings = Settings { language: job.language, interpreter, limits };
    // Whatever can fail comes first: once the job has started there is a report.
    let config_sha256 = bundle::config_sha256(&settings)
        .map_err(std::io::Error::from)
        .map_err(SandboxError::at("describe a job in", &sandbox.home.jobs()))?;
    let started = Instant::now();
    let launched = launch::launch(sandbox, job, &settings)?;
    let mut flight = Flight::new(launched, job, limits, started)?;
    flight.watch(cancel, observer);
    let ended = flight.end(observer);
    Ok(flight.report(sandbox, job, config_sha256, ended))
}

/// A job that has been started.
struct Flight<'a> {
    limits: EffectiveLimits,
    child: Offspring,
    /// Readable once the child has exited.
    exited: OwnedFd,
    /// Where READY arrives; closed after it did.
    ready_pipe: Option<OwnedFd>,
    ready_bytes: Vec<u8>,
    /// The pipe and what is still to be written to it.
    stdin: Option<(OwnedFd, &'a [u8])>,
    stdout: Capture,
    stderr: Capture,
    observed: Observed,
    started: Instant,
    /// When READY came, and the usage at that moment.
    ready: Option<(Instant, Usage)>,
    /// Looked at from READY on, where no control group counts memory.
    guest_memory: Option<GuestMemory>,
    buffer: Vec<u8>,
    // Dropped last, in this order: the group ends and removes itself, then the directory goes.
    group: Group,
    dir: crate::home::JobDir,
}

impl<'a> Flight<'a> {
    fn new(
        launched: Launched,
        job: &'a Job,
        limits: EffectiveLimits,
        started: Instant,
    ) -> Result<Self, SandboxError> {
        let Launched { child, ready, stdin, stdout, stderr, group, dir } = launched;
        let exited = child
            .pid()
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|error| SandboxError::at("watch", dir.path())(error.into()))?;
        Ok(Self {
            limits,
            child,
            exited,
            ready_pipe: Some(ready),
            ready_bytes: Vec::new(),
            stdin: Some((stdin, &job.stdin)),
            stdout: Capture::new(Stream::Stdout, stdout, limits.output_bytes),
            stderr: Capture::new(Stream::Stderr, stderr, limits.output_bytes),
            observed: Observed::default(),
            started,
            ready: None,
            guest_memory: None,
            buffer: vec![0; CHUNK_BYTES],
            group,
            dir,
        })
    }

    /// Serves the job until it exits or has to be ended.
    fn watch(&mut self, cancel: &Cancel, observer: &mut dyn JobObserver) {
        let mut last_look = self.started;
        loop {
            let events = self.wait(cancel);
            self.write_stdin();
            if events.ready {
                self.read_ready(observer);
            }
            if self.ready.is_some() {
                self.stdout.read_once(&mut self.buffer, observer);
                self.stderr.read_once(&mut self.buffer, observer);
            }
            if events.exited {
                return;
            }
            if events.cancelled {
                self.observed.cancelled = true;
                return;
            }
            if last_look.elapsed() >= TICK {
                last_look = Instant::now();
                if self.must_end(last_look) {
                    return;
                }
            }
        }
    }

    /// Waits for anything to happen, a tick at most.
    fn wait(&self, cancel: &Cancel) -> Events {
        let mut fds = vec![
            PollFd::from_borrowed_fd(cancel.as_fd(), PollFlags::IN),
            PollFd::new(&self.exited, PollFlags::IN),
        ];
        if let Some(ready) = &self.ready_pipe {
            fds.push(PollFd::new(ready, PollFlags::IN));
        }
        if let Some((stdin, _)) = &self.stdin {
            fds.push(PollFd::new(stdin, PollFlags::OUT));
        }
        if self.ready.is_some() {
            let outputs = [&self.stdout, &self.stderr].into_iter().filter_map(Capture::as_fd);
            fds.extend(outputs.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        let tick = Timespec::try_from(TICK).unwrap_or_default();
        // An interrupted wait is an early look, nothing worse.
        let _ = poll(&mut fds, Some(&tick));
        let happened = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Events {
            cancelled: happened(0),
            exited: happened(1),
            ready: self.ready_pipe.is_some() && happened(2),
        }
    }

    fn read_ready(&mut self, observer: &mut dyn JobObserver) {
        let Some(pipe) = &self.ready_pipe else { return };
        let mut bytes = [0; READY.len() + 1];
        match rustix::io::read(pipe, &mut bytes) {
            Ok(length) if length > 0 => {
                self.ready_bytes.extend_from_slice(bytes.get(..length).unwrap_or_default());
                if self.ready_bytes == READY {
                    let usage = self.group.usage();
                    if usage.oom_kills.is_none() {
                        self.guest_memory = GuestMemory::of_job(self.dir.path());
                    }
                    self.ready = Some((Instant::now(), usage));
                    observer.ready();
                } else if READY.starts_with(&self.ready_bytes) {
                    return;
                }
                self.ready_pipe = None;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(_) | Err(_) => self.ready_pipe = None,
        }
    }

    /// Writes what fits. A job that does not read its input, or closes it, loses nothing else by it.
    fn write_stdin(&mut self) {
        let Some((pipe, rest)) = &mut self.stdin else { return };
        match rustix::io::write(&*pipe, rest) {
            Ok(written) => *rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => *rest = &[],
        }
        if rest.is_empty() {
            self.stdin = None;
        }
    }

    /// Looks at every limit; notes the first that is exceeded.
    fn must_end(&mut self, now: Instant) -> bool {
        let usage = self.group.usage();
        self.observed.oom_kills = usage.oom_kills.unwrap_or(0);
        let Some((ready_at, at_ready)) = self.ready else {
            // Either it can never be ready any more, or it had its time.
            return self.observed.oom_kills > 0
                || self.ready_pipe.is_none()
                || now.duration_since(self.started) > READY_DEADLINE;
        };
        let spent = Spent {
            memory: self.guest_memory.as_ref().and_then(GuestMemory::bytes),
            wall: now.duration_since(ready_at),
            cpu_usec: cpu_since(usage, at_ready),
            output: self.stdout.seen().max(self.stderr.seen()),
        };
        self.observed.breach = spent.breach(&self.limits);
        self.observed.oom_kills > 0 || self.observed.breach.is_some()
    }

    /// Kills what is left, reaps the child, and reads the pipes to their ends. Returns when watching ended, and what
    /// was used once all of it was dead.
    fn end(&mut self, observer: &mut dyn JobObserver) -> (Instant, Usage) {
        let ended_at = Instant::now();
        let exited_by_itself = matches!(self.child.try_wait(), Ok(Some(_)));
        self.group.end();
        if !exited_by_itself && let Ok(pid) = self.child.pid() {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
        let mut fds = [PollFd::new(&self.exited, PollFlags::IN)];
        let patience = Timespec::try_from(KILL_DEADLINE).unwrap_or_default();
        if exited_by_itself || poll(&mut fds, Some(&patience)).is_ok_and(|ready| ready > 0) {
            let status = self.child.wait().ok();
            self.observed.exit_code = status.filter(|_| exited_by_itself).and_then(|status| status.code());
        } else {
            tracing::error!(dir = %self.dir.path().display(), "a killed sandbox does not die");
        }
        if self.ready.is_some() {
            for stream in [&mut self.stdout, &mut self.stderr] {
                // Bounded in case something unkillable goes on writing.
                let _ = (0..DRAIN_READS).all(|_| stream.read_once(&mut self.buffer, observer));
            }
        }
        // The kernel counts a kill for memory a moment after the victim is gone.
        let usage = self.group.usage();
        self.observed.oom_kills = usage.oom_kills.unwrap_or(0);
        self.observed.pids_ceiling_hits = usage.pids_ceiling_hits.unwrap_or(0);
        self.observed.ready = self.ready.is_some();
        (ended_at, usage)
    }

    fn report(
        mut self,
        sandbox: &Sandbox,
        job: &Job,
        config_sha256: String,
        (ended_at, last): (Instant, Usage),
    ) -> JobReport {
        let (outcome, killed_by) = self.observed.outcome();
        let ready_at = self.ready.map(|(at, _)| at);
        let diagnostic = if ready_at.is_some() { None } else { Some(self.diagnose()) };
        JobReport {
            outcome,
            killed_by,
            exit_code: self.observed.exit_code,
            requested_limits: job.limits,
            effective_limits: self.limits,
            limit_enforcement: sandbox.capabilities.limit_enforcement,
            resource_usage: ResourceUsage {
                boot_time_ms: millis(ready_at.unwrap_or(ended_at).duration_since(self.started)),
                wall_time_ms: ready_at.map_or(0, |at| millis(ended_at.duration_since(at))),
                cpu_time_usec: self.ready.and_then(|(_, at_ready)| cpu_since(last, at_ready)),
                memory_peak_bytes: last.memory_peak,
            },
            artifacts: Vec::new(),
            missing_outputs: job
                .outputs
                .iter()
                .map(|path| MissingOutput { path: path.clone(), reason: MissingReason::NotCollected })
                .collect(),
            stdout: self.stdout.report(),
            stderr: self.stderr.report(),
            posture: ready_at.map(|_| Posture {
                isolation_class: IsolationClass::GvisorApplicationKernel,
                bootstrap_ready: true,
                seccomp: "oci-deny-list".to_owned(),
                networking: "disabled".to_owned(),
                runtime_version: sandbox.runtime.version.clone(),
                runtime_sha256: sandbox.runtime.sha256.clone(),
                runtime_pack: None,
                rootfs_sha256: sandbox.rootfs.sha256.clone(),
                config_sha256,
            }),
            diagnostic,
        }
    }

    /// What the platform said on the job's standard error and in gVisor's log.
    fn diagnose(&mut self) -> String {
        let mut said = vec![0; DIAGNOSTIC_BYTES];
        let length = self.stderr.as_fd().and_then(|fd| rustix::io::read(fd, &mut *said).ok()).unwrap_or(0);
        let said = String::from_utf8_lossy(said.get(..length).unwrap_or_default()).trim().to_owned();
        if said.is_empty() { excerpt(&self.dir.path().join("runsc.log"), DIAGNOSTIC_BYTES) } else { said }
    }
}

/// What a wait ended with.
struct Events {
    cancelled: bool,
    exited: bool,
    ready: bool,
}

fn cpu_since(now: Usage, then: Usage) -> Option<u64> {
    Some(now.cpu_usec?.saturating_sub(then.cpu_usec?))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
