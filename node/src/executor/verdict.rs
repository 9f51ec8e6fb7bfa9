//! How an attempt ended, in the words that requesters read.
//!
//! The words of what was run here are these and no others: `wall`, `cpu`, `memory`, `output`, `pids`, `cancelled`,
//! `cancelled_before_start`, `deadline`, `server_restarted`, `requested_output_unavailable`,
//! `minimum_isolation_observation_mismatch`, `executor_unavailable`, `executor_failure`. An end that this node decided
//! for a job that was to run elsewhere has the core's word.

use std::borrow::Cow;

use mesh_node_core::event::CloseReason;
use mesh_protocol::evidence::receipt::Outcome;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::JobResult;
use mesh_sandbox::{JobReport, KilledBy, SandboxError};

use super::translation;

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) exit_code: Option<i32>,
    pub(super) killed_by: Option<Cow<'static, str>>,
    /// Whether the program may have begun to run.
    pub(super) may_have_run: bool,
    /// False when something that belongs in the evidence was lost.
    pub(super) complete: bool,
}

impl Verdict {
    /// No sandbox here can run this job.
    pub(super) const UNAVAILABLE: Self = Self::before_start(Outcome::Error, "executor_unavailable");
    /// The sandbox could not be started.
    pub(super) const NOT_STARTED: Self = Self::before_start(Outcome::Error, "executor_failure");
    /// The executor itself failed while the job may have been running.
    pub(super) const LOST: Self = Self {
        outcome: Outcome::Error,
        exit_code: None,
        killed_by: Some(Cow::Borrowed("executor_failure")),
        may_have_run: true,
        complete: false,
    };

    const fn before_start(outcome: Outcome, word: &'static str) -> Self {
        Self {
            outcome,
            exit_code: None,
            killed_by: Some(Cow::Borrowed(word)),
            may_have_run: false,
            complete: true,
        }
    }

    /// It was ended before it started: by its requester, or because this node stops.
    pub(super) const fn stopped_before_start(by_requester: bool) -> Self {
        if by_requester {
            Self::before_start(Outcome::Cancelled, "cancelled_before_start")
        } else {
            Self::before_start(Outcome::Error, "server_restarted")
        }
    }

    /// It is closed without having been run to its end.
    pub(super) fn of_closing(reason: CloseReason) -> Self {
        match reason {
            CloseReason::NodeRestarted => {
                let interrupted = Self::stopped_before_start(false);
                Self { may_have_run: true, complete: false, ..interrupted }
            }
            CloseReason::CancelledBeforeStart => Self::stopped_before_start(true),
            CloseReason::Unavailable => Self::UNAVAILABLE,
            CloseReason::DeadlinePassed => Self::before_start(Outcome::Error, "deadline"),
        }
    }

    /// It was decided here for a job that was to run elsewhere. What happened there, if anything did, is not known.
    pub(super) fn of_result(result: &JobResult) -> Self {
        Self {
            outcome: Outcome::try_from(result.status).unwrap_or(Outcome::Error),
            exit_code: result.exit_code,
            killed_by: result.killed_by.clone().map(Cow::Owned),
            may_have_run: result.may_have_run,
            complete: !result.may_have_run,
        }
    }

    /// The sandbox refused or failed before the job started.
    pub(super) const fn of_refusal(error: &SandboxError) -> Self {
        match error {
            SandboxError::Runtime(_) | SandboxError::Rootfs(_) | SandboxError::LanguageUnavailable { .. } => {
                Self::UNAVAILABLE
            }
            _ => Self::NOT_STARTED,
        }
    }

    /// The sandbox ran the job, or tried to.
    ///
    /// The class is seen as the program is handed over, and that is done from outside: where none was seen, nothing ran,
    /// however the sandbox ended.
    pub(super) fn of_report(report: &JobReport, minimum: IsolationClass, stopped_by_requester: bool) -> Self {
        let interrupted = report.killed_by == Some(KilledBy::Cancelled) && !stopped_by_requester;
        let outcome = if interrupted { Outcome::Error } else { translation::outcome(report.outcome) };
        let word = report.killed_by.map(|killed_by| match killed_by {
            KilledBy::Cancelled if interrupted => "server_restarted",
            KilledBy::Cancelled => "cancelled",
            KilledBy::Memory => "memory",
            KilledBy::Wall => "wall",
            KilledBy::Cpu => "cpu",
            KilledBy::Output => "output",
            KilledBy::Pids => "pids",
            KilledBy::RequestedOutputUnavailable => "requested_output_unavailable",
            KilledBy::NotReady | KilledBy::SandboxLost | KilledBy::ControlBroken => "executor_failure",
        });
        let verdict = Self {
            outcome,
            exit_code: report.exit_code,
            killed_by: word.map(Cow::Borrowed),
            may_have_run: report.posture.is_some(),
            complete: true,
        };
        verdict.under(report, minimum)
    }

    /// The same, unless it ran under something weaker than was asked for, or succeeded under nothing that was seen.
    fn under(self, report: &JobReport, minimum: IsolationClass) -> Self {
        let class = report.posture.as_ref().map(|posture| translation::isolation(posture.isolation_class));
        let strong = class.map(|class| class.is_some_and(|class| class.satisfies(minimum)));
        let unproven = strong == Some(false) || (strong.is_none() && self.outcome == Outcome::Succeeded);
        if !unproven {
            return self;
        }
        let killed_by = Some(Cow::Borrowed("minimum_isolation_observation_mismatch"));
        Self { outcome: Outcome::Error, killed_by, may_have_run: true, ..self }
    }

