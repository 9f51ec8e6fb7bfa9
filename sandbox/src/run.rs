//! One job from its sandbox to nothing left: hand it over, feed it, read it, watch its limits, end it, report.
//!
//! ```text
//! starting ──READY──> running ──exited──> collecting ──done──> ending ──all dead──> reported
//!     └── exit, deadline, limit, memory, nonsense or cancel ─────┘
//! ```
//!
//! One thread waits on everything at once with poll(2); limits are looked at every [`TICK`]. Output is not even
//! read before READY, so what the platform says while starting is never taken for the job's words. A sandbox that was
//! started beforehand is merely one that is ready at once.
//!
//! Wall and processor time count from when the job is handed over: the platform's own start is not charged to it, and
//! has a deadline of its own.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process, kill_process_group};

use crate::cancel::Cancel;
use crate::capture::Capture;
use crate::cgroup::Usage;
use crate::control::{Answer, Assignment};
use crate::guest::Guest;
use crate::guest_memory::GuestMemory;
use crate::job::Job;
use crate::launch::{Kind, Launcher};
use crate::leavings::Leavings;
use crate::limits::{
    CHUNK_BYTES, COLLECT_DEADLINE, DEATH_DEADLINE, EffectiveLimits, KILL_DEADLINE, OUTPUT_FILES_BYTES_MAX,
    READY_DEADLINE, TICK,
};
use crate::outcome::{Observed, Spent};
use crate::report::{JobObserver, JobReport, Posture, ResourceUsage, Stream};
use crate::sandbox::{Sandbox, SandboxError};
use crate::wait::is_readable;

/// Reads of a dead job's pipe; one chunk each, and a pipe holds 1 MiB at most (pipe(7)).
const DRAIN_READS: usize = 64;
const MIB: u64 = 1024 * 1024;

/// Runs a valid job. See [`Sandbox::run`].
pub(crate) fn run(
    sandbox: &Sandbox,
    job: &Job,
    cancel: &Cancel,
    observer: &mut dyn JobObserver,
) -> Result<JobReport, SandboxError> {
    let kind = Kind { language: job.language, pack: job.runtime.clone() };
    let limits = sandbox.effective_limits(&job.limits);
    let asked = Instant::now();
    let mut flight = Flight::new(sandbox.guest(&kind)?, job, limits, asked);
    flight.watch(&sandbox.launcher, cancel, observer)?;
    let ended = flight.end(observer);
    Ok(flight.report(sandbox, ended))
}

/// A job in the air.
struct Flight<'a> {
    job: &'a Job,
    limits: EffectiveLimits,
    guest: Guest,
    /// What is still to be said to the init.
    words: Vec<u8>,
    words_said: usize,
    /// What is still to be given to the job.
    stdin: &'a [u8],
    stdout: Option<Capture>,
    stderr: Option<Capture>,
    observed: Observed,
    leavings: Leavings<'a>,
    asked: Instant,
    /// When the job was handed over, and the usage at that moment.
    assigned: Option<(Instant, Usage)>,
    /// When the job's first process had ended.
    exited: Option<Instant>,
    /// Looked at from the assignment on, where no control group counts memory.
    guest_memory: Option<GuestMemory>,
    buffer: Vec<u8>,
}

impl<'a> Flight<'a> {
    fn new(mut guest: Guest, job: &'a Job, limits: EffectiveLimits, asked: Instant) -> Self {
        let capture = |stream, pipe| Capture::new(stream, pipe, limits.output_bytes);
        Self {
            job,
            limits,
            words: Vec::new(),
            words_said: 0,
            stdin: &job.stdin,
            stdout: guest.stdout.take().map(|pipe| capture(Stream::Stdout, pipe)),
            stderr: None,
            observed: Observed::default(),
            leavings: Leavings::of(&job.outputs),
            asked,
            assigned: None,
            exited: None,
            guest_memory: None,
            buffer: vec![0; CHUNK_BYTES],
            guest,
        }
    }

    /// Serves the job until it has nothing more to say or has to be ended. An error means that it was not started.
    fn watch(
        &mut self,
        launcher: &Launcher,
        cancel: &Cancel,
        observer: &mut dyn JobObserver,
    ) -> Result<(), SandboxError> {
        let mut last_look = self.asked;
        loop {
            if cancel.is_cancelled() {
                self.observed.cancelled = true;
                return Ok(());
            }
            if self.guest.dialogue.is_ready() {
                self.assign(launcher).map_err(SandboxError::at("hand a job to", self.guest.dir.path()))?;
                observer.ready();
            }
            let gone = self.wait(cancel);
            self.say();
            self.feed();
            if self.assigned.is_some() {
                self.read_output(observer);
            }
            if self.is_flooded() && self.must_end(Instant::now()) {
                return Ok(());
            }
            // Of one that is gone nothing will wake this thread again.
            let heard = if gone { self.hear_the_rest() } else { self.hear() };
            if heard.is_err() {
                // A sandbox that died says no more, which is not nonsense.
                self.observed.control_broken = self.assigned.is_some() && !gone && !self.is_gone();
                return Ok(());
            }
            if self.leavings.is_complete() || gone {
                return Ok(());
            }
            if last_look.elapsed() >= TICK {
                last_look = Instant::now();
                if self.must_end(last_look) {
                    return Ok(());
                }
            }
        }
    }

