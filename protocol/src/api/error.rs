//! A refusal or a failure, as every surface shows it.

use serde::{Deserialize, Serialize};

use crate::address::AgentAddress;

/// What kind of no this is. It decides the HTTP status and the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request is wrong; repeating it cannot help.
    Invalid,
    /// What it names is not there.
    NotFound,
    /// It could mean several things; `candidates` has them.
    Ambiguous,
    /// Not allowed, by policy, trust or missing credential.
    Refused,
    /// Right, but it contradicts what is there: another request under the same id, a state that excludes it.
    Conflict,
    /// No room now; `retryable`.
    Busy,
    /// The node, a peer or a sandbox is not there now.
    Unavailable,
    /// Our fault.
    Internal,
}

/// One agent an ambiguous or misspelt address could have meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The shortest address that means only this one.
    pub address: AgentAddress,
    /// The full address, with its node.
    pub full: AgentAddress,
    /// What its node says of it, or what we see of its node: `online`, `offline`, `unreachable`.
    pub reachability: String,
}

/// The body of every error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// Stable, for programs: `unknown_target`, `minimum_isolation_unsatisfied`, ...
    pub code: String,
    /// What kind of no.
    pub kind: ErrorKind,
    /// One lower-case sentence that says what is wrong, without the way out.
    pub message: String,
    /// The ways out, most likely first: commands to type, settings to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// What it could have meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl ApiError {
    /// An error with no hint yet.
    #[must_use]
    pub fn new(kind: ErrorKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        let retryable = matches!(kind, ErrorKind::Busy | ErrorKind::Unavailable);
        let (code, message) = (code.into(), message.into());
        Self { code, kind, message, hints: Vec::new(), candidates: Vec::new(), retryable }
    }

    /// With one more way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