    /// The same, when files that were asked for are not there: a success is none.
    pub(super) fn without_files(self) -> Self {
        if self.outcome != Outcome::Succeeded {
            return self;
        }
        let killed_by = Some(Cow::Borrowed("requested_output_unavailable"));
        Self { outcome: Outcome::Error, killed_by, ..self }
    }
}

#[cfg(test)]
mod tests {
    use mesh_sandbox::{
        Bounds, EffectiveLimits, LimitEnforcement, Posture, RequestedLimits, ResourceUsage, StreamReport,
    };

    use super::*;

    const MINIMUM: IsolationClass = IsolationClass::GvisorApplicationKernel;

    /// What a sandbox reports that never became ready.
    fn never_ready(killed_by: KilledBy, outcome: mesh_sandbox::Outcome, exit_code: Option<i32>) -> JobReport {
        let asked = RequestedLimits::default();
        let nothing =
            StreamReport { bytes_seen: 0, bytes_kept: 0, raw_sha256: String::new(), truncated: false };
        JobReport {
            outcome,
            killed_by: Some(killed_by),
            exit_code,
            requested_limits: asked,
            effective_limits: EffectiveLimits::clamp(&asked, &Bounds::default()),
            limit_enforcement: LimitEnforcement {
                wall_seconds: true,
                cpu_seconds: true,
                mem_mb: true,
                max_pids: true,
                max_file_mb: true,
            },
            resource_usage: ResourceUsage::default(),
            artifacts: Vec::new(),
            missing_outputs: Vec::new(),
            stdout: nothing.clone(),
            stderr: nothing,
            posture: None,
            diagnostic: None,
        }
    }

    /// What is seen of a sandbox of this class.
    fn posture(isolation_class: mesh_sandbox::IsolationClass) -> Posture {
        Posture {
            isolation_class,
            bootstrap_ready: true,
            seccomp: String::new(),
            networking: String::new(),
            runtime_version: String::new(),
            runtime_sha256: String::new(),
            runtime_pack: None,
            rootfs_sha256: String::new(),
            config_sha256: String::new(),
        }
    }

    #[test]
    fn what_was_not_handed_to_a_sandbox_surely_did_not_run_and_what_was_may_have() {
        let error = mesh_sandbox::Outcome::Error;
        let unready = never_ready(KilledBy::NotReady, error, None);
        let verdict = Verdict::of_report(&unready, MINIMUM, false);
        assert_eq!((verdict.killed_by.as_deref(), verdict.may_have_run), (Some("executor_failure"), false));
        let lost = JobReport {
            killed_by: Some(KilledBy::SandboxLost),
            posture: Some(posture(mesh_sandbox::IsolationClass::GvisorApplicationKernel)),
            ..unready
        };
        let verdict = Verdict::of_report(&lost, MINIMUM, false);
        assert_eq!((verdict.killed_by.as_deref(), verdict.may_have_run), (Some("executor_failure"), true));
    }

    #[test]
    fn a_stop_nobody_asked_for_is_a_restart_and_not_a_cancellation() {
        let stopped = never_ready(KilledBy::Cancelled, mesh_sandbox::Outcome::Cancelled, None);
        let asked_for = Verdict::of_report(&stopped, MINIMUM, true);
        assert_eq!(
            (asked_for.outcome, asked_for.killed_by.as_deref()),
            (Outcome::Cancelled, Some("cancelled"))
        );
        let restart = Verdict::of_report(&stopped, MINIMUM, false);
        assert_eq!(
            (restart.outcome, restart.killed_by.as_deref()),
            (Outcome::Error, Some("server_restarted"))
        );
    }

    #[test]
    fn a_success_under_less_isolation_than_was_asked_for_or_under_none_that_was_seen_is_an_error() {
        let unseen = never_ready(KilledBy::NotReady, mesh_sandbox::Outcome::Succeeded, Some(0));
        let unseen = JobReport { killed_by: None, ..unseen };
        let posture = posture(mesh_sandbox::IsolationClass::LinuxSharedKernel);
        let weak = JobReport { posture: Some(posture), ..unseen.clone() };
        for report in [&unseen, &weak] {
            let verdict = Verdict::of_report(report, MINIMUM, false);
            assert_eq!(verdict.outcome, Outcome::Error);
            assert_eq!(verdict.killed_by.as_deref(), Some("minimum_isolation_observation_mismatch"));
        }
        let enough = Verdict::of_report(&weak, IsolationClass::LinuxSharedKernel, false);
        assert_eq!(enough.outcome, Outcome::Succeeded);
    }

    #[test]
    fn a_file_that_is_missing_makes_a_success_an_error_and_leaves_a_failure_one() {
        let report = never_ready(KilledBy::Wall, mesh_sandbox::Outcome::TimedOut, None);
        let timed_out = Verdict::of_report(&report, MINIMUM, false);
        assert_eq!(timed_out.clone().without_files(), timed_out);
        let success = Verdict { outcome: Outcome::Succeeded, killed_by: None, ..timed_out };
        let without = success.without_files();
        assert_eq!(
            (without.outcome, without.killed_by.as_deref()),
            (Outcome::Error, Some("requested_output_unavailable"))
        );
    }
}