    /// Hands the job over: from here on its own code runs.
    fn assign(&mut self, launcher: &Launcher) -> io::Result<()> {
        let platform = &launcher.platform;
        self.guest.group.set_limits(&platform.ceilings(self.limits.mem_mb, self.limits.max_pids))?;
        let assignment = Assignment {
            max_pids: platform.process_limit(self.limits.max_pids),
            file_bytes: self.limits.max_file_mb * MIB,
            output_bytes: OUTPUT_FILES_BYTES_MAX as u64,
            code: self.job.code.as_bytes(),
            inputs: self.job.inputs.iter().map(|file| (&*file.path, &*file.contents)).collect(),
            outputs: self.job.outputs.iter().map(String::as_str).collect(),
        };
        self.words = assignment.to_frame();
        self.guest.dialogue.assign(self.job.outputs.len(), OUTPUT_FILES_BYTES_MAX);
        let usage = self.guest.group.usage();
        if usage.oom_kills.is_none() {
            self.guest_memory = GuestMemory::of(platform, &self.guest);
        }
        let stderr = self.guest.stderr.take();
        self.stderr = stderr.map(|pipe| Capture::new(Stream::Stderr, pipe, self.limits.output_bytes));
        self.assigned = Some((Instant::now(), usage));
        self.say();
        Ok(())
    }

