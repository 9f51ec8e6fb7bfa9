//! What became of a job, decided from everything that was observed.
//!
//! Pure. The exit code alone is not trusted: after the kernel killed part of a job for memory, the rest may
//! still exit with 0, or not at all. So stronger observations come first:
//!
//! ```text
//! cancelled > out of memory > wall > cpu > output > not ready > not understood > processes > lost > exit code
//!           > missing outputs
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::EffectiveLimits;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with 0.
    Succeeded,
    /// It exited with something else, or broke a limit that is its own doing.
    Failed,
    /// It used up its wall or processor time.
    TimedOut,
    /// It needed more memory than it may have.
    OomKilled,
    /// The caller ended it.
    Cancelled,
    /// The platform could not run it, or cannot prove that it did.
    Error,
}

/// Why a job did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KilledBy {
    /// The caller.
    Cancelled,
    /// The kernel, for memory.
    Memory,
    /// Its wall time was up.
    Wall,
    /// Its processor time was up.
    Cpu,
    /// It wrote far more than is kept.
    Output,
    /// gVisor itself ran out of host threads on the job's behalf.
    Pids,
    /// The sandbox never reported ready.
    NotReady,
    /// The sandbox was ended by someone else.
    SandboxLost,
    /// What the sandbox said about the job was not understood, so none of it is believed.
    ControlBroken,
    /// It succeeded, but a file it was to leave is missing or may not be taken.
    RequestedOutputUnavailable,
}

/// Everything observed about a job that decides its outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The caller cancelled it before it ended.
    pub cancelled: bool,
    /// Processes of it that the kernel killed for memory.
    pub oom_kills: u64,
    /// The limit this crate killed it for.
    pub breach: Option<Breach>,
    /// Times its host thread ceiling was hit.
    pub pids_ceiling_hits: u64,
    /// The sandbox reported ready.
    pub ready: bool,
    /// What came from the sandbox was no sense.
    pub control_broken: bool,
    /// Its exit code, as the sandbox's init said; `None` when it said none.
    pub exit_code: Option<i32>,
    /// A file that it was to leave is missing or may not be taken.
    pub output_missing: bool,
}

/// A limit found exceeded while the job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Memory, seen by looking where no control group enforces it.
    Memory,
    /// Wall time.
    Wall,
    /// Processor time.
    Cpu,
    /// Bytes written to a stream.
    Output,
}

/// What a running job has used of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Bytes of memory, where looked at.
    pub(crate) memory: Option<u64>,
    /// Time since ready.
    pub(crate) wall: Duration,
    /// Processor time since ready in microseconds, where accounted for.
    pub(crate) cpu_usec: Option<u64>,
    /// Bytes of the longer output stream.
    pub(crate) output: u64,
}

impl Spent {
    /// The first limit exceeded, in order of precedence.
    pub(crate) fn breach(&self, limits: &EffectiveLimits) -> Option<Breach> {
        if self.memory.is_some_and(|bytes| bytes > limits.mem_mb.saturating_mul(1024 * 1024)) {
            return Some(Breach::Memory);
        }
        if self.wall >= Duration::from_secs(limits.wall_seconds) {
            return Some(Breach::Wall);
        }
        if self.cpu_usec.is_some_and(|micros| micros >= limits.cpu_seconds.saturating_mul(1_000_000)) {
            return Some(Breach::Cpu);
        }
        (self.output > limits.most_output()).then_some(Breach::Output)
    }
}

