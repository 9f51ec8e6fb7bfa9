//! How a run ended, in one word.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It came to its own end.
    Completed,
    /// It used up its steps.
    StepsExhausted,
    /// Its time was over.
    TimedOut,
    /// Its caller stopped it.
    Canceled,
    /// It failed.
    Failed,
}

/// Why a loop stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEnd {
    /// The model asked for nothing more.
    EndTurn,
    /// The model's prose was cut off.
    Length,
    /// A tool gave the final answer.
    TerminalTool,
    /// The steps were used up.
    StepsExhausted,
    /// The time was over.
    TimedOut,
    /// The caller stopped it.
    Canceled,
}

impl LoopEnd {
    /// The outcome of a run whose loop stopped like this.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Self::EndTurn | Self::Length | Self::TerminalTool => Outcome::Completed,
            Self::StepsExhausted => Outcome::StepsExhausted,
            Self::TimedOut => Outcome::TimedOut,
            Self::Canceled => Outcome::Canceled,
        }
    }
}
