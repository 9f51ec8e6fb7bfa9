//! Why an engine does not run, or why a run of it failed.

use thiserror::Error;

use crate::agent_loop::RunError;
use crate::model::BoxError;
use crate::private::PrivateRunError;
use crate::provider::ProviderError;

/// Why an engine does not run something: a sentence that names what is missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// A refusal for this reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The engine does not do such runs.
    #[error("the engine {engine} refuses the run")]
    Refused {
        /// Which.
        engine: String,
        /// Why.
        #[source]
        refusal: Refusal,
    },
    /// There is no provider for it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Its loop failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A private run failed, and more is not said.
    #[error(transparent)]
    Private(#[from] PrivateRunError),
    /// Something it needs could not be set up.
    #[error("cannot set up {what}")]
    Setup {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The program that does the run failed.
    #[error("the agent failed: {message}")]
    Agent {
        /// What is known, without the agent's own words.
        message: String,
    },
}
