//! Why a connector brings no tools.

use thiserror::Error;

use crate::model::BoxError;
use crate::stop::StopReason;

/// Why a connector brings no tools.
#[derive(Debug, Error)]
pub enum ConnectorError {
    /// Nobody could be reached like that.
    #[error("the connector {connector} {problem}")]
    Configuration {
        /// Which.
        connector: String,
        /// What is wrong: `has no endpoint`.
        problem: String,
    },
    /// Its program or server could not be reached, or did not behave.
    #[error("cannot connect to the connector {connector}")]
    Connect {
        /// Which.
        connector: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// It took too long.
    #[error("the connector {connector} was not ready in time")]
    TimedOut {
        /// Which.
        connector: String,
    },
    /// Two tools would have one name.
    #[error("two tools are called {name}; name them apart")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Connecting was stopped.
    #[error("connecting was stopped")]
    Stopped(#[from] StopReason),
}
