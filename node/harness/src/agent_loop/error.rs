//! Why a run has no result.

use thiserror::Error;

use super::ConversationResult;
use crate::model::{BoxError, ModelError, is_stop};

/// Why a run has no result. A stop is none of these.
#[derive(Debug, Error)]
pub enum RunError {
    /// The conversation cannot be gone on with.
    #[error("the conversation cannot be the start of a run")]
    Seed(#[from] SeedError),
    /// A tool that this loop does not know how to use.
    #[error("the tool {name} is executed by the caller, which this loop cannot wait for")]
    ExternalTool {
        /// Which.
        name: String,
    },
    /// Two tools of one name.
    #[error("there are two tools of the name {name}")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The answer was cut off.
    #[error(transparent)]
    Truncated(#[from] Box<TruncatedAnswerError>),
    /// A loop's own failure.
    #[error(transparent)]
    Other(BoxError),
}

impl RunError {
    /// A loop's own failure.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    /// Whether this only says that the run was stopped, however deep.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        match self {
            Self::Model(error) => error.is_stop(),
            Self::Other(error) => is_stop(&**error),
            _ => false,
        }
    }
}

/// What is wrong with a conversation as the start of a run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SeedError {
    /// Nobody has said anything.
    #[error("it is empty")]
    Empty,
    /// The model has spoken last, so there is nothing to answer.
    #[error("it ends with the model's own message; add the user's or the results of its tools")]
    EndsWithModel,
    /// The tool results at its end are not those the model waits for.
    #[error("its last message has results for the calls {found:?}, and the model waits for {expected:?}")]
    Results {
        /// The calls of the model's last message.
        expected: Vec<String>,
        /// The calls that are answered.
        found: Vec<String>,
    },
}

/// The answer is prose that was cut off.
#[derive(Debug, Error)]
#[error("the answer was cut off after {} bytes", .result.text.len())]
pub struct TruncatedAnswerError {
    /// Everything else about the run; its text is the part that came.
    pub result: ConversationResult,
}