impl Observed {
    /// The outcome, and what ended the job if it did not end by itself.
    #[must_use]
    pub fn outcome(&self) -> (Outcome, Option<KilledBy>) {
        if self.cancelled {
            return (Outcome::Cancelled, Some(KilledBy::Cancelled));
        }
        if self.oom_kills > 0 {
            return (Outcome::OomKilled, Some(KilledBy::Memory));
        }
        match self.breach {
            Some(Breach::Memory) => return (Outcome::OomKilled, Some(KilledBy::Memory)),
            Some(Breach::Wall) => return (Outcome::TimedOut, Some(KilledBy::Wall)),
            Some(Breach::Cpu) => return (Outcome::TimedOut, Some(KilledBy::Cpu)),
            Some(Breach::Output) => return (Outcome::Failed, Some(KilledBy::Output)),
            None => {}
        }
        match self.exit_code {
            _ if !self.ready => (Outcome::Error, Some(KilledBy::NotReady)),
            _ if self.control_broken => (Outcome::Error, Some(KilledBy::ControlBroken)),
            None if self.pids_ceiling_hits > 0 => (Outcome::Failed, Some(KilledBy::Pids)),
            None => (Outcome::Error, Some(KilledBy::SandboxLost)),
            Some(0) if self.output_missing => (Outcome::Error, Some(KilledBy::RequestedOutputUnavailable)),
            Some(0) => (Outcome::Succeeded, None),
            Some(_) => (Outcome::Failed, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Bounds, OUTPUT_KILL_MULTIPLE, RequestedLimits};

    const CLEAN: Observed = Observed {
        cancelled: false,
        oom_kills: 0,
        breach: None,
        pids_ceiling_hits: 0,
        ready: true,
        control_broken: false,
        exit_code: Some(0),
        output_missing: false,
    };

    #[test]
    fn each_observation_outranks_all_that_follow_it() {
        let mut observed = CLEAN;
        let mut expect = |change: &dyn Fn(&mut Observed), outcome, killed_by| {
            change(&mut observed);
            assert_eq!(observed.outcome(), (outcome, killed_by), "{observed:?}");
        };
        expect(&|_| {}, Outcome::Succeeded, None);
        expect(
            &|seen| seen.output_missing = true,
            Outcome::Error,
            Some(KilledBy::RequestedOutputUnavailable),
        );
        expect(&|seen| seen.exit_code = Some(3), Outcome::Failed, None);
        expect(&|seen| seen.exit_code = None, Outcome::Error, Some(KilledBy::SandboxLost));
        expect(&|seen| seen.pids_ceiling_hits = 1, Outcome::Failed, Some(KilledBy::Pids));
        expect(&|seen| seen.control_broken = true, Outcome::Error, Some(KilledBy::ControlBroken));
        expect(&|seen| seen.ready = false, Outcome::Error, Some(KilledBy::NotReady));
        expect(&|seen| seen.breach = Some(Breach::Output), Outcome::Failed, Some(KilledBy::Output));
        expect(&|seen| seen.breach = Some(Breach::Cpu), Outcome::TimedOut, Some(KilledBy::Cpu));
        expect(&|seen| seen.breach = Some(Breach::Wall), Outcome::TimedOut, Some(KilledBy::Wall));
        expect(&|seen| seen.breach = Some(Breach::Memory), Outcome::OomKilled, Some(KilledBy::Memory));
        expect(&|seen| seen.oom_kills = 1, Outcome::OomKilled, Some(KilledBy::Memory));
        expect(&|seen| seen.cancelled = true, Outcome::Cancelled, Some(KilledBy::Cancelled));
    }

    #[test]
    fn an_exit_with_zero_after_an_oom_kill_is_no_success() {
        assert_eq!(Observed { oom_kills: 1, ..CLEAN }.outcome().0, Outcome::OomKilled);
    }

    #[test]
    fn an_exit_with_zero_without_ready_is_no_success() {
        assert_eq!(Observed { ready: false, ..CLEAN }.outcome().0, Outcome::Error);
    }

    #[test]
    fn the_thread_ceiling_explains_a_crash_and_only_a_crash() {
        let crashed = Observed { pids_ceiling_hits: 1, exit_code: None, ..CLEAN };
        assert_eq!(crashed.outcome(), (Outcome::Failed, Some(KilledBy::Pids)));
        assert_eq!(Observed { exit_code: Some(0), ..crashed }.outcome(), (Outcome::Succeeded, None));
    }

    #[test]
    fn a_missing_output_turns_a_success_into_an_error_and_leaves_a_failure_one() {
        let missing = Observed { output_missing: true, ..CLEAN };
        assert_eq!(missing.outcome(), (Outcome::Error, Some(KilledBy::RequestedOutputUnavailable)));
        assert_eq!(Observed { exit_code: Some(1), ..missing }.outcome(), (Outcome::Failed, None));
    }

    #[test]
    fn time_is_up_at_its_limit_and_output_past_its_multiple() {
        let limits = EffectiveLimits::clamp(&RequestedLimits::default(), &Bounds::default());
        let breach = |wall, cpu_usec, output| {
            Spent { memory: None, wall: Duration::from_secs(wall), cpu_usec, output }.breach(&limits)
        };
        let most = limits.output_bytes * OUTPUT_KILL_MULTIPLE;
        assert_eq!(breach(14, Some(14_999_999), most), None);
        assert_eq!(breach(15, Some(0), 0), Some(Breach::Wall));
        assert_eq!(breach(0, Some(15_000_000), 0), Some(Breach::Cpu));
        assert_eq!(breach(0, None, most + 1), Some(Breach::Output));
        assert_eq!(breach(15, Some(u64::MAX), u64::MAX), Some(Breach::Wall));
        let memory = |bytes| Spent { memory: Some(bytes), wall: Duration::ZERO, cpu_usec: None, output: 0 };
        assert_eq!(memory(256 << 20).breach(&limits), None);
        assert_eq!(memory((256 << 20) + 1).breach(&limits), Some(Breach::Memory));
    }
}
