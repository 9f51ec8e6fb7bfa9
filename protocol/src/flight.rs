//! A flight: the life of one ask.
//!
//! ```text
//! queued -> running <-> waiting -> completed | failed | cancelled
//! queued -> waiting | failed | cancelled
//! ```
//! The origin of the ask owns the flight. Its terminal state never changes: a result that comes later is kept beside
//! it. A wait for a flight is a budget of the caller's and changes nothing.

use serde::{Deserialize, Serialize};

/// Where a flight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlightState {
    /// Accepted and durable; the agent has not begun.
    Queued,
    /// The agent is at work.
    Running,
    /// Blocked on someone or something that is named.
    Waiting,
    /// The agent answered.
    Completed,
    /// It ended without an answer, for a reason that is named.
    Failed,
    /// Someone stopped it.
    Cancelled,
}

impl FlightState {
    /// Whether it will never change again.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for FlightState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a flight ended without an answer. The name is the `code` people and programs see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The deadline passed and nothing was ever sent to the agent's node.
    PeerUnreachable,
    /// It was sent, and the node gave no answer for as long as we wait.
    PeerSilent,
    /// One side's disk was restored from a backup, and the ask lies in the gap.
    OutcomeUnknown,
    /// The agent's node does not let us.
    Refused,
    /// No such agent there.
    UnknownAgent,
    /// The agent is not able to run on its node.
    AgentOffline,
    /// The agent took longer than its limit or the ask's deadline.
    TimedOut,
    /// The agent's program failed.
    EngineFailed,
    /// The agent ended without saying anything.
    EmptyReply,
    /// The agent's node was restarted while the agent was at work.
    NodeRestarted,
    /// Passing the ask on would go in a circle, or too far.
    AskLoop,
    /// The agent's node has no room for it.
    Busy,
    /// The agent's node left the mesh or was revoked.
    PeerGone,
}

impl FailureCode {
    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeerUnreachable => "peer_unreachable",
            Self::PeerSilent => "peer_silent",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Refused => "refused",
            Self::UnknownAgent => "unknown_agent",
            Self::AgentOffline => "agent_offline",
            Self::TimedOut => "timed_out",
            Self::EngineFailed => "engine_failed",
            Self::EmptyReply => "empty_reply",
            Self::NodeRestarted => "node_restarted",
            Self::AskLoop => "ask_loop",
            Self::Busy => "busy",
            Self::PeerGone => "peer_gone",
        }
    }
}

/// How a flight ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlightOutcome {
    /// The agent's answer.
    Completed {
        /// Its text.
        reply: String,
    },
    /// No answer.
    Failed {
        /// Why.
        code: FailureCode,
        /// One sentence for people.
        detail: String,
        /// What to do about it, when something can be done.
        remediation: Option<String>,
        /// Whether the agent may have begun, and so may have had effects.
        may_have_run: bool,
    },
    /// Stopped on request.
    Cancelled {
        /// Whether the agent may have begun.
        may_have_run: bool,
    },
}

impl FlightOutcome {
    /// A failure before anything could begin.
    #[must_use]
    pub fn not_begun(code: FailureCode, detail: impl Into<String>) -> Self {
        Self::Failed { code, detail: detail.into(), remediation: None, may_have_run: false }
    }

    /// The terminal state this is.
    #[must_use]
    pub const fn state(&self) -> FlightState {
        match self {
            Self::Completed { .. } => FlightState::Completed,
            Self::Failed { .. } => FlightState::Failed,
            Self::Cancelled { .. } => FlightState::Cancelled,
        }
    }

    /// Whether the agent may have begun.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        match self {
            Self::Completed { .. } => true,
            Self::Failed { may_have_run, .. } | Self::Cancelled { may_have_run } => *may_have_run,
        }
    }
}