    /// Waits for anything to happen, a tick at most. Returns whether the sandbox is gone.
    fn wait(&self, cancel: &Cancel) -> bool {
        let mut fds = vec![
            PollFd::new(&self.guest.exited, PollFlags::IN),
            PollFd::from_borrowed_fd(cancel.as_fd(), PollFlags::IN),
        ];
        let speaking = self.words_said < self.words.len();
        let interest = if speaking { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        fds.push(PollFd::new(&self.guest.control, interest));
        if self.assigned.is_some() {
            if let Some(stdin) = &self.guest.stdin {
                fds.push(PollFd::new(stdin, PollFlags::OUT));
            }
            let outputs = [&self.stdout, &self.stderr].into_iter().flatten().filter_map(Capture::as_fd);
            fds.extend(outputs.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        let tick = Timespec::try_from(TICK).unwrap_or_default();
        // An interrupted wait is an early look, nothing worse.
        let _ = poll(&mut fds, Some(&tick));
        fds.first().is_some_and(|exited| !exited.revents().is_empty())
    }

    /// Whether the sandbox has died by itself.
    fn is_gone(&self) -> bool {
        // The stream's end may be seen a moment before the death.
        is_readable(&self.guest.exited, DEATH_DEADLINE)
    }

    /// Says what the init can take now.
    fn say(&mut self) {
        let left = self.words.get(self.words_said..).unwrap_or_default();
        if left.is_empty() {
            return;
        }
        match rustix::io::write(&self.guest.control, left) {
            Ok(said) => self.words_said += said,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The end of the stream is noticed by who reads it.
            Err(_) => self.words_said = self.words.len(),
        }
    }

    /// Writes what fits of standard input. A job that does not read it, or closes it, loses nothing else by it.
    fn feed(&mut self) {
        if self.assigned.is_none() {
            return;
        }
        let Some(pipe) = &self.guest.stdin else { return };
        if !self.stdin.is_empty() {
            match rustix::io::write(pipe, self.stdin) {
                Ok(written) => self.stdin = self.stdin.get(written..).unwrap_or_default(),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => self.stdin = &[],
            }
        }
        if self.stdin.is_empty() {
            self.guest.stdin = None;
        }
    }

    fn read_output(&mut self, observer: &mut dyn JobObserver) {
        for stream in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
            stream.read_once(&mut self.buffer, observer);
        }
    }

    /// Takes in everything that a sandbox said before it was gone: more than one read may be left of its outputs.
    fn hear_the_rest(&mut self) -> Result<(), crate::control::Broken> {
        while !self.leavings.is_complete() && is_readable(&self.guest.control, Duration::ZERO) {
            self.hear()?;
        }
        Ok(())
    }

    /// Takes in what the init said.
    fn hear(&mut self) -> Result<(), crate::control::Broken> {
        for answer in self.guest.hear(&mut self.buffer)? {
            match answer {
                Answer::Ready => {}
                Answer::Refused => return Err(crate::control::Broken),
                Answer::Exited(code) => {
                    self.exited = Some(Instant::now());
                    self.observed.exit_code = Some(code.into());
                }
                Answer::Output(contents) => self.leavings.found(contents),
                Answer::Missing(reason) => self.leavings.missing(reason),
                Answer::Done => self.leavings.complete(),
            }
        }
        Ok(())
    }

    /// Bytes of the longer output stream.
    fn output_seen(&self) -> u64 {
        [&self.stdout, &self.stderr].into_iter().flatten().map(Capture::seen).max().unwrap_or(0)
    }

    /// Whether a job that runs has written far more than is kept. Asked after every read and not at every tick: how much
    /// one writes in a tick, or whether it ends before the next, is chance.
    fn is_flooded(&self) -> bool {
        self.exited.is_none() && self.output_seen() > self.limits.most_output()
    }

    /// Looks at every limit; notes the first that is exceeded.
    fn must_end(&mut self, now: Instant) -> bool {
        self.observed.oom_kills = self.guest.group.oom_kills().unwrap_or(0);
        if self.observed.oom_kills > 0 {
            return true;
        }
        let Some((assigned_at, at_assignment)) = self.assigned else {
            return now.duration_since(self.guest.started) > READY_DEADLINE;
        };
        if let Some(exited) = self.exited {
            // Nothing of the job runs any more.
            self.observed.control_broken = now.duration_since(exited) > COLLECT_DEADLINE;
            return self.observed.control_broken;
        }
        let spent = Spent {
            memory: self.guest_memory.as_ref().and_then(GuestMemory::bytes),
            wall: now.duration_since(assigned_at),
            cpu_usec: cpu_since(self.guest.group.cpu_usec(), at_assignment.cpu_usec),
            output: self.output_seen(),
        };
        self.observed.breach = spent.breach(&self.limits);
        self.observed.breach.is_some()
    }

    /// Kills what is left, reaps the child, and reads the pipes to their ends. Returns when the job ended, and what
    /// was used once all of it was dead.
    fn end(&mut self, observer: &mut dyn JobObserver) -> (Instant, Usage) {
        let ended_at = self.exited.unwrap_or_else(Instant::now);
        self.guest.group.end();
        let pid = self.guest.child.pid();
        if matches!(self.guest.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
        if is_readable(&self.guest.exited, KILL_DEADLINE) {
            let _ = self.guest.child.wait();
        } else {
            tracing::error!(dir = %self.guest.dir.path().display(), "a killed sandbox does not die");
        }
        if self.assigned.is_some() {
            for stream in [&mut self.stdout, &mut self.stderr].into_iter().flatten() {
                // Bounded in case something unkillable goes on writing.
                let _ = (0..DRAIN_READS).all(|_| stream.read_once(&mut self.buffer, observer));
            }
        }
        // The kernel counts a kill for memory a moment after the victim is gone.
        let usage = self.guest.group.usage();
        self.observed.oom_kills = usage.oom_kills.unwrap_or(0);
        self.observed.pids_ceiling_hits = usage.pids_ceiling_hits.unwrap_or(0);
        self.observed.ready = self.assigned.is_some();
        self.observed.output_missing = self.leavings.is_any_missing();
        (ended_at, usage)
    }

    fn report(mut self, sandbox: &Sandbox, (ended_at, last): (Instant, Usage)) -> JobReport {
        let (outcome, killed_by) = self.observed.outcome();
        let assigned_at = self.assigned.map(|(at, _)| at);
        let diagnostic = if assigned_at.is_some() { None } else { Some(self.guest.diagnose()) };
        let (artifacts, missing_outputs) = self.leavings.into_parts();
        let launcher = &sandbox.launcher;
        let tree = launcher.trees.get(&self.job.runtime);
        let seen = |stream, capture: Option<Capture>| {
            capture.map_or_else(|| Capture::unread(stream).report(), Capture::report)
        };
        JobReport {
            outcome,
            killed_by,
            exit_code: self.observed.exit_code,
            requested_limits: self.job.limits,
            effective_limits: self.limits,
            limit_enforcement: sandbox.capabilities.limit_enforcement,
            resource_usage: ResourceUsage {
                boot_time_ms: millis(assigned_at.unwrap_or(ended_at).duration_since(self.asked)),
                wall_time_ms: assigned_at.map_or(0, |at| millis(ended_at.duration_since(at))),
                cpu_time_usec: self
                    .assigned
                    .and_then(|(_, before)| cpu_since(last.cpu_usec, before.cpu_usec)),
                memory_peak_bytes: last.memory_peak,
            },
            artifacts,
            missing_outputs,
            stdout: seen(Stream::Stdout, self.stdout.take()),
            stderr: seen(Stream::Stderr, self.stderr.take()),
            posture: assigned_at.map(|_| Posture {
                isolation_class: launcher.platform.class(),
                bootstrap_ready: true,
                seccomp: launcher.platform.seccomp().to_owned(),
                networking: "disabled".to_owned(),
                runtime_version: launcher.platform.runtime().version.clone(),
                runtime_sha256: launcher.platform.runtime().sha256.clone(),
                runtime_pack: self.job.runtime.clone(),
                rootfs_sha256: tree.map(|tree| tree.sha256.clone()).unwrap_or_default(),
                config_sha256: self.guest.config_sha256.clone(),
            }),
            diagnostic,
        }
    }
}

fn cpu_since(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then?))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
