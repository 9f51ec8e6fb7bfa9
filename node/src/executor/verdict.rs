//! How an attempt ended, in the words that requesters read.
//!
//! The words are these and no others: `wall`, `cpu`, `memory`, `output`, `pids`, `cancelled`,
//! `cancelled_before_start`, `deadline`, `server_restarted`, `requested_output_unavailable`, `executor_unavailable`,
//! `executor_failure`.

use mesh_node_core::event::CloseReason;
use mesh_protocol::evidence::receipt::Outcome;
use mesh_sandbox::{JobReport, KilledBy, SandboxError};

use super::translation;

/// The end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) exit_code: Option<i32>,
    pub(super) killed_by: Option<&'static str>,
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
        may_have_run: true,
        complete: false,
        ..Self::before_start(Outcome::Error, "executor_failure")
    };

    const fn before_start(outcome: Outcome, word: &'static str) -> Self {
        Self { outcome, exit_code: None, killed_by: Some(word), may_have_run: false, complete: true }
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
    pub(super) const fn of_closing(reason: CloseReason) -> Self {
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
    /// Without READY, only a sandbox that exited by itself surely never handed over to the program: one that was ended
    /// may have become ready a moment earlier.
    pub(super) fn of_report(report: &JobReport, stopped_by_requester: bool) -> Self {
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
        Self {
            outcome,
            exit_code: report.exit_code,
            killed_by: word,
            may_have_run: report.posture.is_some() || report.exit_code.is_none(),
            complete: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use mesh_sandbox::{
        Bounds, EffectiveLimits, LimitEnforcement, RequestedLimits, ResourceUsage, StreamReport,
    };

    use super::*;

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

    #[test]
    fn only_a_sandbox_that_exited_by_itself_before_ready_surely_ran_nothing() {
        let error = mesh_sandbox::Outcome::Error;
        let exited = Verdict::of_report(&never_ready(KilledBy::NotReady, error, Some(128)), false);
        assert_eq!((exited.killed_by, exited.may_have_run), (Some("executor_failure"), false));
        let killed = Verdict::of_report(&never_ready(KilledBy::NotReady, error, None), false);
        assert!(killed.may_have_run);
    }

    #[test]
    fn a_stop_nobody_asked_for_is_a_restart_and_not_a_cancellation() {
        let stopped = never_ready(KilledBy::Cancelled, mesh_sandbox::Outcome::Cancelled, None);
        let asked_for = Verdict::of_report(&stopped, true);
        assert_eq!((asked_for.outcome, asked_for.killed_by), (Outcome::Cancelled, Some("cancelled")));
        let restart = Verdict::of_report(&stopped, false);
        assert_eq!((restart.outcome, restart.killed_by), (Outcome::Error, Some("server_restarted")));
    }
}
